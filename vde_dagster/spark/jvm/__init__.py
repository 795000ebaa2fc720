"""A JVM of Spark: which Java, how it starts, its archived classes, and work that makes it fast."""
