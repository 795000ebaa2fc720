"""Sessions of Spark: start in a new or running JVM, or on a server, and causes of their ends."""
