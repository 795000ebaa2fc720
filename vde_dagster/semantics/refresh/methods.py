"""The choice of a method to refresh a query's rows: changed rows, merged groups, or keys."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from vde_dagster.semantics.analysis import Schema
from vde_dagster.semantics.refresh.keys import KeySteps, find_key_steps
from vde_dagster.semantics.refresh.linear import RowSteps, find_row_steps
from vde_dagster.semantics.refresh.merged import GroupSteps, find_group_steps
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, qualify
from vde_dagster.semantics.refresh.trees import has_exact_equality

Refresh = KeySteps | RowSteps | GroupSteps


def find_refresh(
    query: str,
    schema: Schema,
    changed: Collection[str],
    types: Mapping[str, str] | None = None,
    *,
    only_added: bool = False,
    exact: bool = True,
    key: Sequence[str] = (),
    unique: Collection[frozenset[str]] = (),
) -> Refresh:
    """Choose the cheapest method of refreshing a query's result from changes.

    `RowSteps` add rows to the stored result, and search it only for removed rows. `GroupSteps` read
    only the changes of the inputs, and the stored rows of the changed groups. `KeySteps` compute
    all rows of the affected keys again from the inputs.

    Args:
        query: Spark SQL.
        schema: Types by column and table.
        changed: Tables that changed, as the schema names them.
        types: Types of the stored columns by lower-case name; by default, the query's types.
        only_added: Whether these tables only gained rows.
        exact: Whether it is known how often each changed row was added or removed.
        key: Output columns to use as the key; if given, only `KeySteps` are considered.
        unique: Unique keys of the query, in lower case.

    Raises:
        NotRefreshableError: Any output row may change.

    >>> schema = {"o": {"id": "INT", "c": "INT"}}
    >>> def method(query, **options):
    ...     types = {"id": "INT", "c": "INT", "n": "BIGINT"}
    ...     return type(find_refresh(query, schema, ["o"], types, **options)).__name__
    >>> method("SELECT id FROM o", only_added=True), method("SELECT id FROM o")
    ('RowSteps', 'RowSteps')
    >>> method("SELECT count(*) AS n FROM o"), method("SELECT c, max(id) AS id FROM o GROUP BY c")
    ('GroupSteps', 'KeySteps')
    """
    known = qualify(query, schema)
    if types is None:
        types = {name.lower(): type_ for name, type_ in known.types(known.tree).items()}
    if not key and exact:
        if only_added or all(map(has_exact_equality, types.values())):
            with suppress(NotRefreshableError):
                return find_row_steps(known, changed)
        with suppress(NotRefreshableError):
            return find_group_steps(known, changed, only_added=only_added, types=types)
    return find_key_steps(known, changed, key=key, unique=unique)


def explain_not_refreshable(
    query: str, schema: Schema, *, key: Sequence[str] = ()
) -> NotRefreshableError | None:
    """Return why a query cannot be refreshed from rows that are added to one of its tables.

    Each table is tried alone. Return None if the query can be refreshed for at least one table,
    otherwise the error for the first table.

    Args:
        key: Output columns to use as the key; by default, `find_refresh` chooses a key.

    >>> explain_not_refreshable("SELECT id FROM o LIMIT 3", {"o": {"id": "INT"}})
    NotRefreshableError('the query takes the first rows: LIMIT 3')
    >>> explain_not_refreshable("SELECT id FROM o", {"o": {"id": "INT"}})
    """
    why: NotRefreshableError | None = None
    for table in schema:
        try:
            find_refresh(query, schema, [table.lower()], only_added=True, key=key)
        except NotRefreshableError as error:
            why = why or error
        else:
            return None
    return why
