"""Translation of queries from other dialects to Spark SQL by SQLGlot, with checks."""

from __future__ import annotations

from itertools import takewhile

from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError

from vde_dagster.sql.definitions import find_cte
from vde_dagster.sql.other_dialects import SPARKS, Unwritable
from vde_dagster.sql.other_dialects.building import call
from vde_dagster.sql.other_dialects.calls import rewrite_calls
from vde_dagster.sql.other_dialects.joins import (
    keep_star_order,
    keep_unnest_joins,
    name_unnest_columns,
)
from vde_dagster.sql.other_dialects.percentiles import can_rewrite
from vde_dagster.sql.other_dialects.texts import literal_int, writes_instant
from vde_dagster.sql.other_dialects.verified import find_unverified
from vde_dagster.sql.other_dialects.writing import (
    mark_input_columns,
    query_sql,
    with_qualified_rows,
)
from vde_dagster.sql.reading import parse_plain

_UNTRANSLATABLE = {
    "ToChar": "to_char(…, format)",
    "PercentileCont": "this form of percentile_cont()",
    "PercentileDisc": "percentile_disc(), which is a DOUBLE on Spark",
    "ParseJSON": "parse_json",
    "Localtime": "LOCALTIME",
    "Localtimestamp": "LOCALTIMESTAMP",
    "SafeFunc": "SAFE.",
}
"""Classes that SQLGlot (30.30) writes with another meaning in Spark, or as invalid Spark SQL."""


def write_spark_sql(
    tree: exp.Expr, dialect: str = "", trusted: frozenset[str] | None = frozenset()
) -> str:
    """Write a tree of another dialect as Spark SQL, and change the tree in place.

    Args:
        trusted: Functions to accept in addition to verified functions; None accepts all functions.

    Raises:
        Unwritable: A part of the query cannot be written in Spark SQL.
    """
    unverified = None if trusted is None else find_unverified(tree, dialect, trusted)
    tree = _rewrite_convert(tree)
    for node in tree.walk():
        what = _UNTRANSLATABLE.get(node.__class__.__name__)
        if what is not None and not can_rewrite(node, dialect):
            raise Unwritable(what).at_node(node)
        if isinstance(node, exp.DataType) and node.this in (exp.DType.TIME, exp.DType.TIMETZ):
            raise Unwritable("the type TIME", "TIME", "TIMETZ")
        if dialect not in SPARKS and writes_instant(node, dialect):
            raise Unwritable("the text of an instant, because Spark writes no zone").at_node(node)
        if isinstance(
            node, exp.StrToTime | exp.StrToDate | exp.TsOrDsToDate | exp.TimeToStr
        ) and not _has_known_format(node, dialect):
            raise Unwritable("a time format that is computed").at_node(node)
    if dialect not in SPARKS:
        with_qualified_rows(tree)
        mark_input_columns(tree, dialect)
        _refuse_combined_unnest(tree)
    if dialect == "bigquery":
        _replace_aliases_in_groups(tree)
    name_unnest_columns(tree, dialect)
    keep_star_order(tree, dialect)
    keep_unnest_joins(tree, dialect)
    _rewrite_relations(tree)
    _replace_aliases_in_windows(tree)
    tree = _rewrite_bounded_casts(
        _rewrite_intervals(rewrite_calls(tree, dialect), dialect), dialect
    )
    if unverified is not None:
        raise unverified
    try:
        text = query_sql(tree, strict=dialect not in SPARKS)
        again = query_sql(parse_plain(text))
    except ParseError as error:
        at = error.errors[0] if error.errors else {}
        near = f"{(at.get('start_context') or '')[-20:]}{at.get('highlight') or ''}"
        raise Unwritable(f"the translation is not valid Spark SQL near '{near}'") from error
    except (SqlglotError, TypeError, AttributeError, ValueError) as error:
        # SQLGlot (30.30) writes some trees of other dialects with a mistake of its own.
        raise Unwritable(str(error).splitlines()[0]) from error
    # A difference means that SQLGlot has a mistake.
    if again != text:
        pairs = takewhile(lambda pair: pair[0] == pair[1], zip(text, again, strict=False))
        same = len(list(pairs))
        near = text[max(same - 20, 0) : same + 20]
        raise Unwritable(f"SQLGlot would misread its own translation near '{near}'")
    return text


def _has_known_format(node: exp.Expr, dialect: str) -> bool:
    """Return whether a time format is missing, is a literal, or is written in Spark's letters."""
    form = node.args.get("format")
    if dialect == "duckdb" and isinstance(node, exp.TimeToStr) and node.this.is_string:
        return True  # Its strftime takes the format first, too.
    return form is None or form.is_string or dialect in ("", "databricks", "spark2")


def _rewrite_convert(tree: exp.Expr) -> exp.Expr:
    """Rewrite SQL Server's `CONVERT(type, value)` without a style as a cast, in place."""
    for convert in reversed(list(tree.find_all(exp.Convert))):
        if not convert.args.get("style"):
            cast = exp.TryCast if convert.args.get("safe") else exp.Cast
            made = cast(this=convert.expression, to=convert.this)
            tree = made if convert is tree else tree
            convert.replace(made)
    return tree


_CUTS_TEXTS = frozenset(
    {"postgres", "redshift", "tsql", "fabric", "mysql", "materialize", "risingwave"}
)
"""Dialects in which a cast to VARCHAR(n) truncates values that are too long."""


def _rewrite_bounded_casts(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Rewrite casts such as `CAST(a AS VARCHAR(5))` as casts to STRING.

    The text is cut to the length if the dialect cuts it.
    """
    bounded = (exp.DType.VARCHAR, exp.DType.NVARCHAR)
    for cast in reversed(list(tree.find_all(exp.Cast))):  # What is inside comes first.
        usual = dialect in ("tsql", "fabric") and cast.to.this in bounded  # 30 characters.
        if cast.to.this not in bounded or not (cast.to.expressions or usual):
            continue
        given = cast.to.expressions
        length = given[0].this if given else exp.Literal.number(30)
        cast.set("to", exp.DataType.build("string", dialect="spark"))
        if dialect in _CUTS_TEXTS and isinstance(length, exp.Literal) and cast is not tree:
            made: exp.Expr = call("LEFT", cast, length)
            if isinstance(cast.parent, exp.Select) and cast.output_name:
                made = exp.alias_(made, cast.output_name, quoted=True)  # A cast keeps the name.
            cast.replace(made)
    return tree


_INTERVAL_UNITS = ("YEAR", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
"""Units of the arguments of MAKE_INTERVAL, in their order."""


def _rewrite_intervals(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Rewrite `INTERVAL days DAY` as MAKE_INTERVAL; Spark's INTERVAL takes only literals."""
    if isinstance(tree, exp.Interval):
        return _make_interval(tree, dialect) or tree
    for interval in list(tree.find_all(exp.Interval)):
        made = _make_interval(interval, dialect)
        if made is not None:
            interval.replace(made)
    return tree


def _make_interval(interval: exp.Interval, dialect: str) -> exp.Expr | None:
    length, unit = interval.this, interval.args.get("unit")
    inner = length.unnest() if length is not None else None
    if inner is None or not isinstance(unit, exp.Var):
        return None
    name = unit.name.upper().removesuffix("S")
    if name == "QUARTER":
        name = "MONTH"
        months = literal_int(exp.Literal.number(inner.name)) if inner.is_string else None
        if months is not None:
            return exp.Interval(this=exp.Literal.string(str(3 * months)), unit=exp.var(name))
        inner = exp.Mul(this=exp.paren(inner.copy()), expression=exp.Literal.number("3"))
    elif name not in (*_INTERVAL_UNITS, "MILLISECOND", "MICROSECOND") and dialect not in SPARKS:
        raise Unwritable(f"an interval of {unit.name.upper()}").at_node(interval)
    if isinstance(inner, exp.Literal) or (
        isinstance(inner, exp.Neg) and isinstance(inner.this, exp.Literal)
    ):
        return None
    if name not in _INTERVAL_UNITS:
        return None
    kind = "DECIMAL(18, 6)" if name == "SECOND" else "INT"
    values = [exp.Literal.number("0") for _ in range(_INTERVAL_UNITS.index(name))]
    return call("MAKE_INTERVAL", *values, exp.cast(inner, kind, dialect="spark"))


def _refuse_combined_unnest(tree: exp.Expr) -> None:
    """Refuse an UNNEST in a SELECT list that Spark would evaluate at another time, or not at all.

    Raises:
        Unwritable: It is inside of an expression, or next to another UNNEST or a window function.
    """
    for select in tree.find_all(exp.Select):
        in_list = [
            node
            for item in select.expressions
            for node in item.find_all(exp.Explode, exp.Window)
            if node.parent_select is select
        ]
        lists = [node for node in in_list if isinstance(node, exp.Explode)]
        whole = [id(item.unalias().unnest()) for item in select.expressions]
        if any(id(node) not in whole for node in lists):
            raise Unwritable("UNNEST inside of an expression").at_node(lists[0])
        if lists and len(in_list) > 1:
            what = "a window function" if len(lists) == 1 else "another UNNEST"
            raise Unwritable(f"UNNEST next to {what} in one SELECT").at_node(lists[-1])


def _replace_aliases_in_groups(tree: exp.Expr) -> None:
    """Replace aliases in GROUP BY, in place; Spark prefers input columns with the same names."""
    keys = exp.Group | exp.Rollup | exp.Cube | exp.GroupingSets | exp.Tuple | exp.Paren
    for select in tree.find_all(exp.Select):
        aliases = {
            item.alias.lower(): item.this
            for item in select.expressions
            if isinstance(item, exp.Alias)
            and not isinstance(item.this.unnest(), exp.Literal)  # A number would be a position.
            and not item.find(exp.AggFunc)
        }
        group = select.args.get("group")
        for column in list(group.find_all(exp.Column)) if group is not None else ():
            meant = None if column.table else aliases.get(column.name.lower())
            if meant is not None and isinstance(column.parent, keys):
                column.replace(meant.copy())


def _replace_aliases_in_windows(tree: exp.Expr) -> None:
    """Replace aliases in window functions, because Spark does not support them."""
    for select in tree.find_all(exp.Select):
        known: dict[str, exp.Expr] = {}
        for projection in select.expressions:
            for column in [
                c for w in projection.find_all(exp.Window) for c in w.find_all(exp.Column)
            ]:
                meant = None if column.table else known.get(column.name.lower())
                if meant is None or column.find_ancestor(exp.Query) is not select:
                    continue
                names = _names_before(select)
                # Columns take precedence over aliases in all dialects.
                if names is not None and column.name.lower() not in names:
                    column.replace(exp.paren(meant.copy()))
            if isinstance(projection, exp.Alias) and not projection.find(exp.Window, exp.Query):
                known.setdefault(projection.alias.lower(), projection.this)


def _names_before(select: exp.Select) -> set[str] | None:
    read = [select.args.get("from_"), *(select.args.get("joins") or ())]
    found: set[str] = set()
    for part in read:
        source = part.this if part is not None else None
        defined = find_cte(source)
        if defined is not None and not defined.args["alias"].columns:
            query: exp.Expr | None = defined.this
        else:
            query = source.this if isinstance(source, exp.Subquery) else None
        if source is None or not isinstance(query, exp.Query) or query.is_star:
            return None
        found.update(name.lower() for name in query.named_selects)
    return found if not select.args.get("laterals") else None


def _rewrite_relations(tree: exp.Expr) -> None:
    """Rewrite, in place, sources and joins that Spark lacks, such as CROSS APPLY."""
    wanted = (exp.Join, exp.Anonymous, exp.Columns, exp.JSONTable, exp.Select, exp.ReadParquet)
    for node in list(tree.find_all(*wanted)):
        if isinstance(node, exp.JSONTable):
            raise Unwritable("JSON_TABLE")
        if isinstance(node, exp.ReadParquet) and len(node.expressions) > 1:
            raise Unwritable("READ_PARQUET with options")
        if isinstance(node, exp.Select):
            if not node.expressions and not node.args.get("kind"):
                node.select(exp.Literal.number(1), copy=False)  # Rows without columns.
        elif isinstance(node, exp.Join):
            if _is_comma(node):
                node.set("kind", "CROSS")  # As SQLGlot reads a comma in Spark.
            _rewrite_apply(node)
        elif isinstance(node, exp.Columns):
            if not _is_star(node):
                raise Unwritable("COLUMNS(…)")
            node.replace(node.this)
        elif (
            isinstance(node, exp.Anonymous)
            and isinstance(node.parent, exp.Lateral | exp.Table)
            and node.name.upper() == "STRING_SPLIT"
        ):
            if len(node.expressions) != 2:
                raise Unwritable("STRING_SPLIT with ordinals")
            _rewrite_string_split(node)


def _is_comma(join: exp.Join) -> bool:
    given = ("kind", "side", "method", "on", "using", "global", "match_condition")
    plain = isinstance(join.this, exp.Table | exp.Subquery)
    return plain and not any(join.args.get(name) for name in given)


def _rewrite_apply(join: exp.Join) -> None:
    """Rewrite CROSS APPLY and OUTER APPLY as joins to LATERAL subqueries."""
    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or lateral.args.get("cross_apply") is None:
        return
    if lateral.args["cross_apply"]:
        join.set("kind", "CROSS")
    else:
        join.set("side", "LEFT")
        join.set("on", exp.true())
    lateral.set("cross_apply", None)


def _rewrite_string_split(call: exp.Anonymous) -> None:
    text, separator = call.expressions
    parts = exp.Explode(this=exp.Split(this=text, expression=separator))
    rows = exp.Select(expressions=[exp.alias_(parts, "value")]).subquery()
    relation = call.parent
    if isinstance(relation, exp.Table):
        rows.set("alias", relation.args.get("alias"))
        relation.replace(rows)
    else:
        call.replace(rows)


def _is_star(columns: exp.Columns) -> bool:
    if not isinstance(columns.this, exp.Star) or columns.this.args.get("except_"):
        return False
    if columns.args.get("unpack"):
        # Others are written with something around each argument, which here is all of them.
        return isinstance(columns.parent, exp.Struct | exp.Coalesce)
    return isinstance(columns.parent, exp.Select)
