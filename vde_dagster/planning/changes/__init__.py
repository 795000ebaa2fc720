"""Changes of a published view between two versions of an environment, row by row.

Each row of the later version has the weight 1, each row of the earlier version the weight -1. Rows
whose weights add up to zero have not changed. Therefore every method (two whole versions, Iceberg's
changelog, row lineage) may return rows that are equal in both versions: they cancel out.
"""
