"""Iceberg tables as Spark makes and changes them, with a JVM to ask or without."""
