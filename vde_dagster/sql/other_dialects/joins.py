"""Stars over joins with USING, whose columns have another order in Spark.

Spark puts the columns of USING first, in a table's own star, too. In SQL's standard only a star
without a table does, as in PostgreSQL, BigQuery, Snowflake and MySQL by their documentation; Trino
leaves them out of a table's star. DuckDB (which was run), SQLite and ClickHouse leave them in their
table. Such joins get an ON here, and their stars are written table by table.
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.other_dialects import SPARKS, Unwritable

_IN_PLACE = frozenset({"duckdb", "sqlite", "clickhouse"})
"""Dialects that leave the columns of USING in the left table."""


def keep_star_order(tree: exp.Expr, dialect: str) -> None:
    """Write stars over joins with USING so that their columns keep their order, in place.

    Raises:
        Unwritable: The columns' places depend on columns of the tables, which are unknown.
    """
    if dialect in SPARKS:
        return
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        has_keys = any(join.args.get("using") or join.method == "NATURAL" for join in joins)
        stars = [one for one in select.expressions if one.is_star]
        if dialect not in _IN_PLACE:
            of_tables = [one for one in stars if isinstance(one, exp.Column)]
            if has_keys and of_tables and (dialect in _TRINOS or len(of_tables) < len(stars)):
                raise _problem().at_node(of_tables[0])
            stars = of_tables
        if has_keys and stars and not isinstance(select.parent, exp.Exists):
            _write_out(select, joins)


_TRINOS = frozenset({"trino", "athena", "presto"})


def _problem() -> Unwritable:
    return Unwritable("a star over this JOIN … USING, whose columns have another order in Spark")


def _write_out(select: exp.Select, joins: list[exp.Join]) -> None:
    problem = _problem()
    sources = [select.args["from_"].this, *(join.this for join in joins)]
    names = [source.alias_or_name for source in sources]
    keys = [key.name for key in joins[0].args.get("using") or ()]
    plain = all(_is_plain(join, keys) for join in joins) and not select.args.get("laterals")
    if not plain or not all(names) or len(set(map(str.lower, names))) < len(names):
        raise problem.at_node(select.args["from_"])
    wanted = {key.lower() for key in keys}
    for column in _columns_in_scope(select):
        if not column.table and column.name.lower() in wanted:
            if column.find_ancestor(exp.Query) is not select:
                raise problem.at_node(column)
            column.set("table", exp.to_identifier(names[0]))
    for join, name in zip(joins, names[1:], strict=True):
        pairs = [exp.column(key, names[0]).eq(exp.column(key, name)) for key in keys]
        join.set("on", exp.and_(*pairs))
        join.set("using", None)
    written: list[exp.Expr] = []
    for one in select.expressions:
        if not isinstance(one, exp.Star):
            written.append(one)
        elif any(one.args.values()):
            raise problem.at_node(select.args["from_"])
        else:
            written += [_star(name, keys if name != names[0] else []) for name in names]
    select.set("expressions", written)


def _is_plain(join: exp.Join, keys: list[str]) -> bool:
    """Return whether a join keeps the left table's keys, under the names of the first join."""
    using = [key.name.lower() for key in join.args.get("using") or ()]
    return (
        using == [key.lower() for key in keys]
        and join.side in ("", "LEFT")
        and join.kind in ("", "INNER", "OUTER")
        and not join.method
    )


def _columns_in_scope(select: exp.Select) -> list[exp.Column]:
    """Return the columns of a query, without those of the queries that it reads from."""
    read = [select.args["from_"], *(select.args.get("joins") or ()), select.args.get("with_")]
    inside = {id(column) for part in read if part is not None for column in _columns(part)}
    return [column for column in _columns(select) if id(column) not in inside]


def _columns(part: exp.Expr) -> list[exp.Column]:
    return list(part.find_all(exp.Column))


def _star(table: str, left_out: list[str]) -> exp.Column:
    names = [exp.to_identifier(name) for name in left_out]
    return exp.Column(this=exp.Star(except_=names or None), table=exp.to_identifier(table))
