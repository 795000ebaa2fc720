"""The meaning of a query: row and column versions, column lineage, output types.

`analysis.analyze` gives everything from one reading of SQL, which it never runs. `versions.version`
has versions as values, and imports no SQLGlot.
"""
