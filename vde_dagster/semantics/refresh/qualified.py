"""Queries rewritten for analysis: without CTEs and stars, and with a source for each column.

SQLGlot's optimizer rewrites the query. A rewritten query with another semantic version than the
original is refused, so mistakes in the rewriting are found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.helper import find_new_name

from vde_dagster.errors import shortened
from vde_dagster.semantics._sqlglot import parse
from vde_dagster.semantics.analysis import Schema, analyze
from vde_dagster.semantics.binding.binder import Binder, Unsupported
from vde_dagster.semantics.binding.ctes import NO_CTES
from vde_dagster.semantics.binding.queries import bind_query
from vde_dagster.semantics.errors import SemanticError, locate
from vde_dagster.semantics.refresh.trees import list_sources
from vde_dagster.semantics.simplify import simplify
from vde_dagster.semantics.versions.digests import Digester
from vde_dagster.sql.reading import DOUBT, parse_plain
from vde_dagster.sql.trees import dismantle

_MOST_NODES = 20_000
"""Maximum number of nodes in a query's tree after references to CTEs become subqueries."""
_MOST_LETTERS = 90
"""Maximum length of a clause in a message."""


class NotRefreshableError(Exception):
    """A query cannot be refreshed from changes.

    Args:
        why: The reason, for example "the query takes the first rows".
        part: The part of the query that prevents the refresh, if there is exactly one.
        hint: A change of the query or of the model's kind that makes a refresh possible.

    Attributes:
        clause: Spark SQL of `part`, shortened; empty if `part` was not given.
        line, column: 1-based position of the part in the query's text, if known.
    """

    def __init__(self, why: str, part: exp.Expr | None = None, hint: str = "") -> None:
        self.clause = _short(part) if part is not None else ""
        super().__init__(f"{why}: {self.clause}" if self.clause else why)
        self.line, self.column = locate(part) if part is not None else (None, None)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Qualified:
    """A query whose columns all name their sources, as `o.id` does.

    Args:
        tree: The query. Its references to tables are renamed to `vde_0`, `vde_1`, …, and each has
            an alias.
        readings: The original names of the tables `vde_0`, `vde_1`, …, as in the schema.
        schema: Types by column and table.
    """

    tree: exp.Query
    readings: tuple[str, ...]
    schema: Schema

    def types(self, query: exp.Expr) -> Mapping[str, str]:
        """Return the output types of a subquery by column; empty if they are unknown."""
        named = {f"vde_{n}": self.schema[table] for n, table in enumerate(self.readings)}
        try:
            return analyze(write_spark_sql(query), named).output_types
        except SemanticError:
            return {}


def qualify(query: str, schema: Schema) -> Qualified:
    """Rewrite a query so that each column names its source.

    Args:
        schema: Types by column and table, in lower case.

    Raises:
        NotRefreshableError: The query cannot be rewritten without changing its meaning.
    """
    from sqlglot.optimizer.qualify import qualify as rewrite

    schema = {table.lower(): columns for table, columns in schema.items()}
    readings: list[str] = []
    try:
        version = _version(query, schema)
        tree = _without_ctes(parse_plain(query))
        for table in list(tree.find_all(exp.Table)):
            name = ".".join(part.name for part in table.parts).lower()
            if name not in schema:
                raise NotRefreshableError(f"the columns of {name} are not known")
            if set(table.args) - {"this", "db", "catalog", "alias", "joins"}:
                raise NotRefreshableError(
                    f"the query reads {name} with clauses that are not supported",
                    table,
                    "read the table without TABLESAMPLE, PIVOT and AS OF",
                )
            _rename(table, f"vde_{len(readings)}")
            readings.append(name)
        _name_semi_joins(tree, {name for one in schema.values() for name in one})
        columns: dict[str, object] = {
            f"vde_{n}": dict(schema[name]) for n, name in enumerate(readings)
        }
        tree = rewrite(
            tree,
            dialect="spark",
            schema=columns,
            validate_qualify_columns=False,
            quote_identifiers=False,
        )
        _name_apart(tree)
        again = tree.copy()
        for table in list(again.find_all(exp.Table)):
            _rename(table, *readings[reading_number(table.name)].split("."))
        same = _version(write_spark_sql(again), schema) == version
    except (SqlglotError, SemanticError, RecursionError, LookupError) as error:
        raise NotRefreshableError(
            "the tables of the query's columns cannot be determined"
        ) from error
    if not same or not isinstance(tree, exp.Query):
        raise NotRefreshableError("the tables of the query's columns cannot be determined")
    return Qualified(tree, tuple(readings), schema)


def find_table_node(tree: exp.Expr, number: int) -> exp.Table:
    (found,) = (table for table in tree.find_all(exp.Table) if table.name == f"vde_{number}")
    return found


def reading_number(name: str) -> int:
    return int(name.removeprefix("vde_"))


def _short(part: exp.Expr) -> str:
    shown = part.copy()
    for node in list(shown.find_all(exp.Table, exp.Identifier)):
        if isinstance(node, exp.Table) and node.name.startswith("vde_"):
            node.set("this", exp.to_identifier(node.alias_or_name))
            node.set("alias", None)
        elif isinstance(node, exp.Identifier) and node.name.isidentifier():
            node.set("quoted", False)
    return shortened(" ".join(write_spark_sql(shown).split()), _MOST_LETTERS)


def write_spark_sql(query: exp.Expr) -> str:
    """Write a query as Spark SQL, and keep QUALIFY."""
    return query.sql("databricks" if query.find(exp.Qualify) else "spark")


def _version(query: str, schema: Schema) -> object:
    """Return a query's output names and version.

    Raises NotRefreshableError if the query is not supported, SemanticError if it cannot be parsed.
    """
    tree = parse(query)
    binder = Binder(schema, {})
    binder.using_calls_coalesce = True
    binder.unsupported_reason = tree.meta.get(DOUBT)
    try:
        rel = bind_query(binder, tree, None, NO_CTES)
        if binder.unsupported_reason is not None or binder.mistakes:
            raise NotRefreshableError(binder.unsupported_reason or str(binder.mistakes[0]))
        names = [output.name for output in rel.outputs]
        simplify(rel, binder.terms)
        return names, Digester().digest_query(rel)
    except Unsupported as why:
        raise NotRefreshableError(str(why)) from None
    finally:
        binder.terms.free_nodes()
        dismantle(tree)


def _rename(table: exp.Table, *parts: str) -> None:
    alias = table.alias_or_name
    for name, part in zip(("this", "db", "catalog"), reversed(parts), strict=False):
        table.set(name, exp.to_identifier(part, quoted=True))
    for name in ("db", "catalog")[len(parts) - 1 :]:
        table.set(name, None)
    table.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _name_semi_joins(tree: exp.Expr, columns: set[str]) -> None:
    """Rename aliases of the right sides of semi and anti joins that are also names of columns."""
    # For SQLGlot they are no sources: it reads `alias.name` as the field of a column `alias`.
    used = {one.name for one in tree.find_all(exp.Identifier)}
    columns = {*columns, *(one.alias.lower() for one in tree.find_all(exp.Alias))}
    for join in list(tree.find_all(exp.Join)):
        alias, name = join.this.args.get("alias"), join.this.alias_or_name
        if join.kind.upper() not in ("SEMI", "ANTI") or name.lower() not in columns or not alias:
            continue
        new = find_new_name(used, f"{name}_")
        used.add(new)
        alias.set("this", exp.to_identifier(new, quoted=True))
        on = join.args.get("on")
        for column in on.find_all(exp.Column) if on is not None else ():
            first = column.parts[0]
            named = len(column.parts) > 1 and first.name.lower() == name.lower()
            if named and not _is_from_within(column, join.parent_select):
                first.replace(exp.to_identifier(new, quoted=True))


def _name_apart(tree: exp.Expr) -> None:
    used = {one.name for one in tree.find_all(exp.Identifier)}
    seen: set[str] = set()
    for select in list(tree.find_all(exp.Select)):
        new: dict[str, str] = {}
        sources = [*list_sources(select), *(select.args.get("laterals") or ())]
        for source in sources:
            name = source.alias_or_name
            # A repeated alias in a subquery would hide the alias of an outer query.
            if name in seen and isinstance(source.args.get("alias"), exp.TableAlias):
                new[name] = find_new_name(used, f"{name}_")
                used.add(new[name])
                source.args["alias"].set("this", exp.to_identifier(new[name], quoted=True))
            seen.add(name)
        for column in list(select.find_all(exp.Column)) if new else ():
            if column.table in new and not _is_from_within(column, select):
                column.set("table", exp.to_identifier(new[column.table], quoted=True))


def _is_from_within(column: exp.Column, select: exp.Expr | None) -> bool:
    at = column.parent_select
    while at is not None and at is not select:
        sources = [*list_sources(at), *(at.args.get("laterals") or ())]
        if any(source.alias_or_name == column.table for source in sources):
            return True
        at = at.parent_select
    return False


def _without_ctes(tree: exp.Expr) -> exp.Expr:
    """Replace each reference to a CTE with the CTE's query.

    Raises:
        NotRefreshableError: A CTE reads itself, or the query becomes too large.
    """
    while (clause := tree.find(exp.With)) is not None:
        owner = clause.parent
        assert owner is not None
        if clause.args.get("recursive"):
            raise NotRefreshableError("a CTE reads itself", clause.expressions[0].args["alias"])
        for cte in list(clause.expressions):
            _put_in(owner, cte)
        owner.set("with_", None)
        if sum(1 for _ in tree.walk()) > _MOST_NODES:
            raise NotRefreshableError("the query is too large with its CTEs inserted")
    return tree


def _put_in(owner: exp.Expr, cte: exp.CTE) -> None:
    if cte.args["alias"].args.get("columns"):
        raise NotRefreshableError(
            f"the CTE {cte.alias} renames its columns",
            cte.args["alias"],
            "name the columns in the SELECT of the CTE",
        )
    for table in list(owner.find_all(exp.Table)):
        if table.args.get("db") or table.name.lower() != cte.alias.lower():
            continue
        if table.find_ancestor(exp.CTE) is cte or _is_hidden(table, owner, cte.alias):
            continue
        body = exp.Subquery(
            this=cte.this.copy(), alias=exp.TableAlias(this=exp.to_identifier(table.alias_or_name))
        )
        table.replace(body)


def _is_hidden(table: exp.Expr, owner: exp.Expr, name: str) -> bool:
    at = table.parent
    while at is not None and at is not owner:
        inner = at.args.get("with_")
        if inner is not None and any(c.alias.lower() == name.lower() for c in inner.expressions):
            return True
        at = at.parent
    return False
