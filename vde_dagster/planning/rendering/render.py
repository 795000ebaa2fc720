"""Rendering of queries and statements for Spark: names resolved, time variables replaced.

A relation in Spark is a name with an optional version (`VERSION AS OF 3`), sample and alias, in
this order; a subquery has a sample and an alias (`relationPrimary` in `SqlBaseParser.g4`).
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from sqlglot import exp
from sqlglot.tokens import Token  # type: ignore[attr-defined]

from vde_dagster.base.names import ModelName, quote
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.resolver import Resolver, select_physical
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.macros.variables import (
    substitute_time_variables,
    this_model_values,
    time_variable_values,
)
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.outline import replace_qualify
from vde_dagster.sql.reading import Reading, read_query
from vde_dagster.sql.scanner import Token as SourceToken
from vde_dagster.sql.statements import read_temporary_view

Relation = Callable[[ModelName], str | None]
"""Returns the query for a table's name; None to keep the name."""


def render_query(
    model: Model,
    resolver: Resolver,
    catalog: str,
    interval: Interval | None = None,
    execution_time: datetime | None = None,
) -> str:
    """Write a model's query as Spark SQL over the physical tables of an environment.

    Args:
        interval: The half-open UTC range of the time variables, if any.
        execution_time: The instant (UTC) for `@execution_ts` and similar variables.
    """
    assert model.query is not None
    sql = model.query
    if interval is not None:
        values = time_variable_values(interval.start, interval.end, execution_time or interval.end)
        sql = substitute_time_variables(sql, values)
    return replace_tables(sql, relation_function(resolver, catalog, interval, execution_time))


def render_plain_query(model: Model, resolver: Resolver, catalog: str) -> str:
    """Render a model's query over physical tables for analysis, without branches or previews."""
    tables = {key: replace(one, preview=None) for key, one in resolver.tables.items()}
    return render_query(model, replace(resolver, branches={}, tables=tables), catalog)


def relation_query(
    name: ModelName,
    resolver: Resolver,
    catalog: str,
    interval: Interval | None = None,
    execution_time: datetime | None = None,
) -> str | None:
    """Return the query that replaces a model's name in SQL, or None to keep the name.

    Args:
        interval: Range (UTC) of the fill, audit or statement that reads the model. If the model has
            no table, the time variables in its query get this range.
    """
    if name not in resolver.entries:
        return None
    binding = resolver.resolve(name)
    if binding.external is not None:
        commits = binding.commits.clause if binding.commits is not None else ""
        return f"SELECT * FROM {binding.external.quoted(catalog)}{commits}"
    if binding.table is not None:
        return select_physical(binding, catalog)
    if binding.snapshot.model.query is None:
        return None  # A standalone audit has no rows.
    return render_query(binding.snapshot.model, resolver, catalog, interval, execution_time)


def relation_function(
    resolver: Resolver,
    catalog: str,
    interval: Interval | None = None,
    execution_time: datetime | None = None,
) -> Relation:
    """Return a function that maps a model's name to the query that replaces it in SQL."""
    return lambda name: relation_query(name, resolver, catalog, interval, execution_time)


def replace_tables(sql: str, relation_of: Relation, names: TableNames | None = None) -> str:
    """Replace each table with the query that `relation_of` returns for the table's name, if any.

    The query gets the table's alias, or else the table's name. Columns that are qualified with a
    schema (`staging.orders.id`) get the new alias as their qualifier, and QUALIFY, which Spark
    lacks, is rewritten. The rest of the SQL stays the same.

    Args:
        names: Resolves tables' names; by default they have two parts, as in stored queries.

    Raises:
        UsageError: A model is read as of an earlier version.
    """
    # Common table expressions are kept, even if one hides a table's name. A column that is
    # qualified with a schema (`staging.orders.id`) loses the schema, because the subquery has none.
    # If one FROM has tables of the same name in several schemas, the schema determines the column's
    # subquery.
    reading = read_query(sql)
    edits: list[Edit] = []
    found: list[tuple[exp.Table, str]] = []
    unnamed: list[exp.Table] = []
    for table in reading.tables:
        name = _model_name(table, names)
        query = relation_of(name) if name is not None else None
        if query is None:
            continue
        if not table.alias:
            unnamed.append(table)
        found.append((table, query))
    aliases = _aliases(unnamed)
    for table, query in found:
        edits += replace_table_by_query(reading, table, query, aliases.get(id(table)))
    edits += _rename_qualifiers(reading.tree, unnamed, aliases)
    return replace_qualify(apply_edits(sql, edits))


def _model_name(table: exp.Table, names: TableNames | None) -> ModelName | None:
    if names is not None:
        return names.model_name_or_none([part.name for part in table.parts])
    return ModelName.parse(quote(*(part.name for part in table.parts[-2:])))


def _aliases(unnamed: Sequence[exp.Table]) -> dict[int, str]:
    """Return an alias for each table without an alias, by the `id()` of the table's expression."""
    # If tables of one FROM have equal names in several schemas, their names include the schema.
    called: dict[tuple[int, str], list[exp.Table]] = {}
    for table in unnamed:
        select = table.find_ancestor(exp.Select)
        called.setdefault((id(select), table.name.lower()), []).append(table)
    names = {}
    for tables in called.values():
        apart = len({table.db.lower() for table in tables}) > 1
        for table in tables:
            names[id(table)] = f"{table.db}.{table.name}" if apart else table.name
    return names


def _rename_qualifiers(
    tree: exp.Expr, unnamed: Sequence[exp.Table], names: Mapping[int, str]
) -> list[Edit]:
    new = {(table.db.lower(), table.name.lower()): names[id(table)] for table in unnamed}
    if not new:
        return []
    edits = []
    for column in tree.find_all(exp.Column):
        schema = column.args.get("db")
        name = new.get((schema.name.lower(), column.table.lower())) if schema is not None else None
        if name is None:
            continue
        first, own = column.parts[0].meta.get("start"), column.args["table"].meta
        if first is not None and "end" in own:
            edits.append(Edit(first, own["end"] + 1, quote(name)))
    return edits


def render_audit(
    audit: Audit,
    snapshot: Snapshot,
    rows: str,
    resolver: Resolver,
    catalog: str,
    interval: Interval,
    time_type: str | None = None,
) -> str:
    """Render the query that returns an audit's failing rows in one range of a table.

    Args:
        rows: The query that returns the snapshot's rows.
        resolver: Resolves other models that the audit reads.
        interval: The audited range (UTC). Without a time column, all rows are audited.
        time_type: Spark SQL type of the time column, if the kind has one.
    """
    kind = snapshot.model.kind
    rows = meaning_of(kind).audited_rows(kind, rows, interval, time_type)
    query = audit.query.replace("@this_model", f"({rows})")
    values = time_variable_values(interval.start, interval.end, interval.end)
    query = substitute_time_variables(query, values)
    return replace_tables(query, relation_function(resolver, catalog, interval))


_QUOTED = r"`(?:[^`]|``)*`"
_ONLY_A_NAME = re.compile(rf"SELECT \* FROM ({_QUOTED}(?:\.{_QUOTED})*)")
_VERSIONS = frozenset({"VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME"})


def replace_table_by_query(
    reading: Reading, table: exp.Table, query: str, alias: str | None
) -> list[Edit]:
    """Return the text edits that put a query in the place of a table in FROM.

    Raises:
        UsageError: The table is read as of an earlier version, and `query` is not only a name.
    """
    # The query gets `alias` if the table has none.
    start, end = table.parts[0].meta["start"], table.parts[-1].meta["end"] + 1
    only = _ONLY_A_NAME.fullmatch(query)
    new = only[1] if only else f"({query})"
    tokens = _from(reading.tokens, end)
    behind = end
    if tokens and _is_version(tokens):
        if only is None:
            raise UsageError(
                f"the query reads the model {table.name} as of an earlier version",
                hint="remove the version: `vde query ENV@VERSION` reads earlier rows of models",
            )
        behind = _end_of_version(tokens)
        tokens = _from(tokens, behind)
    if tokens and tokens[0].text.upper() == "TABLESAMPLE":
        behind = _end_of_sample(tokens)
    named = f" AS {quote(alias)}" if alias is not None else ""
    if behind == end:
        return [Edit(start, end, new + named)]
    edits = [Edit(start, end, new)]
    return [*edits, Edit(behind, behind, named)] if named else edits


def _from(tokens: list[Token], offset: int) -> list[Token]:
    return tokens[bisect_left(tokens, offset, key=lambda token: token.start) :]


def _is_version(tokens: list[Token]) -> bool:
    words = [token.text.upper() for token in tokens[:4]]
    if words[:1] == ["FOR"]:
        words = words[1:]
    first = words[0].split()[0] if words and words[0] else ""
    return first in _VERSIONS and "OF" in " ".join(words[:3]).split()


def _end_of_version(tokens: list[Token]) -> int:
    """Return the offset after `VERSION AS OF 3` or `TIMESTAMP AS OF f(x)`."""
    index = next(i for i, token in enumerate(tokens) if token.text.upper().split()[-1:] == ["OF"])
    index += 1
    if tokens[index].text.isidentifier() and index + 1 < len(tokens):
        following = tokens[index + 1].text
        if following == "(":
            return _closing(tokens, index + 1)
        if following[:1] in "'\"":
            index += 1
    return tokens[index].end + 1


def _end_of_sample(tokens: list[Token]) -> int:
    """Return the offset after `TABLESAMPLE (10 PERCENT) REPEATABLE (1)`."""
    behind = _closing(tokens, 1)
    rest = _from(tokens, behind)
    return _closing(rest, 1) if rest and rest[0].text.upper() == "REPEATABLE" else behind


def _closing(tokens: list[Token], opening: int) -> int:
    depth = 0
    for token in tokens[opening:]:
        depth += (token.text == "(") - (token.text == ")")
        if depth == 0:
            return token.end + 1
    return tokens[-1].end + 1


def render_statements(
    statements: Sequence[str],
    relation_of: Relation,
    this_model: str,
    interval: Interval,
    execution_time: datetime,
) -> tuple[str, ...]:
    """Replace the variables of statements, and the tables that their temporary views read.

    Args:
        this_model: The quoted name for `@this_model`.
        interval: The half-open UTC range for the time variables.
        execution_time: The instant (UTC) for `@execution_ts` and similar variables.
    """
    if not statements:
        return ()
    values = time_variable_values(interval.start, interval.end, execution_time)
    values |= this_model_values(this_model)
    return tuple(
        _over_tables(substitute_time_variables(one, values), relation_of) for one in statements
    )


def _over_tables(statement: str, relation_of: Relation) -> str:
    view = read_temporary_view(SourceToken.split(statement))
    if view is None or view.start is None:
        return statement
    query = replace_tables(statement[view.start :], relation_of)
    return statement[: view.start] + query
