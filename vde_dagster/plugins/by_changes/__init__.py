"""INCREMENTAL_BY_CHANGES: a table equals a full refresh, but fills compute only changed keys.

`kind` defines it, `meaning` declares that the table's rows are exactly its query's rows, `writer`
replaces the rows of the keys that changed. The core finds these keys from the rows that the inputs
gained and lost, and from the query (`semantics.refresh`).
"""
