"""Changes of a published view between two versions of an environment, row by row.

Rows are counted with weights: a version's rows weigh one, those of the version before minus one.
What a query of any kind sums up to zero has not changed, so every way to read changes (two whole
versions, Iceberg's log of commits, row lineage) needs only to weigh what may differ, and rows that
are there twice, carried over from file to file, or made equal by a projection cancel out.
"""
