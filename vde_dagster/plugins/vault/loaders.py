"""`loaders BY_SOURCE`: a table for each source of a hub, and one model for the earliest rows.

A query of kind FIRST_SEEN is a UNION ALL of its sources. Each source becomes a model with its own
table, schedule and lease, so commits of loaders never conflict. The model itself becomes a view
over these tables, or a table that is computed from them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]
from sqlglot.tokens import TokenType as T  # type: ignore[attr-defined]

from vde_dagster.api.errors import ProjectError, UsageError
from vde_dagster.api.kinds import Kind
from vde_dagster.api.models import Model
from vde_dagster.api.sql import Expanded, read_query
from vde_dagster.api.values import ModelName, count, quote, suggest

_COMMON_CLAUSES = frozenset(
    {
        T.EXCEPT,
        T.INTERSECT,
        T.ORDER_BY,
        T.SORT_BY,
        T.CLUSTER_BY,
        T.DISTRIBUTE_BY,
        T.LIMIT,
        T.OFFSET,
        T.PIPE_GT,
    }
)


def split_by_source(
    model: Model,
    kind: Kind,
    output_columns: Callable[[exp.Expr], list[str] | None],
    *,
    whole: Kind,
    key: Sequence[str],
    order: Sequence[str],
    source: str | None,
    crons: Mapping[str, str],
) -> list[Model]:
    """Divide a model into one model per source, and a model that combines their tables.

    The combining model keeps the name.

    Args:
        kind: The kind of the models for single sources.
        whole: The kind of the combining model.
        key: Columns that identify a row of the combining model.
        order: Columns that determine the earliest row.
        source: The column with the record source.
        crons: Crons by source, for sources with a cron.
        output_columns: Returns a query's columns; None if they cannot be derived from the files.

    Raises:
        ProjectError: The query is not a UNION ALL, or its sources or columns are unknown.
    """
    # Branches that read the same source become one model.
    if model.query is None or model.reads_itself:
        why = "is not a query" if model.query is None else "reads itself"
        message = f"{model.name} {why}, so its sources cannot be loaded one by one"
        raise _mistake(message, "remove 'loaders'", model)
    branches = list(_split_branches(model, output_columns))
    names = branches[0].names or [column.name for column in model.columns]
    if not names:
        raise _mistake(
            f"the columns of {model.name} are not known when the project is loaded",
            "name them in the first SELECT, or declare those of the tables that it reads",
            model,
        )
    sources: dict[str, list[tuple[_Branch, Expanded]]] = {}
    for branch in branches:
        query = branch.renamed(names)
        sources.setdefault(branch.source(source, names), []).append((branch, query))
    for one in crons:
        if one not in sources:
            hint = suggest(one, sources, "sources")
            raise _mistake(f"{model.name} does not have the source '{one}'", hint, model)
    everywhere = set(model.depends_on).difference(*(branch.reads for branch in branches))
    made = []
    for loaded, found in sources.items():
        own = [branch for branch, _ in found]
        pieces = [piece for _, query in found for piece in (Expanded(" UNION ALL "), query)]
        query = Expanded.joined(pieces[1:])
        made.append(
            replace(
                model,
                name=own[0].model_name(loaded),
                kind=kind,
                query=query.text,
                origins=query.runs,
                cron=crons.get(loaded, model.cron),
                depends_on=tuple(sorted(everywhere.union(*(branch.reads for branch in own)))),
                audits=(),
                on_virtual_update=(),
            )
        )
    over = replace(
        model,
        kind=whole,
        query=_earliest_rows(names, key, order, [one.name for one in made]),
        origins=(),
        depends_on=tuple(sorted(one.name for one in made)),
        pre_statements=(),
        post_statements=(),
        signals=(),
    )
    return [*made, over if whole.owns_table else _without_layout(over)]


def _without_layout(view: Model) -> Model:
    # These properties belong to the tables of the sources.
    return replace(
        view,
        partitioned_by=(),
        clustered_by=(),
        table_properties=(),
        physical_version=None,
        skip_unchanged=None,
    )


def _earliest_rows(
    names: Sequence[str], key: Sequence[str], order: Sequence[str], parts: Sequence[ModelName]
) -> str:
    # Of equally early rows, the row of the first part is kept.
    columns = ", ".join(map(quote, names))
    rows = " UNION ALL ".join(
        f"SELECT {columns}, {number} AS vde_source FROM {quote(*part)}"
        for number, part in enumerate(parts)
    )
    by, first = (", ".join(map(quote, some)) for some in (key, order))
    return (
        f"SELECT {columns} FROM (SELECT {columns}, ROW_NUMBER() OVER (PARTITION BY {by} "
        f"ORDER BY {first}, vde_source) AS vde_row_number FROM ({rows}) AS vde_loaded) "
        "AS vde_ranked WHERE vde_row_number = 1"
    )


@dataclass(frozen=True, slots=True)
class _Branch:
    """A SELECT of the UNION ALL.

    Args:
        offset: The SELECT's offset in the model's query.
        query: The SELECT, after a WITH clause with the CTEs that it uses.
        names: The SELECT's output columns; None if they cannot be determined from the files.
    """

    model: Model
    offset: int
    query: Expanded
    tree: exp.Expr
    tables: Sequence[exp.Table]
    names: list[str] | None

    @property
    def reads(self) -> set[ModelName]:
        return {ModelName(one.db.lower(), one.name.lower()) for one in self.tables}

    def mistake(self, message: str, hint: str | None) -> ProjectError:
        return _mistake(message, hint, self.model, self.offset)

    def source(self, column: str | None, names: Sequence[str]) -> str:
        """Return the record source if it is a literal, or else the name of the first table."""
        table = next((one.name for one in self.tables), "")
        text = self._literal(column, names) or table
        found = re.sub(r"\W+", "_", text.lower()).strip("_")
        if not found:
            what = column or "source"
            hint = f"write a text such as 'crm' AS {what}, or read a table"
            raise self.mistake(f"a SELECT of {self.model.name} has no known source", hint)
        return found

    @property
    def _listed(self) -> list[exp.Expr]:
        """The expressions of the SELECT list; empty if the list contains a star."""
        select: exp.Expr = self.tree
        while isinstance(select, exp.Subquery | exp.Paren):
            select = select.this
        return [] if any(one.is_star for one in select.expressions) else select.expressions

    def _literal(self, column: str | None, names: Sequence[str]) -> str:
        for name, one in zip(names, self._listed, strict=False):
            value = one.unalias()
            if _same(name, column or "") and isinstance(value, exp.Literal) and value.is_string:
                return str(value.this)[1:-1]
        return ""

    def model_name(self, source: str) -> ModelName:
        namespace, name = self.model.name
        try:
            return ModelName.parse(quote(namespace, f"{name}__{source}"))
        except UsageError as problem:
            raise self.mistake(problem.message, problem.hint) from None

    def renamed(self, names: Sequence[str]) -> Expanded:
        """Return the branch's query, with columns renamed to the first branch's columns."""
        own = self.names
        width = len(own or self._listed)
        if width not in (0, len(names)):
            raise self.mistake(
                f"a SELECT of {self.model.name} has {count(width, 'column')}, but the first "
                f"{len(names)}",
                f"select these, in this order: {', '.join(names)}",
            )
        if own is not None and all(map(_same, own, names)):
            return self.query
        end = f") AS vde_branch({', '.join(map(quote, names))})"
        place = self.query.origin(0)
        begin = Expanded("SELECT * FROM (", ((0, ~place),))
        return Expanded.joined([begin, self.query, Expanded(end, ((0, ~place),))])


def _split_branches(
    model: Model, output_columns: Callable[[exp.Expr], list[str] | None]
) -> Iterator[_Branch]:
    # UNION ALL and UNION have the same result here, because a key keeps only one row.
    assert model.query is not None
    read = read_query(model.query)
    tokens = read.tokens
    whole = Expanded(model.query, model.origins or ((0, ~0),))
    behind = len(read.with_clause)
    head = [token for token in tokens if token.start < behind]
    recursive = [token for token in head[1:2] if token.text.upper() == "RECURSIVE"]
    ctes = list(_split_tokens(head[1 + len(recursive) :], T.COMMA))
    body = [token for token in tokens if token.start >= behind]
    _refuse_common_clauses(model, body)
    for part in _split_tokens(body, T.UNION):
        if part[0].token_type in (T.ALL, T.DISTINCT):
            del part[0]
        query = whole.part(part[0].start, part[-1].end + 1)
        needed = ctes if recursive else _used_ctes(ctes, part)
        for number, cte in enumerate(reversed(needed)):
            text = whole.part(cte[0].start, cte[-1].end + 1)
            query = Expanded.joined([text, Expanded(", " if number else " "), query])
        if needed:
            query = Expanded.joined([whole.part(0, ctes[0][0].start), query])
        reading = read_query(query.text)
        names = output_columns(reading.tree)
        yield _Branch(model, part[0].start, query, reading.tree, reading.tables, names)


def _refuse_common_clauses(model: Model, tokens: Sequence[Token]) -> None:
    before = None
    for token, depth in _with_depths(tokens):
        kind, of_star = token.token_type, before == T.STAR
        before = kind
        if depth == 0 and kind in _COMMON_CLAUSES and not of_star:
            raise _mistake(
                f"'{token.text}' in {model.name} applies to all its sources, but they are loaded "
                "one by one",
                "make its query a UNION ALL of SELECTs and nothing else",
                model,
                token.start,
            )


def _with_depths(tokens: Iterable[Token]) -> Iterator[tuple[Token, int]]:
    """Yield each token with the number of open brackets after it."""
    depth = 0
    for token in tokens:
        depth += (token.token_type == T.L_PAREN) - (token.token_type == T.R_PAREN)
        yield token, depth


def _split_tokens(tokens: Sequence[Token], at: T) -> Iterator[list[Token]]:
    part: list[Token] = []
    for token, depth in _with_depths(tokens):
        if depth == 0 and token.token_type == at:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _used_ctes(ctes: Sequence[list[Token]], branch: Sequence[Token]) -> list[list[Token]]:
    words = {_word(token) for token in branch}
    needed: list[list[Token]] = []
    for cte in reversed(ctes):
        if _word(cte[0]) in words:
            needed.insert(0, cte)
            words.update(map(_word, cte))
    return needed


def _word(token: Token) -> str:
    return str(token.text).strip("`").lower()


def _same(one: str, other: str) -> bool:
    return one.lower() == other.lower()


def _mistake(
    message: str, hint: str | None, model: Model, offset: int | None = None
) -> ProjectError:
    return ProjectError(message, hint=hint, location=model.place(offset))
