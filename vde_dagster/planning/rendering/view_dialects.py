"""Dialects of views other than Spark SQL, with a writer for each in `WRITERS` or in a plug-in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.planning.tables.nested_fields import ShownFields, is_nested
from vde_dagster.planning.tables.pinned_reads import PinnedTable
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.base.names import ModelName
    from vde_dagster.project.macros.known_columns import Columns


def trino_select(
    table: TableRef,
    columns: Iterable[tuple[str, str]],
    catalog: str,
    pinned: PinnedTable | None = None,
    fields: Mapping[str, ShownFields] = MappingProxyType({}),
) -> str:
    """Write the query that reads a physical table under a model's column names.

    Args:
        columns: (output column, physical column) in output order.
        catalog: The catalog's name in Trino.
        pinned: The earlier state of the table to read; None for the current state.
        fields: How to read nested columns, by output column.
    """
    path = ".".join(_quote(part) for part in (catalog, table.namespace, table.name))
    if pinned is None:
        names = ", ".join(
            f"{_with_fields(_quote(phys), fields.get(out))} AS {_quote(out)}"
            for out, phys in columns
        )
        return f"SELECT {names} FROM {path}"
    names = ", ".join(
        f"{_pinned_value(pinned, phys, fields.get(out))} AS {_quote(out)}" for out, phys in columns
    )
    if pinned.snapshot_id is None:
        return f"SELECT {names} WHERE false"
    return f"SELECT {names} FROM {path} FOR VERSION AS OF {pinned.snapshot_id}"


def _pinned_value(pinned: PinnedTable, column: str, fields: ShownFields | None) -> str:
    there, type_ = pinned.column_and_cast(column)
    value = _quote(column) if there else "NULL"
    if fields is not None:
        named = _with_fields(value, fields, pinned.there.get(column)) if there else value
        return named if type_ is None else f"CAST({named} AS {_trino_type(fields.shown)})"
    return f"CAST({value} AS {_trino_type(type_)})" if type_ is not None else value


def _with_fields(value: str, fields: ShownFields | None, has: str | None = None) -> str:
    """Write Trino SQL that converts a column to the type `fields.shown`.

    Args:
        has: The column's Spark SQL type; by default `fields.has`.
    """
    if fields is None:
        return value
    if not is_nested(fields.has):
        return f"CAST({value} AS {_trino_type(fields.shown)})"
    from vde_dagster.sql.reading import parse_type

    kinds = parse_type(has or fields.has), parse_type(fields.read), parse_type(fields.shown)
    return _row_value(value, kinds, 0)


def _row_value(
    value: str, kinds: tuple[exp.DataType, exp.DataType, exp.DataType], depth: int
) -> str:
    """Write Trino SQL that converts a value to the view's fields, with their names and order.

    Args:
        kinds: The type of the value; the type with only the view's fields, under their names in the
            table; and the same type with the fields' names in the view.
    """
    from sqlglot import exp

    has, read, shown = kinds
    if read.this != has.this or read.this not in (exp.DType.STRUCT, exp.DType.ARRAY, exp.DType.MAP):
        return value
    if read.this == exp.DType.STRUCT:
        own = {part.name.lower(): part.args["kind"] for part in has.expressions}
        parts = []
        for part, named in zip(read.expressions, shown.expressions, strict=True):
            known = own.get(part.name.lower())
            if known is None:
                parts.append("NULL")
                continue
            inner = known, part.args["kind"], named.args["kind"]
            parts.append(_row_value(f"{value}.{_quote(part.name)}", inner, depth))
        row = f"CAST(ROW({', '.join(parts)}) AS {_trino_type(shown.sql('spark'))})"
        return f"IF({value} IS NULL, NULL, {row})"
    one = f"e{depth}"
    last = (has.expressions[-1], read.expressions[-1], shown.expressions[-1])
    made = _row_value(one, last, depth + 1)
    if made == one:
        return value
    if read.this == exp.DType.ARRAY:
        return f"transform({value}, {one} -> {made})"
    return f"transform_values({value}, (k{depth}, {one}) -> {made})"


def _trino_type(type_: str) -> str:
    from sqlglot import exp

    # Below something else: what stands alone cannot be exchanged.
    cast = exp.Cast(this=exp.null(), to=exp.DataType.build(type_, dialect="spark"))
    _keep_microseconds(cast)
    for field in cast.find_all(exp.ColumnDef):
        field.this.set("quoted", True)  # Reserved words are names of fields in Spark.
    return cast.to.sql(dialect="trino")


def trino_query(
    sql: str, columns: Iterable[tuple[str, str]], catalog: str, trino_catalog: str
) -> str | None:
    """Translate a query to Trino's SQL, with casts to Spark's types; None if this is not possible.

    Args:
        columns: (column, Spark SQL type) of the query's result.
        catalog: The catalog's name in Spark.
    """
    # Trino refuses a view whose query returns wider types than the view declares. Trino's
    # `row_number`, `hour` and `sum` of decimals return such types, so they are cast.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import is_misread, parse_plain

    try:
        if is_misread(sql):
            return None
        tree = parse_plain(sql)
        if tree.find(exp.AtTimeZone):
            # Spark's `from_utc_timestamp` moves the instant; AT TIME ZONE only shows it elsewhere.
            return None
        if not expand_except_stars(tree):
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
    """Rewrite averages and casts to integers, because Trino and Spark compute them differently."""
    # Spark truncates a fraction that is cast to an integer, while Trino rounds it. Spark's average
    # of decimals has four more digits. The types are unknown here, so this applies to all values.
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
    # Trino's default is milliseconds.
    from sqlglot import exp

    timestamps = (exp.DType.TIMESTAMP, exp.DType.TIMESTAMPNTZ, exp.DType.TIMESTAMPTZ)
    for kind in tree.find_all(exp.DataType):
        if kind.this in timestamps and not kind.expressions:
            kind.set("expressions", [exp.DataTypeParam(this=exp.Literal.number(6))])


def _quote(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class ViewWriter:
    """Functions that write views in one dialect.

    Args:
        select: Writes the query that reads a table. Its arguments are the table, the pairs (output
            column, physical column), the catalog's name in the dialect, and the pinned state or
            None.
        query: Translates a view's query from Spark SQL. Its arguments are the query, the pairs
            (column, Spark SQL type) of its result, and the catalog's names in Spark and in the
            dialect. It returns None if the dialect cannot express the query.
        named: Like `select`, with one more argument: a mapping by output column. It contains nested
            columns whose fields may change in place, and columns whose type may widen: `read` is
            the type to read from the table, and `shown` is the type in the view. Without `named`,
            the dialect has no views with such nested columns.
    """

    select: Callable[[TableRef, Iterable[tuple[str, str]], str, PinnedTable | None], str]
    query: Callable[[str, Iterable[tuple[str, str]], str, str], str | None]
    named: Callable[..., str] | None = None


WRITERS: Mapping[str, ViewWriter] = {"trino": ViewWriter(trino_select, trino_query, trino_select)}
"""Writers by the dialect's name in Iceberg's view metadata, in the order of representations."""
_PLUGINS: Seam[ViewWriter] = Seam("view_dialects", tuple(WRITERS))


def view_writers(catalog_names: Iterable[str] = ()) -> dict[str, ViewWriter]:
    """Return the built-in writers of views and the writers for the catalogs' dialects.

    Raises:
        UsageError: A dialect has no installed writer, or its writer is broken.
    """
    more = {name: _PLUGINS.require(name) for name in catalog_names if name not in WRITERS}
    return {**WRITERS, **more}


def expand_except_stars(tree: exp.Expr) -> bool:
    """Replace each `* EXCEPT (…)` with its columns, and return whether all could be replaced."""
    # A star over a table that is read by name cannot be replaced, because the table's columns are
    # unknown here.
    from sqlglot import exp

    from vde_dagster.project.reading.columns import QueryColumns, UnknownColumnsError

    def columns_of(name: ModelName) -> Columns:
        raise UnknownColumnsError

    stars = list(tree.find_all(exp.Star))
    if any(star.args.get("replace") or star.args.get("rename") for star in stars):
        return False
    stars = [star for star in stars if star.args.get("except_")]
    for inner in tree.find_all(exp.Select) if stars else ():
        for number, item in enumerate(inner.expressions if inner.arg_key == "this" else ()):
            if not item.is_star and not isinstance(item, exp.Column | exp.Alias):
                name = item.output_name or f"_c{number}"
                item.replace(exp.alias_(item.copy(), name, quoted=True))
    names = QueryColumns(columns_of)
    for star in stars:  # Outer ones come first.
        select = star.find_ancestor(exp.Select)
        try:
            if select is None:
                return False
            found = names.star_columns(star, select, names.in_reach(select))
        except UnknownColumnsError:
            return False
        once = {(alias.lower(), name.lower()) for alias, name in found if alias}
        if len(once) < len(found):
            return False
        whole = star.parent if isinstance(star.parent, exp.Column) else star
        whole.replace([exp.column(name, table=alias, quoted=True) for alias, name in found])
    return True
