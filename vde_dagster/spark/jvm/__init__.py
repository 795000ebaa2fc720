"""A JVM for Spark: finding Java, starting it, archiving its classes, and warming it up."""
