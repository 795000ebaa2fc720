"""Models in Dagster: their live versions, asset keys, partitions and specs."""
