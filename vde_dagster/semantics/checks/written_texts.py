"""Checks of values that are converted to text: casts, concatenation, and choices with texts.

The text of a value can differ between dialects. In PostgreSQL, a NUMERIC without declared digits
keeps the digits of each value: `COALESCE(amount, 0)` has the text '0' or '1.50' there, and '0.00'
in Spark. DuckDB's date_trunc() by days returns a date, whose text has no time. The checks follow a
column to the expression that computes it.

Sources: DuckDB and PostgreSQL were run (`benchmarks/dialect_expressions.py`);
dev.mysql.com/doc/refman/8.4/en/flow-control-functions.html.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.checks.operands import (
    DIALECTS,
    KINDS,
    Origin,
    certain_finding,
    kind_of_value,
    untyped_finding,
)
from vde_dagster.semantics.errors import Finding
from vde_dagster.semantics.types import (
    MOST_DIGITS,
    case_branches,
    decimal_digits,
    infer,
    list_arguments,
)
from vde_dagster.sql.definitions import (
    Definition,
    TableColumn,
    find_definitions,
    find_outputs,
    read_rows,
)

_D = exp.DType
_OTHER_TEXTS = {
    "duckdb": {"float"},
    "postgres": {"float"},
    "redshift": {"float"},
    "trino": {"float", "time"},
    "athena": {"float", "time"},
    "bigquery": {"float", "decimal", "time"},
    "snowflake": {"float", "time"},
    "mysql": {"float", "time", "boolean"},
    "tsql": {"float", "time", "boolean"},
    "fabric": {"float", "time", "boolean"},
}
"""Kinds of values that are cast to another text than in Spark, by dialect."""
_SEVERAL_TEXTS = frozenset({"float", "decimal", "time", "boolean"})
_COMPOSED = frozenset({"list", "struct", "binary", "interval"})
"""Kinds of values whose text differs from Spark's in every dialect."""
_LISTS_WITHOUT_NULL = frozenset({"postgres", "redshift"})
"""Dialects whose `||` of a list and NULL is the list."""
_JOINING_ANY = frozenset({"duckdb", "snowflake", "mysql"})
"""Dialects whose STRING_AGG or LISTAGG takes values of any type."""
_TEXT_FIRST = frozenset({"mysql", "sqlite"})
"""Dialects where a choice between a text and a number is a text."""
CONSTANTS = (exp.Literal, exp.Null, exp.Parameter)


def check_concatenation(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find an operand of `||`, CONCAT or CONCAT_WS whose text is different on Spark."""
    if isinstance(e, exp.DPipe) and origin.dialect in _LISTS_WITHOUT_NULL:
        kinds_of_sides = [infer(one.unnest()) for one in (e.this, e.expression)]
        if any(kind is not None and kind.this == _D.ARRAY for kind in kinds_of_sides):
            what = "a list concatenated with NULL is the list"
            hint = "write COALESCE(…, ARRAY[]::INT[]) around each list, and array_cat"
            return certain_finding(e, origin, what, hint)
    values = [e.this, e.expression] if isinstance(e, exp.DPipe) else e.expressions
    kinds = {kind_of_value(one) for one in values if not isinstance(one.unnest(), CONSTANTS)}
    if "list" in kinds and (isinstance(e, exp.DPipe) or kinds == {"list"}):
        return None  # It joins lists.
    return _find_text(e, origin, values, set() if isinstance(e, exp.DPipe) else _short(origin))


def _short(origin: Origin) -> Set[str]:
    return {"boolean"} if origin.dialect == "postgres" else frozenset()


def check_string_aggregate(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find a value in STRING_AGG or LISTAGG whose text is different on Spark."""
    values = list_arguments(e)[:1]
    if origin.dialect not in _JOINING_ANY and kind_of_value(values[0]) is None:
        return None  # It takes texts alone.
    return _find_text(e, origin, values)


def check_list_to_text(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find a list in ARRAY_TO_STRING or similar whose elements have other texts on Spark."""
    value = e.expressions[0].unnest()
    if called_function(value) == "array":
        return _find_text(e, origin, value.expressions, _short(origin), _common_scale(value))
    kind = infer(value)
    element = kind.expressions[0] if kind is not None and kind.expressions else None
    if not isinstance(element, exp.DataType) or called_function(value) in _OF_TEXTS:
        return None
    name = KINDS.get(element.this, "other")
    differing = _differing(origin) | _short(origin)
    if name in differing or (name == "decimal" and not isinstance(value, exp.Column)):
        return _differs(e, origin, name)
    return None


_OF_TEXTS = frozenset({"split", "transform", "filter", "array_sort", "array_compact"})


def check_cast_to_text(e: exp.Expr, origin: Origin) -> Finding | None:
    """Find a cast to a text type whose result is different on Spark."""
    around = e.parent or e
    # CONCAT is translated as `concat(coalesce(CAST(…)))`. In CONCAT, more types are written as
    # another text than in a cast.
    is_joined = (
        called_function(around) == "coalesce"
        and called_function(around.parent or around) == "concat"
    )
    return _find_text(e, origin, [e.this], _short(origin) if is_joined else frozenset())


def _find_text(
    e: exp.Expr,
    origin: Origin,
    values: Iterable[exp.Expr],
    more: Set[str] = frozenset(),
    scale: int | None = None,
) -> Finding | None:
    """Return a finding for the first of the values that Spark converts to another text.

    Args:
        more: Kinds of values, such as `boolean`, whose texts differ only in this function.
        scale: Digits after the point, if Spark converts all values to one DECIMAL type.
    """
    values = [one.unnest() for one in values if not isinstance(one.unnest(), exp.Null)]
    for value in values:
        found = _typed_text(e, value, origin)
        if found is not None:
            return found
        if scale is not None and origin.dialect in _OWN_SCALES and _scale(value) != scale:
            return _scale_finding(e, origin)
    kinds = {kind_of_value(one) for one in values if not isinstance(one, CONSTANTS)}
    differing = _differing(origin) | more
    other = sorted(kind for kind in kinds if kind is not None and kind in differing)
    if other:
        return _differs(e, origin, other[0])
    if None in kinds:
        return untyped_finding(e, origin, "the text of a value may differ from Spark's")
    return None


def _differing(origin: Origin) -> Set[str]:
    return _COMPOSED | _OTHER_TEXTS.get(origin.dialect, _SEVERAL_TEXTS)


def _differs(e: exp.Expr, origin: Origin, kind: str) -> Finding:
    what = f"the text of {'an' if kind == 'interval' else 'a'} {kind} differs from Spark's"
    return certain_finding(e, origin, what, "write a format for it")


# -- values with a text of their own ------------------------------------------------------------


_OWN_SCALES = frozenset({"postgres"})
"""Dialects where a decimal without declared digits keeps the digits of each value."""
_DATES_OF_TIMES = frozenset({"duckdb"})
"""Dialects whose date_trunc() by days returns a date."""
_DAYS = frozenset({"DAY", "WEEK", "MONTH", "MON", "MM", "QUARTER", "YEAR", "YYYY", "YY"})


def find_other_texts(tree: exp.Expr, names: Iterable[str], origin: Origin) -> frozenset[str]:
    """Return the lower-case output columns whose text on Spark differs from the dialect's."""
    if origin.dialect not in _OWN_SCALES | _DATES_OF_TIMES:
        return frozenset()
    return frozenset(
        name.lower()
        for name in names
        if any(map(_Values(origin).has_other_text, find_outputs(tree, name.lower())))
    )


def _typed_text(e: exp.Expr, value: exp.Expr, origin: Origin) -> Finding | None:
    kind = kind_of_value(value)
    if kind not in ("decimal", "time", "date", None) or isinstance(value, CONSTANTS):
        return None
    values = _Values(origin)
    if kind == "decimal":
        differs = origin.dialect in _OWN_SCALES and not values.has_scale(value)
        return _scale_finding(e, origin) if differs else None
    for leaf in values.leaves(value):
        if isinstance(leaf, TableColumn):
            if leaf in origin.other_texts:
                what = f"the text of {leaf.column}, which {leaf.table} computes by date_trunc,"
                hint = "cast the column where it is computed: CAST(date_trunc(…) AS DATE)"
                return certain_finding(e, origin, f"{what} differs from Spark's", hint)
        elif isinstance(leaf, exp.Expr):
            found = _cut_day(e, leaf, origin)
            if found is not None:
                return found
    return None


def _scale_finding(e: exp.Expr, origin: Origin) -> Finding:
    what = (
        "the text of a decimal keeps the digits of the value, such as '0' and '1.50'; "
        "Spark first converts all values to one type"
    )
    return certain_finding(e, origin, what, "cast the value: CAST(… AS DECIMAL(p, s))")


def _cut_day(e: exp.Expr, cut: exp.Expr, origin: Origin) -> Finding | None:
    differs = _cuts(cut, origin)
    if differs is False:
        return None
    what = "date_trunc by days returns a date, whose text has no time"
    if origin.dialect == "postgres":
        what = "the text of date_trunc of a date has a zone"
    if differs is None:
        return untyped_finding(e, origin, what)
    return certain_finding(e, origin, what, "cast it: CAST(date_trunc(…) AS DATE)")


def _cuts(cut: exp.Expr, origin: Origin) -> bool | None:
    """Return whether the dialect's date_trunc() has another type than Spark's; None if unknown."""
    if called_function(cut) != "date_trunc" or len(cut.expressions) != 2:
        return False
    kind = kind_of_value(cut.expressions[1])
    # PostgreSQL returns a time with zone for a date.
    if origin.dialect == "postgres":
        return None if kind is None else kind == "date"
    # DuckDB returns a date for days and longer units.
    unit = str(cut.expressions[0].name).strip("'\"").upper()
    if origin.dialect not in _DATES_OF_TIMES or kind == "text" or unit not in _DAYS:
        return False
    return None if kind is None else True


def _scale(e: exp.Expr) -> int | None:
    """Return the digits after the point of an exact number's type, or None for other types."""
    kind = infer(e)
    if kind is None or kind.this != _D.DECIMAL:
        return 0 if kind_of_value(e) == "int" else None
    return decimal_digits(kind)[1]


def _common_scale(array: exp.Expr) -> int | None:
    scales = [_scale(one) for one in array.expressions if not isinstance(one, exp.Null)]
    known = [one for one in scales if one is not None]
    return max(known) if known and len(known) == len(scales) else None


_FIRST = frozenset(
    {"abs", "any_value", "first", "first_value", "last", "last_value", "max", "max_by", "min"}
    | {"min_by", "nth_value", "nullif", "sum"}
)
"""Functions whose result has the kind and scale of the first argument."""
_CHOICES = frozenset({"coalesce", "greatest", "ifnull", "least", "nvl"})
_AROUND = (exp.Alias, exp.Paren, exp.Neg, exp.Window, exp.Filter, exp.IgnoreNulls, exp.RespectNulls)


class _Values:
    def __init__(self, origin: Origin) -> None:
        self.origin = origin
        self._seen: set[int] = set()

    def has_other_text(self, value: Definition) -> bool:
        if not isinstance(value, exp.Expr):
            return value in self.origin.other_texts
        if kind_of_value(value) == "decimal":
            return self.origin.dialect in _OWN_SCALES and not self.has_scale(value)
        return any(
            leaf in self.origin.other_texts
            if isinstance(leaf, TableColumn)
            else leaf is not None and bool(_cuts(leaf, self.origin))
            for leaf in self.leaves(value)
        )

    def _behind(self, e: exp.Expr) -> list[Definition] | None:
        if isinstance(e, _AROUND):
            return [e.this]
        if isinstance(e, exp.Column):
            return find_definitions(e)
        if isinstance(e, exp.Case):
            return [*case_branches(e)]
        name, given = called_function(e), list_arguments(e) if isinstance(e, exp.Anonymous) else []
        if name in _CHOICES:
            return [*given]
        if name in ("if", "nvl2"):
            return [*given[1:]]
        if name in ("lag", "lead") and given:
            return [given[0], *given[2:]]
        return [*given[:1]] if name in _FIRST and given else None

    def leaves(self, e: exp.Expr) -> Iterator[Definition]:
        if id(e) in self._seen:
            return
        self._seen.add(id(e))
        behind = self._behind(e)
        if behind is None:
            yield e
        for one in behind or ():
            if isinstance(one, exp.Expr):
                yield from self.leaves(one)
            else:
                yield one

    def has_scale(self, e: exp.Expr) -> bool:
        if isinstance(e, CONSTANTS) or kind_of_value(e) == "int" or id(e) in self._seen:
            return True
        self._seen.add(id(e))
        if isinstance(e, exp.Cast | exp.TryCast):
            # NUMERIC without digits is translated to these.
            return str(e.args["to"]) != "DECIMAL(38, 18)"
        behind = self._behind(e)
        if behind is not None:
            return bool(behind) and all(self._is_alike(one, e) for one in behind)
        if isinstance(e, exp.Add | exp.Sub | exp.Mod | exp.Mul):
            sides = [e.this, e.expression]
            scales = [_scale(side) or 0 for side in sides]
            scale = sum(scales) if isinstance(e, exp.Mul) else max(scales)
            return scale == _scale(e) and all(map(self.has_scale, sides))
        return (
            called_function(e) in ("floor", "ceil", "ceiling", "round") and len(e.expressions) == 1
        )

    def _is_alike(self, one: Definition, e: exp.Expr) -> bool:
        if isinstance(one, exp.Null):
            return True
        if isinstance(one, exp.Expr):
            return _scale(one) == _scale(e) and self.has_scale(one)
        return one is not None and one not in self.origin.other_texts


# -- texts and numbers of one column --------------------------------------------------------------


def check_choice_types(e: exp.Expr, origin: Origin) -> Finding | None:
    """Report a CASE, IF or COALESCE of texts and numbers, or of decimals that lose digits."""
    values = _chosen_values(e)
    if origin.dialect == "duckdb":
        return _narrowed(e, origin, values)
    if origin.dialect not in _TEXT_FIRST and origin.dialect in DIALECTS:
        return None
    # Spark would convert the texts to numbers.
    kinds = {kind_of_value(one) for one in values if not isinstance(one.unnest(), exp.Null)}
    if "text" not in kinds or not kinds & _NUMBERS:
        return None
    verb = "is" if origin.dialect in _TEXT_FIRST else "may be"
    what = f"a choice between a text and a number {verb} a text"
    return certain_finding(e, origin, what, "cast the number: CAST(… AS CHAR)")


def _chosen_values(e: exp.Expr) -> list[exp.Expr]:
    if isinstance(e, exp.Case):
        return case_branches(e)
    return e.expressions[1:] if called_function(e) == "if" else e.expressions


def check_common_type(e: exp.Expr, origin: Origin) -> Finding | None:
    """Report decimals that lose digits when a list, GREATEST or LEAST converts them to one type."""
    return _narrowed(e, origin, e.expressions)


def check_values_types(e: exp.Expr, origin: Origin) -> Finding | None:
    """Report decimals that lose digits in a column of VALUES."""
    found = (_narrowed(e, origin, column) for column in zip(*read_rows(e), strict=False))
    return next((one for one in found if one is not None), None)


def _narrowed(e: exp.Expr, origin: Origin, values: Iterable[exp.Expr]) -> Finding | None:
    if origin.dialect != "duckdb":
        return None
    sizes = [size for value in values if (size := _size_in_duckdb(value)) is not None]
    before, after = (max((size[place] for size in sizes), default=0) for place in (0, 1))
    # If a type needs more digits than the maximum, digits after the point are lost.
    if before + after <= MOST_DIGITS:
        return None
    what = (
        f"the common type needs too many digits ({before} before the point, {after} after), "
        "so values lose digits"
    )
    hint = "cast the values to one type: CAST(… AS DECIMAL(p, s))"
    return certain_finding(e, origin, f"{what} after the point", hint)


def _size_in_duckdb(value: exp.Expr) -> tuple[int, int] | None:
    """Return the digits before and after the point of an exact number's type in DuckDB."""
    scale = _scale(value)
    if scale is None:
        return None
    if scale and _has_sum(value, set()):
        return MOST_DIGITS - scale, scale  # Its sum of decimals has 38 digits.
    kind = infer(value)
    return decimal_digits(kind) if kind is not None and kind.this == _D.DECIMAL else (19, 0)


def _has_sum(e: exp.Expr, seen: set[int]) -> bool:
    for part in e.walk():
        if called_function(part) == "sum":
            return True
        if isinstance(part, exp.Column) and id(part) not in seen:
            seen.add(id(part))
            behind = (one for one in find_definitions(part) or () if isinstance(one, exp.Expr))
            if any(_has_sum(one, seen) for one in behind):
                return True
    return False


_NUMBERS = frozenset({"int", "float", "decimal", "date", "time", "boolean"})


def check_set_operation_types(e: exp.Expr, origin: Origin) -> Finding | None:
    """Report columns of set operations that mix texts with other values, or lose digits."""
    if not isinstance(e, exp.SetOperation) or origin.dialect not in _UNITING_TEXTS:
        return None
    left, right = _columns(e.this), _columns(e.expression)
    for one, two in zip(left, right, strict=False):
        narrowed = _narrowed(e, origin, (*one, *two))
        if narrowed is not None:
            return narrowed
        kinds = {kind_of_value(value) for value in (*one, *two)}
        if "text" in kinds and kinds & _NUMBERS:
            what = "a column with texts and other values is a text"
            return certain_finding(e, origin, what, "cast all values of the column to one type")
    return None


_UNITING_TEXTS = frozenset({"duckdb", "mysql", "sqlite", "clickhouse"})


def _columns(query: exp.Expr) -> list[list[exp.Expr]]:
    query = query.unnest()
    if isinstance(query, exp.SetOperation):
        sides = zip(_columns(query.this), _columns(query.expression), strict=False)
        return [[*one, *two] for one, two in sides]
    found: list[list[exp.Expr]] = []
    for one in query.selects if isinstance(query, exp.Select) else ():
        if one.is_star:
            break
        value = one.unalias().unnest()
        found.append([] if isinstance(value, exp.Null) else [value])
    return found
