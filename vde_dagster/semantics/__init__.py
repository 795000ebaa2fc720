"""The meaning of a query: row and column versions, column lineage, output types.

`analysis.analyze` determines them from a query's text. `versions.version` defines versions as
values and does not import SQLGlot.
"""
