"""Names of output columns, and query forms that need them: `* REPLACE`, `UNION BY NAME`.

Spark does not support these forms. They are rewritten with column names; if the project's files do
not determine the names, the query is refused. An alias in WHERE is replaced by its expression,
unless a table of the query has, or may have, a column of that name. Types are known only if
declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from vde_dagster.base.names import ModelName, quote_if_needed
from vde_dagster.project.macros.known_columns import Columns
from vde_dagster.project.model import Model
from vde_dagster.sql.edits import Edit
from vde_dagster.sql.outline import ENDS, SETS, TAIL, SelectPieces, T
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.spark_forms import NoSparkForm

ColumnsOf = Callable[[ModelName], Columns]
"""Returns the columns of a parent; raises UnknownColumnsError if they are unknown."""


class UnknownColumnsError(Exception):
    """The project's files do not determine a model's columns."""


def output_columns(model: Model, columns_of: ColumnsOf) -> Columns:
    """Return a model's output columns in order, with their types if they are declared.

    Raises:
        UnknownColumnsError: The files do not determine the columns.
    """
    added: dict[str, str | None] = {one.name: one.type for one in model.kind.added_columns}
    if model.columns:
        return {column.name: column.type for column in model.columns} | added
    if model.query is None:
        raise UnknownColumnsError
    names = QueryColumns(columns_of).column_names(read_query(model.query).tree, {})
    return dict.fromkeys(names) | added


class QueryColumns:
    """Determines the names of a query's columns, as far as the project's files define them."""

    def __init__(self, columns_of: ColumnsOf) -> None:
        self._columns_of = columns_of

    def column_names(self, query: exp.Expr, ctes: Mapping[str, list[str] | None]) -> list[str]:
        """Return the names of a query's output columns."""
        known = self.with_ctes(query, ctes)
        if isinstance(query, exp.Subquery | exp.Paren | exp.SetOperation):
            return self.column_names(query.this, known)
        if not isinstance(query, exp.Select):
            raise UnknownColumnsError
        return [name for one in query.expressions for name in self._output_names(one, query, known)]

    def with_ctes(
        self, query: exp.Expr, known: Mapping[str, list[str] | None]
    ) -> dict[str, list[str] | None]:
        """Return `known` plus the columns of a query's CTEs; unknown columns are None."""
        found = dict(known)
        with_ = query.args.get("with_")
        for cte in with_.expressions if with_ else ():
            try:
                names = self.column_names(cte.this, found)
                found[cte.alias.lower()] = cte.alias_column_names or names
            except UnknownColumnsError:
                found[cte.alias.lower()] = None
        return found

    def in_reach(self, select: exp.Select) -> dict[str, list[str] | None]:
        """Return the columns of all CTEs that a SELECT can read, by name."""
        above: list[exp.Expr] = [select]
        while above[-1].parent is not None:
            above.append(above[-1].parent)
        known: dict[str, list[str] | None] = {}
        for node in reversed(above):
            known = self.with_ctes(node, known)
        return known

    def table_columns(
        self, select: exp.Select, ctes: Mapping[str, list[str] | None], only: str = ""
    ) -> list[tuple[str, str]]:
        """Return the columns of a SELECT's tables in order, as (table alias, column).

        `only` is the lower-case name of one of the tables; "" for all.
        """
        from_ = select.args.get("from_")
        if from_ is None or select.args.get("laterals"):
            raise UnknownColumnsError
        joins = (
            join.this for join in select.args.get("joins") or () if join.kind not in _SEMI_JOINS
        )
        return [
            (source.alias_or_name, name)
            for source in (from_.this, *joins)
            if not only or source.alias_or_name.lower() == only
            for name in self._source_columns(source, ctes)
        ]

    def star_columns(
        self, star: exp.Star, select: exp.Select, ctes: Mapping[str, list[str] | None]
    ) -> list[tuple[str, str]]:
        """Return the columns that `*` or `t.*` selects, as (table alias, column)."""
        table = star.parent.args["table"] if isinstance(star.parent, exp.Column) else None
        joins = select.args.get("joins") or ()
        if table is None and any(join.args.get("using") or join.method for join in joins):
            raise UnknownColumnsError  # Columns of both sides appear once.
        left_out = star.args.get("except_") or ()
        hidden = {column.name.lower() for column in left_out}
        found = self.table_columns(select, ctes, table.name.lower() if table is not None else "")
        if not found:
            raise UnknownColumnsError
        return [(alias, name) for alias, name in found if name.lower() not in hidden]

    def _output_names(
        self, one: exp.Expr, query: exp.Select, ctes: Mapping[str, list[str] | None]
    ) -> list[str]:
        star = one.this if isinstance(one, exp.Column) else one
        if isinstance(star, exp.Star):
            return [name for _, name in self.star_columns(star, query, ctes)]
        if not isinstance(one, exp.Alias | exp.Column):
            raise UnknownColumnsError  # Spark names it by its text.
        return [one.alias_or_name]

    def _source_columns(self, source: exp.Expr, ctes: Mapping[str, list[str] | None]) -> list[str]:
        if isinstance(source, exp.Subquery):
            names = self.column_names(source.this, ctes)
            return source.alias_column_names or names
        is_name = isinstance(source, exp.Table) and isinstance(source.this, exp.Identifier)
        if not isinstance(source, exp.Table) or not is_name or source.catalog:
            raise UnknownColumnsError
        if not source.db and source.name.lower() in ctes:
            known = ctes[source.name.lower()]
            if known is None:
                raise UnknownColumnsError
            return source.alias_column_names or known
        names = list(self._columns_of(ModelName(source.db, source.name)))
        return source.alias_column_names or names


_SEMI_JOINS = ("SEMI", "ANTI")
_STAR = re.compile(r"\*\s*(?:EXCEPT\s*\([^)]*\)\s*)?REPLACE\b", re.IGNORECASE)
_BY_NAME = re.compile(r"\bBY\s+NAME\b", re.IGNORECASE)


def may_have_column_forms(text: str) -> bool:
    """Return whether a query may use an alias in WHERE, `* REPLACE` or `UNION BY NAME`."""
    return "WHERE" in text.upper() or needs_columns(text)


def needs_columns(text: str) -> bool:
    """Return whether a query may use `* REPLACE` or `UNION BY NAME`."""
    upper = text.upper()
    return ("REPLACE" in upper and _STAR.search(text) is not None) or (
        "NAME" in upper and _BY_NAME.search(text) is not None
    )


def column_forms(
    text: str, tokens: list[Token], tree: exp.Expr, columns_of: ColumnsOf
) -> list[Edit]:
    """Return edits that rewrite one unsupported form of a query for Spark.

    The forms are `* REPLACE`, `UNION BY NAME` and aliases in WHERE. Call the function again until
    it returns no edits. `tree` is the text's tree, with offsets of names.

    Raises:
        NoSparkForm: The text has a form that cannot be rewritten.
    """
    names = QueryColumns(columns_of)
    needed = needs_columns(text)
    try:
        if needed and _STAR.search(text):
            for star in tree.find_all(exp.Star):
                if star.args.get("replace"):
                    return [_expand_star(text, tokens, star, names)]
        if needed and _BY_NAME.search(text):
            edits = list(_align_branches(tokens, tree, names))
            if edits:
                return edits
    except UnknownColumnsError:
        found = _STAR.search(text) or _BY_NAME.search(text)
        raise NoSparkForm(
            found.start() if found else 0,
            "Spark does not support * REPLACE and BY NAME, and the project's files do not "
            "determine the query's columns",
            "write the columns, or declare the columns of the tables that the query reads",
        ) from None
    return list(_inline_aliases(text, tokens, tree, names))


def _expand_star(text: str, tokens: list[Token], star: exp.Star, names: QueryColumns) -> Edit:
    select = star.find_ancestor(exp.Select)
    if select is None:
        raise UnknownColumnsError
    at = _token_index(tokens, star.meta["start"])
    end = at
    while tokens[end].text.upper() != "REPLACE":
        end += 1
    end = _closing_index(tokens, end + 1)
    first = at - 2 if isinstance(star.parent, exp.Column) else at
    found = names.star_columns(star, select, names.in_reach(select))
    new = {one.alias.lower(): _expression(text, tokens, one) for one in star.args["replace"]}
    if any(name not in {column.lower() for _, column in found} for name in new):
        raise UnknownColumnsError
    several = len({table for table, _ in found}) > 1
    written = [
        f"{new[name.lower()]} AS {quote_if_needed(name)}"
        if name.lower() in new
        else f"{quote_if_needed(table)}.{quote_if_needed(name)}"
        if several
        else quote_if_needed(name)
        for table, name in found
    ]
    return Edit(tokens[first].start, tokens[end].end + 1, ", ".join(written))


def _expression(text: str, tokens: list[Token], one: exp.Expr) -> str:
    alias = _token_index(tokens, one.args["alias"].meta["start"])
    first = alias
    depth = 0
    while first > 0:
        kind = tokens[first - 1].token_type
        depth += (kind == T.R_PAREN) - (kind == T.L_PAREN)
        if depth < 0 or (depth == 0 and kind == T.COMMA):
            break
        first -= 1
    last = alias - 2 if tokens[alias - 1].token_type == T.ALIAS else alias - 1
    return text[tokens[first].start : tokens[last].end + 1]


def _align_branches(tokens: list[Token], tree: exp.Expr, names: QueryColumns) -> Iterator[Edit]:
    for top in tree.find_all(exp.SetOperation):
        if not top.args.get("by_name") or isinstance(top.parent, exp.SetOperation):
            continue
        branches = list(_branches(top))
        starts = [_token_index(tokens, _first_offset(branch)) for branch in branches]
        known = names.in_reach(branches[0]) if isinstance(branches[0], exp.Select) else {}
        columns = [names.column_names(branch, known) for branch in branches]
        every = list({name.lower(): name for branch in columns for name in branch}.values())
        for own, inside in zip(columns, starts, strict=True):
            begin, end = _Branch("", tokens, inside).extent
            here = {name.lower() for name in own}
            written = ", ".join(
                quote_if_needed(name)
                if name.lower() in here
                else f"NULL AS {quote_if_needed(name)}"
                for name in every
            )
            yield Edit(tokens[begin].start, tokens[begin].start, f"SELECT {written} FROM (")
            yield Edit(tokens[end - 1].end + 1, tokens[end - 1].end + 1, ")")
            if end + 1 < len(tokens) and tokens[end].token_type in SETS:
                word = end + 1
                while tokens[word].text.upper() not in ("BY", "BY NAME"):
                    word += 1
                last = word if tokens[word].text.upper() == "BY NAME" else word + 1
                yield Edit(tokens[word].start, tokens[last].end + 1, "")
        return


def _branches(top: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(top, exp.SetOperation):
        if not top.args.get("by_name"):
            raise UnknownColumnsError
        yield from _branches(top.this)
        yield from _branches(top.expression)
    elif isinstance(top, exp.Select):
        yield top
    else:
        raise UnknownColumnsError


class _Branch(SelectPieces):
    @property
    def extent(self) -> tuple[int, int]:
        return self._begin, self._until(self._begin + 1, ENDS | TAIL)


def _first_offset(select: exp.Expr) -> int:
    """Return the offset of a SELECT's first name in its columns or FROM, outside subqueries."""
    for part in (*select.expressions, select.args.get("from_")):
        for name in part.find_all(exp.Identifier, exp.Star) if part is not None else ():
            if name.find_ancestor(exp.Select) is select and "start" in name.meta:
                return int(name.meta["start"])
    raise UnknownColumnsError


def _inline_aliases(
    text: str, tokens: list[Token], tree: exp.Expr, names: QueryColumns
) -> Iterator[Edit]:
    for select in tree.find_all(exp.Select):
        where = select.args.get("where")
        if where is None:
            continue
        columns = [
            column
            for column in where.find_all(exp.Column)
            if not column.table
            and column.find_ancestor(exp.Select) is select
            and "start" in column.this.meta
        ]
        if not columns:
            continue
        wanted = {
            one.alias.lower()
            for one in select.expressions
            if isinstance(one, exp.Alias) and not _names_itself(one) and not one.find(exp.Window)
        }
        columns = [column for column in columns if column.name.lower() in wanted]
        if not columns:
            continue
        try:
            table_columns = names.table_columns(select, names.in_reach(select))
        except UnknownColumnsError:
            continue
        there = {name.lower() for _, name in table_columns}
        for column in columns:
            if column.name.lower() not in there:
                at = _token_index(tokens, column.this.meta["start"])
                meant = SelectPieces(text, tokens, at).aliases().get(column.name.lower())
                if meant is not None:
                    yield Edit(tokens[at].start, tokens[at].end + 1, f"({meant})")


def _names_itself(alias: exp.Alias) -> bool:
    name = alias.alias.lower()
    return any(column.name.lower() == name for column in alias.this.find_all(exp.Column))


def _token_index(tokens: list[Token], offset: int) -> int:
    return next(index for index, token in enumerate(tokens) if token.start == offset)


def _closing_index(tokens: list[Token], opening: int) -> int:
    depth = 0
    for index in range(opening, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind == T.L_PAREN) - (kind == T.R_PAREN)
        if depth == 0:
            return index
    return len(tokens) - 1
