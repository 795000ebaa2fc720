"""INCREMENTAL_BY_CHANGES: a table equals a full refresh, but fills compute only changed keys.

`semantics.refresh` finds changed keys from the query, and from rows that inputs gained and lost.
"""
