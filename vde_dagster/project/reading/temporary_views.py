"""Temporary views in a model's statements, as parts of its query.

`CREATE TEMPORARY VIEW x AS …` before a query that reads `x` becomes a common table expression of
the query. Therefore the inputs of `x` are parents of the model, the columns of `x` have versions,
and the name exists only inside of the model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import SourceLocation
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.reading.rendering import checked_query, render, render_statement
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.scanner import Token, unquote
from vde_dagster.sql.statements import TemporaryView, read_dropped_name, read_temporary_view

SESSION_VIEW = "CREATE OR REPLACE TEMPORARY VIEW "
"""Beginning of a statement that creates a temporary view in the session. If the model has a query,
the query also contains the view, as a CTE.
"""


@dataclass(frozen=True, slots=True)
class Statements:
    """A model's query, with temporary views as CTEs, and the statements before and after it."""

    before: tuple[str, ...]
    query: Expanded
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _CreatedView:
    view: TemporaryView
    statement: Expanded
    own: Expanded | None

    @property
    def key(self) -> str:
        return self.view.name.lower()


def with_temporary_views(
    expander: Expander,
    names: TableNames,
    before: Sequence[Expanded],
    query: Expanded,
    after: Sequence[Expanded],
) -> Statements:
    """Turn the temporary views that a query reads into CTEs of the query.

    If a statement before or after the query also names one of these views, all of these views are
    created in the session, too. Statements that cache or drop such a view are left out.
    """
    views = _find_views(expander, before)
    read = _views_read_by(expander, views, query)
    if not read:
        return Statements(_render_all(expander, before), query, _render_all(expander, after))
    for made in read:
        _check_view(expander, made, views)
    moved = {id(made.statement): made for made in read}
    inside = {made.key for made in read}
    others = {
        id(one): one
        for one in (*before, *after)
        # Statements that cache or drop a moved view are no longer needed.
        if id(one) not in moved
        and (read_dropped_name(expander.tokens(one.text)) or "").lower() not in inside
    }
    named = {word for one in others.values() for word in _mentioned_names(expander, one)}
    # A remaining view may read earlier views, so they remain, too.
    stays = any(made.key in named for made in read)
    kept = []
    for one in before:
        if id(one) in others:
            kept.append(render_statement(expander, one))
        elif id(one) in moved and stays:
            kept.append(_create_view_statement(expander, names, moved[id(one)]))
    behind = [one for one in after if id(one) in others]
    return Statements(
        tuple(kept), _with_view_ctes(expander, read, query), _render_all(expander, behind)
    )


def session_statements(
    expander: Expander, names: TableNames, statements: Iterable[Expanded]
) -> tuple[tuple[str, ...], dict[ModelName, SourceLocation], frozenset[ModelName]]:
    """Render the statements that run in the Spark session before a model's Python code.

    Returns:
        The statements, the tables that the views read (with places), and the views' names.
    """
    texts: list[str] = []
    reads: dict[ModelName, SourceLocation] = {}
    made_here: set[ModelName] = set()
    for one in statements:
        made = next(iter(_find_views(expander, [one])), None)
        if made is None:
            texts.append(render_statement(expander, one))
            continue
        _check_view(expander, made, [made])
        assert made.own is not None
        texts.append(_create_view_statement(expander, names, made))
        for name, place in render(expander, made.own, names).reads.items():
            if name not in made_here:
                reads.setdefault(name, place)
        made_here.add(names.model_name([made.view.name]))
    return tuple(texts), reads, frozenset(made_here)


def _find_views(expander: Expander, before: Iterable[Expanded]) -> list[_CreatedView]:
    out = []
    for one in before:
        view = read_temporary_view(expander.tokens(one.text))
        if view is not None:
            own = None if view.start is None else one.part(view.start, len(one.text))
            out.append(_CreatedView(view, one, own))
    return out


def _views_read_by(
    expander: Expander, views: Sequence[_CreatedView], query: Expanded
) -> list[_CreatedView]:
    if not views:
        return []
    named = set(_mentioned_names(expander, query))
    read: list[_CreatedView] = []
    for made in reversed(views):
        if made.key in named:
            read.insert(0, made)
            named.update(_mentioned_names(expander, made.own) if made.own is not None else ())
    return read


def _check_view(expander: Expander, made: _CreatedView, views: Sequence[_CreatedView]) -> None:
    name, place = made.view.name, made.statement.origin(0)
    if made.view.problem is not None:
        message, hint = made.view.problem
        raise expander.source.error(f"'{name}': {message}", place, hint)
    if made.own is None:
        raise expander.source.error(
            f"the temporary view '{name}' has no query",
            place,
            f"write CREATE TEMPORARY VIEW {name} AS SELECT …",
        )
    if sum(other.key == made.key for other in views) > 1:
        raise expander.source.error(
            f"the temporary view '{name}' is created twice", place, "rename one of them"
        )
    checked_query(expander, made.own, f"query of the temporary view '{name}'")


def _with_view_ctes(expander: Expander, read: Sequence[_CreatedView], query: Expanded) -> Expanded:
    pieces: list[Expanded] = []
    for made in read:
        assert made.own is not None
        columns = f"({', '.join(made.view.columns)})" if made.view.columns else ""
        origin = ((0, ~made.statement.origin(0)),)
        head = ", " if pieces else ""
        # The view's query may end with a comment.
        pieces += [
            Expanded(f"{head}{made.view.written}{columns} AS (", origin),
            made.own,
            Expanded("\n)", origin),
        ]
    tokens = expander.tokens(query.text)
    origin = ((0, ~read[0].statement.origin(0)),)
    if not tokens or not tokens[0].is_word("WITH"):
        return Expanded.joined([Expanded("WITH ", origin), *pieces, Expanded("\n", origin), query])
    at = tokens[0].end
    if len(tokens) > 1 and tokens[1].is_word("RECURSIVE"):
        at = tokens[1].end
        for made in read:
            if made.own is not None and made.key in _mentioned_names(expander, made.own):
                raise expander.source.error(
                    f"the temporary view '{made.view.name}' reads a table with the same name",
                    made.statement.origin(0),
                    "rename the view: WITH RECURSIVE would make it read itself",
                )
    _check_names(expander, read, tokens, query)
    front, rest = query.part(0, at), query.part(at, len(query.text))
    return Expanded.joined([front, Expanded(" ", origin), *pieces, Expanded(", ", origin), rest])


def _check_names(
    expander: Expander, read: Sequence[_CreatedView], tokens: Sequence[Token], query: Expanded
) -> None:
    keys = {made.key for made in read}
    depth = 0
    for token, behind in pairwise(tokens):
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0 and token.is_word("SELECT", "FROM", "VALUES"):
            return
        if (
            depth == 0
            and _plain_name(token) in keys
            and (behind.text == "(" or behind.is_word("AS"))
        ):
            raise expander.source.error(
                f"'{token.text}' is both a temporary view and a common table expression",
                query.origin(token.start),
                "rename one of them",
            )


def _create_view_statement(expander: Expander, names: TableNames, made: _CreatedView) -> str:
    assert made.own is not None
    columns = f" ({', '.join(made.view.columns)})" if made.view.columns else ""
    sql = render(expander, made.own, names).sql
    return f"{SESSION_VIEW}{quote(made.view.name)}{columns} AS {sql}"


def _render_all(expander: Expander, statements: Iterable[Expanded]) -> tuple[str, ...]:
    return tuple(render_statement(expander, one) for one in statements)


def _mentioned_names(expander: Expander, expanded: Expanded) -> list[str]:
    tokens = expander.tokens(expanded.text)
    befores = ["", *(token.text for token in tokens)]
    return [
        _plain_name(token)
        for before, token in zip(befores, tokens, strict=False)
        if token.kind in ("word", "quoted") and before != "."
    ]


def _plain_name(token: Token) -> str:
    return unquote(token).lower() if token.kind in ("word", "quoted") else ""
