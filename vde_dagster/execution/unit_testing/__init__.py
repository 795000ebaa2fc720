"""Unit tests of models on Spark, alone or with a plan, without touching any table."""
