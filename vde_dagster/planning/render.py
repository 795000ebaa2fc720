"""From a model's query to the SQL that Spark runs: names resolved, time variables replaced."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlglot import exp

from vde_dagster.base.names import ModelName, quote
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.resolver import Resolver, select_physical
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table_places import put_in_place
from vde_dagster.project.macros.time_variables import (
    substitute_time_variables,
    time_variable_values,
)
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import Edit, apply_edits
from vde_dagster.sql.qualify import without_qualify
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.trees import tables_read

Relation = Callable[[ModelName], str | None]
"""Gives the query that a table's name stands for; None leaves the name as it is."""


def render_query(
    model: Model,
    resolver: Resolver,
    catalog: str,
    interval: Interval | None = None,
    execution_time: datetime | None = None,
) -> str:
    """Render a model's query over an environment's tables.

    Args:
        model: The model; it must have a query.
        resolver: The environment.
        catalog: The Spark catalog's name.
        interval: The half-open UTC range that the time variables describe, if there is one.
        execution_time: What `@execution_ts` and its like say (UTC).

    Returns:
        Spark SQL without any project name left in it.
    """
    assert model.query is not None
    sql = model.query
    if interval is not None:
        values = time_variable_values(interval.start, interval.end, execution_time or interval.end)
        sql = substitute_time_variables(sql, values)
    return replace_tables(sql, lambda name: relation(name, resolver, catalog))


def relation(name: ModelName, resolver: Resolver, catalog: str) -> str | None:
    """Return the query that a model's name stands for; None for what is no model's name."""
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
    return render_query(binding.snapshot.model, resolver, catalog)


def replace_tables(sql: str, relation_of: Relation, names: TableNames | None = None) -> str:
    """Replace every table that a query reads by a subquery, under the name it is called by.

    All other words stay as they are, but for QUALIFY, which Spark has not. Common table expressions
    are left alone, also where one hides a table's name. A column that is qualified with a schema
    (`staging.orders.id`) loses the schema, as the subquery has none; tables of one name and several
    schemas in one FROM are told apart by it.

    Args:
        sql: Spark SQL.
        relation_of: What a table's name stands for.
        names: What names of tables mean; by default they have two parts, as in stored queries.

    Raises:
        UsageError: A model is read as of an earlier version.
    """
    reading = read_query(sql)
    edits: list[Edit] = []
    found: list[tuple[exp.Table, str]] = []
    unnamed: list[exp.Table] = []
    for table in list(tables_read(reading.tree)):
        name = _model_name(table, names)
        query = relation_of(name) if name is not None else None
        if query is None:
            continue
        if not table.alias:
            unnamed.append(table)
        found.append((table, query))
    aliases = _aliases(unnamed)
    for table, query in found:
        edits += put_in_place(reading, table, query, aliases.get(id(table)))
    edits += _columns_of(reading.tree, unnamed, aliases)
    return without_qualify(apply_edits(sql, edits))


def _model_name(table: exp.Table, names: TableNames | None) -> ModelName | None:
    if names is not None:
        return names.model_name_or_none([part.name for part in table.parts])
    quoted = (part.name.replace("`", "``") for part in table.parts[-2:])
    return ModelName.parse(".".join(f"`{part}`" for part in quoted))


def _aliases(unnamed: Sequence[exp.Table]) -> dict[int, str]:
    """Name tables without an alias, by id: apart where one FROM has two of one name."""
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


def _columns_of(
    tree: exp.Expr, unnamed: Sequence[exp.Table], names: Mapping[int, str]
) -> list[Edit]:
    """Call tables by their new names where columns are qualified with their full ones."""
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


def render_environment_query(
    sql: str, views: Callable[[ModelName], str | None], names: TableNames
) -> str:
    """Rewrite a user's query so that model names mean one environment's views.

    Args:
        sql: The query; model names as in the project.
        views: The quoted full name of a model's view, or None when the name is no model's.
        names: What names of tables mean.
    """

    def relation_of(name: ModelName) -> str | None:
        view = views(name)
        return f"SELECT * FROM {view}" if view else None

    return replace_tables(sql, relation_of, names)


def render_audit(
    audit: Audit,
    snapshot: Snapshot,
    rows: str,
    resolver: Resolver,
    catalog: str,
    interval: Interval,
    time_type: str | None = None,
) -> str:
    """Render an audit's query over one range of a table.

    Args:
        audit: The audit.
        snapshot: The audited snapshot.
        rows: The query that returns the snapshot's rows.
        resolver: The environment, for other models that the audit reads.
        catalog: The Spark catalog's name.
        interval: The audited range (UTC); kinds without a time column are audited whole.
        time_type: Spark SQL type of the time column, for kinds that have one.

    Returns:
        Spark SQL that returns the failing rows.
    """
    kind = snapshot.model.kind
    rows = meaning_of(kind).audited_rows(kind, rows, interval, time_type)
    query = audit.query.replace("@this_model", f"({rows})")
    values = time_variable_values(interval.start, interval.end, interval.end)
    query = substitute_time_variables(query, values)
    return replace_tables(query, lambda name: relation(name, resolver, catalog))
