"""Kind INCREMENTAL_BY_CHANGES: the rows of a full refresh, by computing only changed keys.

`semantics.refresh` finds changed keys from the query, and from rows that inputs gained and lost.
"""
