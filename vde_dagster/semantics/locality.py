"""Columns of a table that determine which key of a query each of its rows affects."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from vde_dagster.semantics._sqlglot import parse, type_text
from vde_dagster.semantics.algebra.locality import locate
from vde_dagster.semantics.algebra.nodes import Rel, Terms
from vde_dagster.semantics.algebra.uniqueness import group_keys
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.queries import bind_query
from vde_dagster.semantics.binding.relations import NO_CTES
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.sql.trees import dismantle

Columns = tuple[tuple[str, ...], ...]


def columns_of_key(
    query: str,
    schema: Mapping[str, Mapping[str, str]],
    key: Sequence[str],
) -> dict[str, Columns]:
    """Return the columns with the key's values, per table where the query is local by the key.

    A row of the table affects only the query's rows whose key equals one of these tuples of columns
    in the row. Rows of other tables may affect any row of the query; the result is empty if the
    query is not understood.

    Args:
        query: Spark SQL.
        schema: Types by column and table.
        key: Output columns; if empty, every row affects every row.

    >>> schema = {"o": {"id": "INT", "c": "INT", "n": "INT"}, "c": {"id": "INT", "name": "STRING"}}
    >>> columns_of_key("SELECT c, sum(n) AS n FROM o GROUP BY c", schema, ["c"])
    {'o': (('c',),)}
    >>> columns_of_key("SELECT o.id, name FROM o JOIN c ON o.c = c.id", schema, ["id"])
    {'o': (('id',),)}
    """
    wanted = [name.lower() for name in key]

    def located(rel: Rel, terms: Terms) -> dict[str, Columns]:
        names = {output.name.lower() for output in rel.outputs}
        if not wanted or not names.issuperset(wanted):
            return {}
        found = locate(rel, wanted, terms)
        return {table: tuple(sorted(columns)) for table, columns in found.items() if columns}

    return _bound(query, schema, located) or {}


def find_key(query: str, schema: Mapping[str, Mapping[str, str]]) -> tuple[str, ...]:
    """Return the output columns that make a query local in the largest number of tables.

    A query that is local by several columns is also local by all of them together, in smaller
    parts. If these columns contain a unique key, the columns of that key are enough.

    Args:
        query: Spark SQL.
        schema: Types by column and table.

    Returns:
        The columns, in the query's order and in lower case; none if the query is not understood, or
        local in no table by any column.

    >>> schema = {"o": {"id": "INT", "c": "INT", "n": "INT"}, "c": {"id": "INT", "name": "STRING"}}
    >>> find_key("SELECT c, n % 2 AS odd, sum(n) AS n FROM o GROUP BY c, n % 2", schema)
    ('c',)
    >>> find_key("SELECT o.id, c, name FROM o JOIN c ON o.c = c.id", schema)
    ('c',)
    >>> find_key("SELECT sum(n) AS n FROM o", schema)
    ()
    """

    def best(rel: Rel, terms: Terms) -> tuple[str, ...]:
        local: dict[str, frozenset[str]] = {}
        for output in rel.outputs:
            found = locate(rel, (output.name,), terms)
            tables = frozenset(table for table, columns in found.items() if columns)
            if tables and _COMPARABLE.fullmatch(type_text(output.type)):
                local[output.name] = tables
        if not local:
            return ()
        most = max(local.values(), key=len)
        names = {output.node: output.name for output in reversed(rel.outputs)}
        key = tuple(name for name, tables in local.items() if tables >= most)
        for unique in group_keys(rel.group, terms):
            named = {names.get(node) for node in unique}
            if unique and named <= set(key):
                return tuple(name for name in key if name in named)
        return key

    return _bound(query, schema, best) or ()


_COMPARABLE = re.compile(
    r"(TINYINT|SMALLINT|INT|BIGINT|DECIMAL\(.*\)|STRING|DATE|TIMESTAMP\w*|BOOLEAN|BINARY)"
)
"""Types whose values Spark distinguishes exactly as `<=>` does; floats and collations are not."""

Found = TypeVar("Found")


def _bound(
    query: str, schema: Mapping[str, Mapping[str, str]], use: Callable[[Rel, Terms], Found]
) -> Found | None:
    """Bind a query and apply a function to its relation; None if it is not understood."""
    tree = parse(query)
    binder = Binder(schema, {})
    binder.notes_every_equality = True
    try:
        rel = bind_query(binder, tree, None, NO_CTES)
        unsure = binder.doubt is not None or bool(binder.mistakes)
        return None if unsure else use(rel, binder.terms)
    except (Unsupported, SemanticError, RecursionError):
        return None
    finally:
        binder.terms.forget()
        dismantle(tree)
