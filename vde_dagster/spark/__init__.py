"""Work on Spark: sessions, one write strategy per model kind, and audits.

Importing this package does not import PySpark, which happens with the first session. A session may
use Spark Connect, without access to a JVM: `tables` reads metadata and makes branches through the
lakehouse, and `session.jobs` tags running jobs.
"""
