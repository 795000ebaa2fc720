"""Checks whether a query's rows can be refreshed from changes of its tables."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vde_dagster.semantics.analysis import Schema
from vde_dagster.semantics.refresh.methods import find_refresh
from vde_dagster.semantics.refresh.qualified import NotRefreshableError


def explain_not_refreshable(
    query: str, schema: Schema, *, key: Sequence[str] = (), unique: Collection[frozenset[str]] = ()
) -> NotRefreshableError | None:
    """Return why a query cannot be refreshed from changes, whichever of its tables changes.

    Return None if it can be refreshed from changes of at least one table.

    Args:
        query: Spark SQL.
        schema: Types by column and table.
        key: Output columns to use as the key; by default, `find_refresh` chooses a key.
        unique: Unique keys of the query, in lower case.

    >>> explain_not_refreshable("SELECT id FROM o LIMIT 3", {"o": {"id": "INT"}})
    NotRefreshableError('the query takes the first rows: LIMIT 3')
    >>> explain_not_refreshable("SELECT id FROM o", {"o": {"id": "INT"}})
    """
    why: NotRefreshableError | None = None
    for table in schema:
        try:
            find_refresh(query, schema, [table.lower()], only_added=True, key=key, unique=unique)
        except NotRefreshableError as error:
            why = why or error
        else:
            return None
    return why
