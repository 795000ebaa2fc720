"""The names of a model's output columns, as far as its file and its parents' tell them.

Only names, and the types that are declared: what an expression's type is only Spark knows for
sure. Stars are written out by what the tables behind them have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.project.macros.relation_columns import Columns
from vde_dagster.project.model import Model
from vde_dagster.sql.reading import read_query

if TYPE_CHECKING:
    from sqlglot import exp

ColumnsOf = Callable[[ModelName], Columns]
"""Tells the columns of a parent; raises where it cannot."""


class NotToldError(Exception):
    """The files do not tell a model's columns."""


def output_columns(model: Model, columns_of: ColumnsOf) -> Columns:
    """Return a model's columns in order, with the types that are declared.

    Raises:
        NotToldError: The files do not tell them.
    """
    added: dict[str, str | None] = {one.name: one.type for one in model.kind.added_columns}
    if model.columns:
        return {column.name: column.type for column in model.columns} | added
    if model.query is None:
        raise NotToldError
    names = QueryColumns(columns_of).of(read_query(model.query).tree, {})
    return dict.fromkeys(names) | added


class QueryColumns:
    """Names of columns in one query.

    Args:
        columns_of: Tells the columns of a table.
    """

    def __init__(self, columns_of: ColumnsOf) -> None:
        self._columns_of = columns_of

    def of(self, query: exp.Expr, ctes: Mapping[str, list[str] | None]) -> list[str]:
        """Return the names of a query's columns."""
        from sqlglot import exp

        known = self.with_ctes(query, ctes)
        if isinstance(query, exp.Subquery | exp.Paren):
            return self.of(query.this, known)
        if isinstance(query, exp.SetOperation):
            return self.of(query.this, known)
        if not isinstance(query, exp.Select):
            raise NotToldError
        return [name for one in query.expressions for name in self._projected(one, query, known)]

    def with_ctes(
        self, query: exp.Expr, known: Mapping[str, list[str] | None]
    ) -> dict[str, list[str] | None]:
        """Add the columns of a query's CTEs; None where the files do not tell them."""
        found = dict(known)
        with_ = query.args.get("with_") or query.args.get("with")
        for cte in with_.expressions if with_ else ():
            try:
                found[cte.alias.lower()] = self._aliased(cte, self.of(cte.this, found))
            except NotToldError:
                found[cte.alias.lower()] = None
        return found

    def in_reach(self, select: exp.Select) -> dict[str, list[str] | None]:
        """Return the columns of the CTEs that a SELECT inside a query can name."""
        above: list[exp.Expr] = [select]
        while above[-1].parent is not None:
            above.append(above[-1].parent)
        known: dict[str, list[str] | None] = {}
        for node in reversed(above):
            known = self.with_ctes(node, known)
        return known

    def of_tables(
        self, select: exp.Select, ctes: Mapping[str, list[str] | None]
    ) -> list[tuple[str, str]]:
        """Return (alias, column) of all tables of a SELECT, in order."""
        from_ = select.args.get("from_") or select.args.get("from")
        joins = select.args.get("joins") or ()
        if from_ is None or select.args.get("laterals"):
            raise NotToldError
        return [
            (source.alias_or_name, name)
            for source in (from_.this, *(join.this for join in joins if join.kind not in _HALVES))
            for name in self._of_source(source, ctes)
        ]

    def _projected(
        self, one: exp.Expr, query: exp.Select, ctes: Mapping[str, list[str] | None]
    ) -> list[str]:
        from sqlglot import exp

        is_star = isinstance(one, exp.Star)
        if not is_star and not (isinstance(one, exp.Column) and isinstance(one.this, exp.Star)):
            if not isinstance(one, exp.Alias | exp.Column):
                raise NotToldError  # Spark names it by its text.
            return [one.alias_or_name]
        star = one if is_star else one.this
        if query.args.get("laterals"):
            raise NotToldError
        left_out = star.args.get("except_") or star.args.get("except") or ()
        hidden = {column.name.lower() for column in left_out}
        table = "" if is_star else one.args["table"].name.lower()
        return [name for name in self._of_sources(query, table, ctes) if name.lower() not in hidden]

    def _of_sources(
        self, query: exp.Select, only: str, ctes: Mapping[str, list[str] | None]
    ) -> list[str]:
        """Return what a star means: of all tables, or of one."""
        from_ = query.args.get("from_") or query.args.get("from")
        joins = query.args.get("joins") or ()
        if from_ is None or any(join.args.get("using") or join.method for join in joins):
            raise NotToldError
        names: list[str] = []
        for source in (from_.this, *(join.this for join in joins if join.kind not in _HALVES)):
            if not only or source.alias_or_name.lower() == only:
                names += self._of_source(source, ctes)
        if not names:
            raise NotToldError
        return names

    def _of_source(self, source: exp.Expr, ctes: Mapping[str, list[str] | None]) -> list[str]:
        from sqlglot import exp

        if isinstance(source, exp.Subquery):
            return self._aliased(source, self.of(source.this, ctes))
        is_name = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
        if not isinstance(source, exp.Table) or not is_name or source.catalog:
            raise NotToldError
        if not source.db and source.name.lower() in ctes:
            names = ctes[source.name.lower()]
            if names is None:
                raise NotToldError
            return self._aliased(source, names)
        return self._aliased(source, list(self._columns_of(ModelName(source.db, source.name))))

    def _aliased(self, source: exp.Expr, names: list[str]) -> list[str]:
        alias = source.args.get("alias")
        given = alias.args.get("columns") if alias is not None else None
        return [column.name for column in given] if given else names


_HALVES = ("SEMI", "ANTI")
