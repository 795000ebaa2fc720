"""Rewrites of joins that would have another result in Spark.

SQLGlot (30.30) writes every join with UNNEST as LATERAL VIEW EXPLODE. This is correct only for an
inner join without a condition.

After a join with USING, Spark puts the joined columns first, in `*` and in a table's star `t.*`.
The SQL standard, PostgreSQL, BigQuery, Snowflake and MySQL (by their documentation) do so only in
`*`. Trino leaves the joined columns out of `t.*`. DuckDB (which was run), SQLite and ClickHouse
keep every column at its place in the table. For such dialects, USING becomes ON, and `*` becomes a
star for each table.
"""

from __future__ import annotations

from sqlglot import exp

from vde_dagster.sql.other_dialects import SPARKS, Unwritable

_IN_PLACE = frozenset({"duckdb", "sqlite", "clickhouse"})
"""Dialects that leave the columns of USING in the left table."""


def name_unnest_columns(tree: exp.Expr, dialect: str) -> None:
    """Name the columns of UNNEST in PostgreSQL, where a lone column has the name of the alias."""
    for unnest in tree.find_all(exp.Unnest) if dialect == "postgres" else ():
        holder = unnest.parent if isinstance(unnest.parent, exp.Lateral) else unnest
        alias = holder.args.get("alias")
        if alias is not None and not alias.columns and len(unnest.expressions) == 1:
            alias.set("columns", [alias.this.copy()])


def keep_star_order(tree: exp.Expr, dialect: str) -> None:
    """Rewrite stars over joins with USING so that columns have the dialect's order.

    Raises:
        Unwritable: The order depends on the columns of the tables, which are unknown here.
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
                raise _star_error().at_node(of_tables[0])
            stars = of_tables
        if has_keys and stars and not isinstance(select.parent, exp.Exists):
            _replace_using(select, joins)


_TRINOS = frozenset({"trino", "athena", "presto"})


def keep_unnest_joins(tree: exp.Expr, dialect: str) -> None:
    """Rewrite outer joins with UNNEST so that they keep rows without a match."""
    if dialect in SPARKS:
        return
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        for index, join in enumerate(joins):
            if join.method.upper() in ("ASOF", "POSITIONAL"):
                raise Unwritable(f"{join.method.upper()} JOIN").at_node(join)
            source = join.this.this if isinstance(join.this, exp.Lateral) else join.this
            if isinstance(source, exp.Unnest):
                _keep_unnest(select, join, source, joins[index + 1 :])


def _keep_unnest(
    select: exp.Select, join: exp.Join, unnest: exp.Unnest, later: list[exp.Join]
) -> None:
    alias = join.this.args.get("alias") or unnest.args.get("alias")
    names = {one.name.lower() for one in alias.find_all(exp.Identifier)} if alias else set()
    is_outer = join.side.upper() == "LEFT"
    if join.side and not is_outer:
        raise Unwritable(f"{join.side.upper()} JOIN with UNNEST").at_node(unnest)
    for one in later:  # A lateral view follows all joins.
        columns = (c for key in ("on", "this") if one.args.get(key) for c in one.args[key].walk())
        reads = any(
            isinstance(c, exp.Column) and {c.name.lower(), c.table.lower()} & names for c in columns
        )
        if one.side.upper() in ("RIGHT", "FULL") or (reads and not _is_view(one)):
            raise Unwritable("a join after UNNEST that reads its elements").at_node(unnest)
    condition = join.args.get("on")
    is_true = condition is None or (isinstance(condition, exp.Boolean) and condition.this)
    if join.args.get("using") or (is_outer and not is_true):
        raise Unwritable("a join with UNNEST by a condition").at_node(unnest)
    if not is_true:
        if any(one.side for one in select.args["joins"]):
            raise Unwritable("a join with UNNEST by a condition").at_node(unnest)
        select.where(condition, copy=False)
    if is_outer:
        _make_outer_view(select, join, unnest, alias)


def _is_view(join: exp.Join) -> bool:
    source = join.this.this if isinstance(join.this, exp.Lateral) else join.this
    return isinstance(source, exp.Unnest)


def _make_outer_view(
    select: exp.Select, join: exp.Join, unnest: exp.Unnest, alias: exp.TableAlias | None
) -> None:
    is_simple = len(unnest.expressions) == 1 and not unnest.args.get("offset")
    others = [one for one in select.args["joins"] if one is not join and _is_view(one)]
    if alias is None or not is_simple or others or len(alias.columns) not in (1, 2):
        raise Unwritable("LEFT JOIN with this UNNEST").at_node(unnest)
    select.args["joins"].remove(join)
    view = exp.Lateral(
        this=exp.Explode(this=unnest.expressions[0].copy()), view=True, outer=True, alias=alias
    )
    select.append("laterals", view)


def _star_error() -> Unwritable:
    return Unwritable("a star over this JOIN … USING, whose columns have another order in Spark")


def _replace_using(select: exp.Select, joins: list[exp.Join]) -> None:
    problem = _star_error()
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
            written += [_table_star(name, keys if name != names[0] else []) for name in names]
    select.set("expressions", written)


def _is_plain(join: exp.Join, keys: list[str]) -> bool:
    """Return whether a join is an inner or left join with these USING keys."""
    using = [key.name.lower() for key in join.args.get("using") or ()]
    return (
        using == [key.lower() for key in keys]
        and join.side in ("", "LEFT")
        and join.kind in ("", "INNER", "OUTER")
        and not join.method
    )


def _columns_in_scope(select: exp.Select) -> list[exp.Column]:
    """Return the column references of a SELECT outside of FROM, JOIN and WITH."""
    read = [select.args["from_"], *(select.args.get("joins") or ()), select.args.get("with_")]
    inside = {id(column) for part in read if part is not None for column in _find_columns(part)}
    return [column for column in _find_columns(select) if id(column) not in inside]


def _find_columns(part: exp.Expr) -> list[exp.Column]:
    return list(part.find_all(exp.Column))


def _table_star(table: str, left_out: list[str]) -> exp.Column:
    names = [exp.to_identifier(name) for name in left_out]
    return exp.Column(this=exp.Star(except_=names or None), table=exp.to_identifier(table))
