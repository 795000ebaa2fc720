"""Analysis of a query's meaning: row and column versions, column lineage, output types.

`analysis.analyze` determines these from a query's text. `versions.version` has the classes of
versions and does not import SQLGlot.
"""
