"""The SQL of views as Trino reads it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vde_dagster.planning.pinned import PinnedTable
from vde_dagster.planning.table import TableRef

if TYPE_CHECKING:
    from sqlglot import exp


def trino_select(
    table: TableRef,
    columns: Iterable[tuple[str, str]],
    catalog: str,
    pinned: PinnedTable | None = None,
) -> str:
    """Write the query that reads a physical table under a model's column names.

    Args:
        table: The table.
        columns: (output column, physical column) in output order.
        catalog: The catalog's name in Trino.
        pinned: The state of the table to read; None for what it is.
    """
    path = ".".join(_quote(part) for part in (catalog, table.namespace, table.name))
    if pinned is None:
        names = ", ".join(f"{_quote(phys)} AS {_quote(out)}" for out, phys in columns)
        return f"SELECT {names} FROM {path}"
    names = ", ".join(f"{_pinned_value(pinned, phys)} AS {_quote(out)}" for out, phys in columns)
    if pinned.snapshot_id is None:
        return f"SELECT {names} WHERE false"
    return f"SELECT {names} FROM {path} FOR VERSION AS OF {pinned.snapshot_id}"


def _pinned_value(pinned: PinnedTable, column: str) -> str:
    there, type_ = pinned.needs(column)
    value = _quote(column) if there else "NULL"
    return f"CAST({value} AS {_trino_type(type_)})" if type_ is not None else value


def _trino_type(type_: str) -> str:
    """Write a type of Spark SQL as Trino has it in views: timestamps with microseconds."""
    from sqlglot import exp

    # Below something else: what stands alone cannot be exchanged.
    cast = exp.Cast(this=exp.null(), to=exp.DataType.build(type_, dialect="spark"))
    _keep_microseconds(cast)
    return cast.to.sql(dialect="trino")


def trino_query(
    sql: str, columns: Iterable[tuple[str, str]], catalog: str, trino_catalog: str
) -> str | None:
    """Translate a query whose result has the types that Spark gave it.

    Trino refuses a view whose query gives another type than the view declares, unless it is a
    narrower one; its `row_number`, its `hour` and its `sum` of decimals give wider ones.

    Args:
        sql: The query in Spark SQL.
        columns: (column, Spark SQL type) of its result.
        catalog: The catalog's name in Spark.
        trino_catalog: The catalog's name in Trino.

    Returns:
        The query, or None where SQLGlot knows no equivalent, or a wrong one.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.planning.trino_stars import write_out_stars
    from vde_dagster.sql.misread import is_misread

    try:
        if is_misread(sql):
            return None
        tree = sqlglot.parse_one(sql, read="spark")
        if tree.find(exp.AtTimeZone):
            # Spark's `from_utc_timestamp` moves the instant; AT TIME ZONE only shows it elsewhere.
            return None
        if not write_out_stars(tree):
            return None
        _keep_values(tree)
        tree = _with_types(tree, tuple(columns))
        for table in tree.find_all(exp.Table):
            if table.catalog and table.catalog != catalog:
                return None  # What Trino calls that catalog, nobody has said.
            if table.catalog == catalog:
                table.set("catalog", exp.to_identifier(trino_catalog, quoted=True))
        _keep_microseconds(tree)
        return tree.sql(dialect="trino", unsupported_level=sqlglot.ErrorLevel.RAISE)
    except SqlglotError:
        return None


def _keep_values(tree: exp.Expr) -> None:
    """Spell out two things that SQLGlot writes as they are and that Trino computes otherwise.

    Spark truncates a fraction that is cast to an integer, where Trino rounds; Spark's average of
    decimals has four more digits. The types are not known here, so all values take the detour.
    """
    from sqlglot import exp

    double = exp.DataType.build("DOUBLE")
    integers = dict.fromkeys((exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT), double)
    # A double holds every INT, but not every BIGINT.
    integers[exp.DType.BIGINT] = exp.DataType.build("DECIMAL(38, 18)")
    for cast in list(tree.find_all(exp.Cast)):
        number = integers.get(cast.to.this)
        if number is not None and not cast.this.is_string:
            # Of the cast's own class: what may fail as NULL may do so here too.
            fraction = type(cast)(this=cast.this, to=number.copy())
            cast.set("this", exp.Anonymous(this="TRUNCATE", expressions=[fraction]))
    for average in list(tree.find_all(exp.Avg)):
        value = average.this
        if isinstance(value, exp.Distinct):
            value = value.expressions[0]
        value.replace(exp.Cast(this=value.copy(), to=double.copy()))


def _with_types(query: exp.Expr, columns: tuple[tuple[str, str], ...]) -> exp.Expr:
    """Cast every column of a query."""
    from sqlglot import exp

    def cast(name: str, type_: str) -> exp.Expr:
        # A column of NULLs, which has no type in Spark, is declared as text.
        kind = exp.DataType.build("STRING" if type_.upper() == "VOID" else type_, dialect="spark")
        value = exp.Cast(this=exp.column(name, quoted=True), to=kind)
        return exp.alias_(value, name, quoted=True)

    alias = exp.TableAlias(
        this=exp.to_identifier("_rows", quoted=True),
        columns=[exp.to_identifier(name, quoted=True) for name, _ in columns],
    )
    return exp.Select(
        expressions=[cast(name, type_) for name, type_ in columns],
        from_=exp.From(this=exp.Subquery(this=query, alias=alias)),
    )


def _keep_microseconds(tree: exp.Expr) -> None:
    """Give types of timestamps Spark's precision: one without means milliseconds in Trino."""
    from sqlglot import exp

    timestamps = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ)
    for kind in tree.find_all(exp.DataType):
        if kind.this in timestamps and not kind.expressions:
            kind.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(6))])


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'
