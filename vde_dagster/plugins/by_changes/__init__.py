"""INCREMENTAL_BY_CHANGES: a table has the rows of a full refresh, but fills compute changed keys.

`kind` defines it, `meaning` states that its rows are exactly its query's rows, `writer` replaces
the rows of the keys that changed. The core finds these keys from the rows that the inputs gained
and lost, and from the query (`semantics.refresh`).
"""
