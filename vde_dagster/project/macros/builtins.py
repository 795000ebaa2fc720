"""Built-in macros, with SQLMesh's names, arguments and results.

See docs/concepts/macros/sqlmesh_macros.md in SQLMesh. Macros that write parts of queries use the
file's dialect. `@STAR` and `@UNION` write casts if the types are declared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import suggest
from vde_dagster.base.times import parse_day
from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.macros.functions import argument_items, is_nothing, read_function, reduced
from vde_dagster.project.macros.relation_columns import relation_columns
from vde_dagster.project.macros.scope import MacroContext
from vde_dagster.project.macros.templates import filled
from vde_dagster.project.macros.variables import KIND_NAME, STAGE, TABLE_PARTS, bare, quoted_text
from vde_dagster.sql.edits import NOTHING
from vde_dagster.sql.expressions import add_brackets
from vde_dagster.sql.other_dialects import DATE_SERIES, SPARKS
from vde_dagster.sql.scanner import unquote
from vde_dagster.sql.trees import placeholder

_PLACE = re.compile(r"__vde_part_(\d+)__")
_PARTS = {unit: f"1 {unit.upper()}" for unit in ("day", "week", "month")} | {
    "quarter": "3 MONTH",
    "year": "1 YEAR",
}
_MILES_TO_KILOMETRES = {"mi": "1.0", "km": "1.60934"}


def _call_arguments(
    expander: MacroContext, macro: str, arguments: Sequence[str], signature: str
) -> dict[str, str]:
    """Return a call's arguments by name.

    Args:
        arguments: Texts, in order; `name := text` for named arguments.
        signature: Names, and defaults of optional arguments, such as `a, b := 1`.
    """
    parts = [one.partition(" := ") for one in signature.split(", ")]
    defaults = {name: default if separator else None for name, separator, default in parts}
    names = list(defaults)
    usage = f"write @{macro}({', '.join(names)})"
    given: dict[str, str] = {}
    for index, argument in enumerate(arguments):
        head, separator, tail = argument.partition(":=")
        name = head.strip().lower() if separator else names[index] if index < len(names) else ""
        if not name:
            raise expander.error(f"@{macro} takes at most {len(names)} arguments", usage)
        if name not in defaults:
            raise expander.error(
                f"@{macro} has no argument '{name}'", suggest(name, names, "arguments")
            )
        given[name] = tail.strip() if separator else argument
    missing = [name for name in names if name not in given and defaults[name] is None]
    if missing:
        raise expander.error(f"@{macro} needs {' and '.join(missing)}", usage)
    return {name: given.get(name, defaults[name] or "") for name in names}


def _translate(expander: MacroContext, spark: str, parts: Sequence[str]) -> str:
    """Translate Spark SQL to the file's dialect, and replace its placeholders by the parts."""
    dialect = expander.scope.dialect
    if dialect != "spark":
        from sqlglot import exp

        from vde_dagster.sql.reading import parse_plain

        tree = parse_plain(spark)
        for cast in list(tree.find_all(exp.TryCast)):  # SQLGlot parses Spark's CAST as TRY_CAST.
            cast.replace(exp.Cast(this=cast.this, to=cast.to))
        spark = tree.sql(dialect=dialect)
    return _PLACE.sub(lambda found: parts[int(found[1])], spark)


def _part(index: int) -> str:
    return f"__vde_part_{index}__"


def _operand(expander: MacroContext, text: str) -> str:
    return add_brackets(expander.expand_text(text), expander.scope.dialect)


def _surrogate_key(expander: MacroContext, arguments: list[str]) -> str:
    """`@GENERATE_SURROGATE_KEY(a, b[, hash_function := 'SHA256'])`: a hash of columns' values."""
    named = [a for a in arguments if re.match(r"\s*hash_function\s*:=", a, re.IGNORECASE)]
    fields = [expander.expand_text(a) for a in arguments if a not in named]
    if not fields:
        raise expander.error("@GENERATE_SURROGATE_KEY takes at least one column")
    texts = (
        f"COALESCE(CAST({_part(i)} AS STRING), '_sqlmesh_surrogate_key_null_')"
        for i in range(len(fields))
    )
    function = "MD5"
    if named:
        function = bare(expander.expand_text(named[0].partition(":=")[2]))
    digits = {"SHA256": 256, "SHA512": 512}.get(function.upper())
    joined = ", '|', ".join(texts)
    made = f"SHA2(CONCAT({joined}), {digits})" if digits else f"{function}(CONCAT({joined}))"
    return _translate(expander, made, fields)


def _safe_sum(operator: str) -> Callable[[MacroContext, list[str]], str]:
    def safe(expander: MacroContext, arguments: list[str]) -> str:
        values = [expander.expand_text(argument) for argument in arguments]
        nulls = " AND ".join(f"{_operand(expander, value)} IS NULL" for value in values)
        total = f" {operator} ".join(f"COALESCE({value}, 0)" for value in values)
        return f"CASE WHEN {nulls} THEN NULL ELSE {total} END"

    return safe


def _safe_div(expander: MacroContext, arguments: list[str]) -> str:
    """`@SAFE_DIV(a, b)`: the quotient, or NULL if `b` is 0."""
    if len(arguments) != 2:
        raise expander.error("@SAFE_DIV takes a numerator and a denominator")
    above, below = (expander.expand_text(argument) for argument in arguments)
    return f"(({above}) / NULLIF({below}, 0))"


def _haversine(expander: MacroContext, arguments: list[str]) -> str:
    """`@HAVERSINE_DISTANCE(lat1, lon1, lat2, lon2[, 'mi' or 'km'])`: distance of two places."""
    names = ("lat1", "lon1", "lat2", "lon2")
    given = _call_arguments(
        expander, "HAVERSINE_DISTANCE", arguments, f"{', '.join(names)}, unit := 'mi'"
    )
    unit = bare(expander.expand_text(given["unit"])).lower()
    if unit not in _MILES_TO_KILOMETRES:
        raise expander.error(
            f"@HAVERSINE_DISTANCE does not support unit '{unit}'", "write 'mi' or 'km'"
        )
    lat1, lon1, lat2, lon2 = map(_part, range(4))
    made = (
        f"7922 * ASIN(SQRT((POWER(SIN(RADIANS(({lat2} - {lat1}) / 2)), 2)) + (COS(RADIANS({lat1}))"
        f" * COS(RADIANS({lat2})) * POWER(SIN(RADIANS(({lon2} - {lon1}) / 2)), 2))))"
        f" * {_MILES_TO_KILOMETRES[unit]}"
    )
    return f"({_translate(expander, made, [_operand(expander, given[name]) for name in names])})"


def _pivot(expander: MacroContext, arguments: list[str]) -> str:
    """`@PIVOT(column, values, …)`: a column of the result for each value."""
    signature = (
        "column, values, alias := TRUE, agg := 'SUM', cmp := '=', prefix := '', suffix := '', "
        "then_value := 1, else_value := 0, quote := TRUE, distinct := FALSE"
    )
    given = _call_arguments(expander, "PIVOT", arguments, signature)
    texts = {name: expander.expand_text(text) for name, text in given.items() if name != "values"}
    plain = {name: bare(text) for name, text in texts.items()}
    distinct = "DISTINCT " if expander.is_constant_true(texts["distinct"]) else ""
    columns = []
    for value in argument_items(expander, [given["values"]]):
        test = f"{_operand(expander, texts['column'])} {plain['cmp']} {value}"
        made = (
            f"{plain['agg']}({distinct}CASE WHEN {test} THEN {texts['then_value']}"
            f" ELSE {texts['else_value']} END)"
        )
        if expander.is_constant_true(texts["alias"]):
            name = f"{plain['prefix']}{bare(value)}{plain['suffix']}"
            quoted = expander.is_constant_true(texts["quote"])
            made += f" AS {_identifier(expander, name, quoted=quoted)}"
        columns.append(made)
    if not columns:
        raise expander.error("@PIVOT has no values", "write @PIVOT(column, ['a', 'b'])")
    return ", ".join(columns)


def _deduplicate(expander: MacroContext, arguments: list[str]) -> str:
    """`@DEDUPLICATE(table, [keys], ['column DESC'])`: the first row of each key."""
    given = _call_arguments(expander, "DEDUPLICATE", arguments, "relation, partition_by, order_by")
    keys = argument_items(expander, [given["partition_by"]])
    order = [bare(one) for one in argument_items(expander, [given["order_by"]])]
    if not keys or not order:
        raise expander.error(
            "@DEDUPLICATE needs keys and an order",
            "write @DEDUPLICATE(t, [id], ['updated_at DESC NULLS LAST'])",
        )
    return (
        f"SELECT * FROM {expander.expand_text(given['relation'])} QUALIFY ROW_NUMBER() OVER"
        f" (PARTITION BY {', '.join(keys)} ORDER BY {', '.join(order)}) = 1"
    )


def _date_spine(expander: MacroContext, arguments: list[str]) -> str:
    """`@DATE_SPINE('day', from, to)`: one row per day, week, month, quarter or year."""
    given = _call_arguments(expander, "DATE_SPINE", arguments, "datepart, start_date, end_date")
    part = bare(expander.expand_text(given["datepart"])).lower()
    if part not in _PARTS:
        raise expander.error(
            f"@DATE_SPINE does not support date part '{part}'", f"write one of {', '.join(_PARTS)}"
        )
    ends = [expander.expand_text(given[name]).strip() for name in ("start_date", "end_date")]
    if all(end.startswith("'") for end in ends):
        try:
            first, last = (parse_day(bare(end)) for end in ends)
        except ValueError:
            raise expander.error("@DATE_SPINE takes dates", "write them as '2026-01-31'") from None
        if first > last:
            raise expander.error(f"@DATE_SPINE starts at {first}, after its end {last}")
    begin, end = ends
    rows = f"EXPLODE(SEQUENCE(CAST({begin} AS DATE), CAST({end} AS DATE), INTERVAL {_PARTS[part]}))"
    if expander.scope.dialect not in SPARKS:
        rows = f"{DATE_SERIES}({begin}, {end}, '{_PARTS[part]}')"
    return f"SELECT date_{part} FROM (SELECT {rows} AS date_{part}) AS _exploded"


def _resolve_template(expander: MacroContext, arguments: list[str]) -> str:
    """`@RESOLVE_TEMPLATE('s3://b/@{schema_name}/@{table_name}')`: a text with the table's name."""
    given = _call_arguments(expander, "RESOLVE_TEMPLATE", arguments, "template, mode := 'literal'")
    if bare(given["mode"]).lower() != "literal":
        raise expander.error(
            "@RESOLVE_TEMPLATE returns only texts", "write @this_model for the table itself"
        )
    pieces = re.split(r"@\{(\w+)\}", bare(given["template"]))
    unknown = [name for name in pieces[1::2] if name not in TABLE_PARTS]
    if unknown:
        raise expander.error(
            f"@RESOLVE_TEMPLATE has no '{unknown[0]}'", suggest(unknown[0], TABLE_PARTS, "parts")
        )
    texts = [
        placeholder(TABLE_PARTS[piece]) if index % 2 else f"'{piece}'"
        for index, piece in enumerate(pieces)
        if piece
    ]
    return f"CONCAT({', '.join(texts)})"


def _identifier(expander: MacroContext, name: str, *, quoted: bool) -> str:
    """Write a name in the file's dialect, quoted if necessary or requested."""
    from sqlglot import exp

    simple = name.isidentifier() and not quoted
    return name if simple else exp.to_identifier(name, quoted=True).sql(expander.scope.dialect)


def _star(expander: MacroContext, arguments: list[str]) -> str:
    """`@STAR(table[, alias, exclude := […], prefix := '', suffix := ''])`: all columns by name."""
    signature = (
        "relation, alias := '', exclude := [], prefix := '', suffix := '', "
        "quote_identifiers := TRUE, except_ := []"
    )
    given = _call_arguments(expander, "STAR", arguments, signature)
    texts = {name: expander.expand_text(text) for name, text in given.items()}
    plain = {name: bare(text) for name, text in texts.items()}
    left_out = {
        bare(one).lower()
        for name in ("exclude", "except_")
        for one in argument_items(expander, [given[name]])
    }
    columns = relation_columns(expander, texts["relation"])
    kept = {name: type_ for name, type_ in columns.items() if name.lower() not in left_out}
    if not kept:
        raise expander.error("@STAR has no columns left", "remove a column from exclude")
    quoted = expander.is_constant_true(texts["quote_identifiers"])
    table = plain["alias"] or plain["relation"].rpartition(".")[2].strip('`"')
    qualifier = _identifier(expander, table, quoted=quoted)
    written = []
    for name, type_ in kept.items():
        column = f"{qualifier}.{_identifier(expander, name, quoted=quoted)}"
        alias = f"{plain['prefix']}{name}{plain['suffix']}"
        value = (
            f"CAST({column} AS {_dialect_type(expander, type_)})" if all(kept.values()) else column
        )
        written.append(f"{value} AS {_identifier(expander, alias, quoted=quoted)}")
    return ", ".join(written)


def _union(expander: MacroContext, arguments: list[str]) -> str:
    """`@UNION([condition, ]['all' or 'distinct', ]table, …)`: union over the common columns."""
    given = [expander.expand_text(argument).strip() for argument in arguments]
    condition: object = None
    if given:
        with suppress(ProjectError):  # It is a kind or a table, not a condition.
            condition = expander.constant(given[0])
    if isinstance(condition, bool):
        del given[0]
    kind = "ALL"
    if given and given[0][:1] in ("'", '"'):
        kind = bare(given.pop(0)).upper()
    if kind not in ("ALL", "DISTINCT"):
        raise expander.error(f"@UNION does not support kind '{kind}'", "write 'all' or 'distinct'")
    if not given:
        raise expander.error("@UNION needs a table", "write @UNION('all', a, b)")
    tables = [relation_columns(expander, table) for table in given]
    typed = all(type_ for columns in tables for type_ in columns.values())
    shared = [
        name
        for name, type_ in tables[0].items()
        if all(name in other and (not typed or other[name] == type_) for other in tables)
    ]
    if not shared:
        raise expander.error("the tables of @UNION have no column of the same name and type")
    columns = ", ".join(
        f"CAST({name} AS {_dialect_type(expander, tables[0][name])}) AS {name}" if typed else name
        for name in (_identifier(expander, one, quoted=False) for one in shared)
    )
    queries = [f"SELECT {columns} FROM {table}" for table in given]
    operator = " UNION " if kind == "DISTINCT" else " UNION ALL "
    return operator.join(queries[:1] if condition is False else queries)


def _dialect_type(expander: MacroContext, spark: str | None) -> str:
    """Write a Spark type in the file's dialect."""
    dialect = expander.scope.dialect
    if spark is None or dialect == "spark":
        return spark or ""
    from sqlglot import exp

    return exp.DataType.build(spark, dialect="spark").sql(dialect=dialect)


Builtin = Callable[["MacroContext", list[str]], str]
_LOADING = re.compile(rf"(?is)\b{STAGE}\b.*['\"]loading['\"]|['\"]loading['\"].*\b{STAGE}\b")


def _if(expander: MacroContext, arguments: list[str]) -> str:
    """`@IF(condition, then[, otherwise])`: one of two values, by a constant condition.

    Only the chosen value is expanded.
    """
    if len(arguments) not in (2, 3):
        raise expander.error("@IF takes a condition and one or two values")
    # SQLMesh expands both values. Here, a condition can prevent the call of a Python macro.
    taken = arguments[1:2] if expander.is_true(arguments[0]) else arguments[2:]
    before = expander.is_not_for_loading
    expander.is_not_for_loading |= _LOADING.search(arguments[0]) is not None
    try:
        return expander.expand_text(taken[0]) if taken else NOTHING
    finally:
        expander.is_not_for_loading = before


def _def(expander: MacroContext, arguments: list[str]) -> str:
    """`@DEF(name, value)`: define a variable, as a separate statement before the query."""
    name = arguments[0].strip('`"').lower() if len(arguments) == 2 else ""
    if not name.isidentifier():
        raise expander.error("@DEF takes a name and a value", "write @DEF(name, value);")
    function = read_function(expander, arguments[1])
    if function is not None:
        expander.scope.functions[name] = function
    else:
        expander.scope.variables[name] = expander.expand_text(arguments[1])
    return ""


def _var(expander: MacroContext, arguments: list[str]) -> str:
    """`@VAR('name'[, default])`: a variable of the settings, or the default."""
    if len(arguments) not in (1, 2):
        raise expander.error("@VAR takes a name and an optional default")
    tokens = expander.tokens(arguments[0])
    name = unquote(tokens[0]) if tokens else ""
    if (value := expander.scope.variables.get(name.lower())) is not None:
        return value
    if len(arguments) == 2:
        return expander.expand_text(arguments[1])
    if expander.is_condition:
        return "NULL"  # @IF(@VAR('x') IS NULL, …) tests whether it is set.
    given = set(expander.scope.variables) - {STAGE, KIND_NAME}
    known = suggest(name.lower(), given, "variables")
    raise expander.error(
        f"unknown variable '{name}'",
        f"{known}; or add a default: @VAR('{name}', 0)",
        unknown=Unknown("variable", name),
    )


def _sql(expander: MacroContext, arguments: list[str]) -> str:
    """`@SQL('text'[, 'kind'])`: the text as SQL, with its variables replaced.

    Any other constant, such as a number, is written as a SQL literal.
    """
    if not arguments:
        raise expander.error("@SQL takes a text", "write @SQL('a + @x')")
    text = expander.expand_text(arguments[0])
    tokens = expander.tokens(text)
    if len(tokens) == 1 and tokens[0].kind == "string":
        made = expander.expand_text(filled(expander, unquote(tokens[0])))
        return add_brackets(made, expander.scope.dialect)
    return _sql_literal(expander.constant(text))


def _sql_literal(value: object) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, list):
        return f"ARRAY({', '.join(map(_sql_literal, value))})"
    return repr(value) if isinstance(value, int | float) else quoted_text(str(value))


def _join_conditions(operator: str) -> Builtin:
    def connect(expander: MacroContext, arguments: list[str]) -> str:
        conditions = [expander.expand_text(argument).strip() for argument in arguments]
        kept = [c for c in conditions if not is_nothing(c) and c.upper() != "NULL"]
        return f"({f' {operator} '.join(f'({c})' for c in kept)})" if kept else "TRUE"

    return connect


BUILTINS: dict[str, Builtin] = {
    "if": _if,
    "def": _def,
    "var": _var,
    "blueprint_var": _var,
    "eval": lambda expander, arguments: _sql_literal(
        expander.constant(expander.expand_text(", ".join(arguments)))
    ),
    "sql": _sql,
    "and": _join_conditions("AND"),
    "or": _join_conditions("OR"),
    "reduce": reduced,
    "generate_surrogate_key": _surrogate_key,
    "safe_add": _safe_sum("+"),
    "safe_sub": _safe_sum("-"),
    "safe_div": _safe_div,
    "haversine_distance": _haversine,
    "pivot": _pivot,
    "deduplicate": _deduplicate,
    "date_spine": _date_spine,
    "resolve_template": _resolve_template,
    "star": _star,
    "union": _union,
}

PLUGINS: Seam[Callable[..., Any]] = Seam("macros")
"""Python macros of plug-ins, by lower-case name."""
