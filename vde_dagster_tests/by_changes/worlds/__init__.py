"""Random histories of refreshed models on Spark, over tables of all kinds, in two environments."""
