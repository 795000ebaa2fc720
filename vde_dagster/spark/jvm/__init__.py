"""A JVM for Spark: finding Java, starting it, archiving its classes, writing local files."""
