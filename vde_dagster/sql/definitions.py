"""Finds the expressions that define a column in subqueries, VALUES and CTEs.

The columns of tables are unknown here. For an unqualified column that may come from several
sources, the definitions in all of them are returned.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sqlglot import exp

from vde_dagster.sql.reading import is_star


class TableColumn(NamedTuple):
    """A column of a table, with both names in lower case."""

    table: str
    column: str


Definition = exp.Expr | TableColumn | None
"""An expression, a column of a table, or None where the definition cannot be found."""


def find_definitions(column: exp.Column) -> list[Definition]:
    """Return the expressions and table columns that a column reference may refer to."""
    return list(_search_scopes(column))


def reads_column(select: exp.Select, name: str) -> bool:
    """Return whether a SELECT list reads an input column `name` before an alias `name`.

    The name is in lower case. After the alias, the name may mean the alias.
    """
    for item in select.expressions:
        for column in item.find_all(exp.Column):
            if column.name.lower() == name and column.find_ancestor(exp.Query) is select:
                return True
        if item.alias.lower() == name:
            return False
    return False


def find_cte(table: exp.Expr | None) -> exp.CTE | None:
    if not isinstance(table, exp.Table) or table.db:
        return None
    for above in (table, *_ancestors(table)):
        clause = above.args.get("with_")
        for one in clause.expressions if clause is not None else ():
            if one.alias.lower() == table.name.lower():
                return one if isinstance(one, exp.CTE) else None
    return None


def _search_scopes(column: exp.Column) -> Iterator[Definition]:
    name, qualifier = column.name.lower(), column.table.lower()
    select = column.find_ancestor(exp.Select)
    if select is None:
        yield None
    while select is not None:
        found = False
        for source in _sources(select):
            if not qualifier or source.alias_or_name.lower() == qualifier:
                for one in _source_definitions(source, name):
                    found = found or not isinstance(one, TableColumn)
                    yield one
        for other in () if qualifier else select.expressions:
            if isinstance(other, exp.Alias) and other.alias.lower() == name:
                inside = any(part is column for part in other.walk())
                if not inside:
                    yield other.this
        if found:
            return
        select = select.find_ancestor(exp.Select)


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    read = [select.args.get("from_"), *(select.args.get("joins") or ())]
    for part in read:
        if part is not None and isinstance(part.this, exp.Expr):
            yield part.this
    yield from select.args.get("laterals") or ()


def _source_definitions(source: exp.Expr, name: str) -> Iterator[Definition]:
    names = _alias_columns(source)
    if source.args.get("pivots"):
        yield None
    elif isinstance(source, exp.Values):
        yield from find_outputs(source, name)
    elif isinstance(source, exp.Subquery):
        yield from _aliased_outputs(source.this, names, name)
    elif isinstance(source, exp.Table):
        defined = find_cte(source)
        if defined is not None:
            if not any(query is defined.this for query in _ancestors(source)):
                yield from _aliased_outputs(defined.this, names or _alias_columns(defined), name)
        elif isinstance(source.this, exp.Identifier) and not names:
            yield TableColumn(".".join(part.name for part in source.parts).lower(), name)
        else:
            yield None
    elif not names or name in names:
        yield None


def _ancestors(node: exp.Expr) -> Iterator[exp.Expr]:
    above = node.parent
    while above is not None:
        yield above
        above = above.parent


def read_rows(values: exp.Expr) -> list[list[exp.Expr]]:
    return [row.expressions if isinstance(row, exp.Tuple) else [row] for row in values.expressions]


def _cells(values: exp.Values, place: int) -> Iterator[Definition]:
    for cells in read_rows(values):
        yield cells[place] if place < len(cells) else None


def _aliased_outputs(query: exp.Expr, names: list[str], name: str) -> Iterator[Definition]:
    if not names:
        yield from find_outputs(query, name)
    elif name in names:
        yield from _output_at(query, names.index(name))


def find_outputs(query: exp.Expr, name: str) -> Iterator[Definition]:
    """Yield the definitions of an output column, one for each branch of a set operation."""
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        yield from find_outputs(query.this, name)
        place = _output_index(query.this, name)
        if place is None or query.args.get("by_name"):
            yield from find_outputs(query.expression, name)
        else:
            yield from _output_at(query.expression, place)
    elif isinstance(query, exp.Select):
        for one in query.expressions:
            if is_star(one):
                table = one.table.lower() if isinstance(one, exp.Column) else ""
                for source in _sources(query):
                    if not table or source.alias_or_name.lower() == table:
                        yield from _source_definitions(source, name)
            elif one.alias_or_name.lower() == name:
                yield one.unalias()
    elif isinstance(query, exp.Values):
        width = len(next(iter(read_rows(query)), [None]))
        names = _alias_columns(query) or [f"col{place + 1}" for place in range(width)]
        if name in names:
            yield from _cells(query, names.index(name))
    else:
        yield None


def _alias_columns(source: exp.Expr) -> list[str]:
    return [name.lower() for name in source.alias_column_names]


def _output_index(query: exp.Expr, name: str) -> int | None:
    query = query.unnest()
    while isinstance(query, exp.SetOperation):
        query = query.this.unnest()
    if not isinstance(query, exp.Select) or any(map(is_star, query.expressions)):
        return None
    places = [i for i, one in enumerate(query.expressions) if one.alias_or_name.lower() == name]
    return places[0] if places else None


def _output_at(query: exp.Expr, place: int) -> Iterator[Definition]:
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        yield from _output_at(query.this, place)
        yield from _output_at(query.expression, place)
    elif isinstance(query, exp.Values):
        yield from _cells(query, place)
    elif isinstance(query, exp.Select) and not any(map(is_star, query.expressions)):
        yield query.expressions[place].unalias() if place < len(query.expressions) else None
    else:
        yield None
