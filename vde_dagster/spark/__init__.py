"""Work on Spark: sessions, one write strategy per model kind, and audits.

Importing this package does not import PySpark, which happens with the first session. With Spark
Connect, a session has no access to a JVM. Therefore `tables` reads metadata and makes branches
through the lakehouse, and `session.jobs` tags running jobs.
"""
