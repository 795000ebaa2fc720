"""From a model's query to the SQL that Spark runs: names resolved, time variables replaced."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlglot import exp
from sqlglot.optimizer.scope import traverse_scope

from vde_dagster.planning.interval import Interval
from vde_dagster.planning.resolver import Resolver, qualified, select_physical
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.project.kinds import IncrementalByTimeRange
from vde_dagster.project.model import Audit, Model
from vde_dagster.project.names import ModelName, quote
from vde_dagster.project.spark_sql import spark_sql
from vde_dagster.project.sql import parse_query
from vde_dagster.project.time_variables import substitute_time_variables, time_variable_values

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
        # First, because SQLGlot writes a variable that is left in another syntax.
        values = time_variable_values(interval.start, interval.end, execution_time or interval.end)
        sql = substitute_time_variables(sql, values)
    return replace_tables(sql, lambda name: relation(name, resolver, catalog))


def relation(name: ModelName, resolver: Resolver, catalog: str) -> str | None:
    """Return the query that a model's name stands for; None for what is no model's name."""
    if name not in resolver.entries:
        return None
    binding = resolver.resolve(name)
    if binding.external is not None:
        return f"SELECT * FROM {qualified(binding.external, catalog)}"
    if binding.table is not None:
        return select_physical(binding, catalog)
    return render_query(binding.snapshot.model, resolver, catalog)


def replace_tables(sql: str, relation_of: Relation) -> str:
    """Replace every table that a query reads by a subquery, under the name it is called by.

    Common table expressions are left alone, also where one hides a table's name. A column that is
    qualified with a schema (`staging.orders.id`) loses the schema, as the subquery has none.
    """
    tree = parse_query(sql)
    for table in _tables_read(tree):
        name = ModelName.parse(".".join(quote(part.name) for part in table.parts[-2:]))
        query = relation_of(name)
        if query is None:
            continue
        _put_in_place(table, query)
    for column in list(tree.find_all(exp.Column)):
        if column.args.get("db"):
            column.set("db", None)
            column.set("catalog", None)
    return spark_sql(tree)


def _tables_read(tree: exp.Expr) -> list[exp.Table]:
    """List the tables of a query that are not its common table expressions."""
    found: dict[int, exp.Table] = {}
    for scope in traverse_scope(tree):
        for table in scope.tables:
            ctes = scope.cte_sources
            if not (table.name in ctes and not table.db):
                found[id(table)] = table
    return list(found.values())


def _put_in_place(table: exp.Table, query: str) -> None:
    inner = parse_query(query)
    simple = _plain_table(inner)
    alias = table.alias or table.name
    kept = {
        key: table.args[key]
        for key in ("joins", "laterals", "pivots", "sample", "version", "when")
        if table.args.get(key)
    }
    columns = table.args["alias"].args.get("columns") if table.args.get("alias") else None
    new: exp.Expr
    new = simple.copy() if simple is not None else exp.Subquery(this=inner)
    new.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True), columns=columns))
    for key, value in kept.items():
        new.set(key, value)
    table.replace(new)


def _plain_table(query: exp.Expr) -> exp.Table | None:
    """Return the table of `SELECT * FROM table`, which needs no subquery around it.

    A filter, a join, DISTINCT, `* EXCEPT (…)`: whatever else the query says keeps it a subquery.
    """
    if not isinstance(query, exp.Select) or query.expressions != [exp.Star()]:
        return None
    if {key for key, value in query.args.items() if value} != {"expressions", "from_"}:
        return None
    table = query.args["from_"].this
    parts = {"this", "db", "catalog", "alias"}
    if isinstance(table, exp.Table) and {k for k, v in table.args.items() if v} <= parts:
        return table
    return None


def render_environment_query(sql: str, views: Callable[[ModelName], str | None]) -> str:
    """Rewrite a user's query so that model names mean one environment's views.

    Args:
        sql: The query; model names as in the project.
        views: The quoted full name of a model's view, or None when the name is no model's.
    """

    def relation_of(name: ModelName) -> str | None:
        view = views(name)
        return f"SELECT * FROM {view}" if view else None

    return replace_tables(sql, relation_of)


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
    if isinstance(kind, IncrementalByTimeRange):
        column = TimeColumn(kind.time_column, time_type or "TIMESTAMP", kind.time_format)
        rows = f"SELECT * FROM ({rows}) WHERE {column.condition(interval)}"
    query = audit.query.replace("@this_model", f"({rows})")
    values = time_variable_values(interval.start, interval.end, interval.end)
    query = substitute_time_variables(query, values)
    return replace_tables(query, lambda name: relation(name, resolver, catalog))
