"""Changes of a published view between two versions of an environment, row by row.

Rows are counted with weights: each row of a version weighs one, each row of the version before
weighs minus one. Rows whose weights add up to zero have not changed. Every way to read changes (two
whole versions, Iceberg's changelog, row lineage) therefore reads only rows that may differ:
duplicates, rows copied from file to file, and rows that a projection makes equal cancel out.
"""
