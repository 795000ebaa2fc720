"""Unit tests of models on Spark, alone or with a plan, without writing to any table."""
