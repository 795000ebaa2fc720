"""Models as Dagster shows them: their live versions, keys, partitions and looks."""
