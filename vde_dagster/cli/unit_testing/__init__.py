"""Running the YAML unit tests of a project on Spark, without touching its tables."""
