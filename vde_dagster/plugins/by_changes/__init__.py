"""INCREMENTAL_BY_CHANGES: a model that is as if made whole, of which a fill makes what changed.

`kind` is what it says of itself, `meaning` that its rows are its query's and no more, `writer`
replaces the rows of the keys that changed. Which keys these are, the core tells: by the rows that
its tables got and lost, and by the columns in which its query is local (`semantics.locality`).
"""
