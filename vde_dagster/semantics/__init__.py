"""The meaning of a query: row and column versions, column lineage, output types.

The functions read SQL and never run it. `analysis.analyze` gives everything from one reading;
`semantic_version` and `column_lineage` there are its parts. `versions.version` has versions as
values, and imports no SQLGlot.
"""
