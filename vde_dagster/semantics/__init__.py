"""The meaning of a query: row and column versions, column lineage, output types.

`analysis.analyze` reads a query once, without running it, for its versions, lineage and types.
`versions.version` defines the versions as values and does not import SQLGlot.
"""
