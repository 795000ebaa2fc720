"""Columns of a table that determine which key of a query each of its rows affects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vde_dagster.semantics._sqlglot import parse
from vde_dagster.semantics.algebra.locality import locate
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
    """Return the columns with the key's values, for each table that makes a query local by the key.

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
    tree = parse(query)
    binder = Binder(schema, {})
    binder.notes_every_equality = True
    wanted = [name.lower() for name in key]
    try:
        rel = bind_query(binder, tree, None, NO_CTES)
        names = {output.name.lower() for output in rel.outputs}
        unsure = binder.doubt is not None or bool(binder.mistakes)
        if unsure or not wanted or not names.issuperset(wanted):
            return {}
        found = locate(rel, wanted, binder.terms)
    except (Unsupported, SemanticError, RecursionError):
        return {}
    finally:
        binder.terms.forget()
        dismantle(tree)
    return {table: tuple(sorted(columns)) for table, columns in found.items() if columns}
