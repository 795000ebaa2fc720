"""Check for time filters that miss some rows of the interval that a fill computes.

The check evaluates filters with `@start_…` and `@end_…` bounds for the first and the last value of
a column in an interval. For example, `day < @end_date` leaves out the last day, and `ts <=
@end_date` leaves out the last day except for midnight.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from itertools import chain

from sqlglot import exp

from vde_dagster.semantics._sqlglot import called_function
from vde_dagster.semantics.errors import Finding, make_finding_at
from vde_dagster.semantics.types import infer
from vde_dagster.sql.grammar.tokens import MARK

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_END = datetime(2024, 3, 1)
_UNITS = (
    (_END - timedelta(minutes=5), _END),
    (_END - timedelta(hours=1), _END),
    (_END - _DAY, _END),
    (datetime(2024, 2, 1), _END),
)
"""One half-open interval (UTC) per unit.

A bound is reported only if it leaves out a value of every one of these intervals.
"""

_INSTANTS = frozenset({exp.DType.TIMESTAMP, exp.DType.TIMESTAMPTZ, exp.DType.TIMESTAMPNTZ})
_CASTS = {"date": "DATE", "to_date": "DATE", "timestamp": "TIMESTAMP", "to_timestamp": "TIMESTAMP"}
_STEPS = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": _DAY,
    "week": timedelta(weeks=1),
}
_RIGHT = {
    "DATE": "{0} BETWEEN @start_date AND @end_date",
    "TIMESTAMP": "{0} BETWEEN @start_dt AND @end_dt",
    "TIMESTAMP_NTZ": "{0} BETWEEN @start_dtntz AND @end_dtntz",
    "STRING": "{0} BETWEEN @start_ds AND @end_ds",
}


def write_interval_filter(column: str, type_: str | None, pattern: str | None = None) -> str:
    """Write a WHERE condition that selects exactly the rows of an interval, for a hint.

    Args:
        type_: The column's Spark SQL type. If it is unknown or unsupported, the result has one
            condition for a DATE and one for a TIMESTAMP.
        pattern: The strftime format of a column of text or numbers; None means `%Y-%m-%d`.
    """
    kind = (type_ or "").upper().replace("TIMESTAMP_LTZ", "TIMESTAMP")
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        return _RIGHT[kind].format(column)
    if kind == "STRING" and pattern in (None, "%Y-%m-%d"):
        return _RIGHT["STRING"].format(column)
    choices = (f"{_RIGHT[each].format(column)} (a {each})" for each in ("DATE", "TIMESTAMP"))
    return " or ".join(choices)


@dataclass(frozen=True, slots=True)
class _Bound:
    value: exp.Expr
    sign: str
    limit: exp.Expr
    where: exp.Expr


def interval_filter_findings(parts: Iterable[exp.Expr]) -> Iterator[Finding]:
    """Report time filters that leave out a part of every interval, such as `day < @end_date`."""
    for clause in parts:
        if not isinstance(clause, exp.Where):
            continue
        bounds = [(bound, _variables(bound.limit)) for bound in _bounds(clause.this)]
        if not _has_both_ends(names for _, names in bounds):
            continue
        by_columns: dict[str, list[tuple[_Bound, list[str]]]] = {}
        for bound, names in bounds:
            columns = {
                ".".join([part.name for part in column.parts]).lower()
                for column in bound.value.find_all(exp.Column)
            }
            by_columns.setdefault(" ".join(sorted(columns)), []).append((bound, names))
        for own in by_columns.values():
            if _has_both_ends(names for _, names in own):
                yield from _checked([bound for bound, _ in own])


def _has_both_ends(variables: Iterable[list[str]]) -> bool:
    names = list(chain.from_iterable(variables))
    ends = ("start_", "end_")
    return all(any(name.startswith(end) for name in names) for end in ends)


def _checked(bounds: Sequence[_Bound]) -> Iterator[Finding]:
    for bound in bounds:
        grain, type_ = _grain(bound.value), _type_text(bound.value)
        edge = "last" if bound.sign in ("<", "<=") else "first"
        if grain is None or type_ is None or (type_ == "STRING" and bound.sign in ("<=", ">=")):
            continue  # Texts of days and of instants differ in what an inclusive bound holds.
        if any(_meets_bound(bound, grain, edge, interval) is not False for interval in _UNITS):
            continue
        shown, limit = _written(bound.value), _written(bound.limit)
        name = next(iter(_variables(bound.limit)), "")
        of_day = name.endswith(("_date", "_ds"))
        part = "day" if grain == _DAY else "part" if of_day else "microsecond"
        yield make_finding_at(
            "interval filter",
            bound.where,
            f"{shown} {bound.sign} {limit} leaves out the {edge} {part} of every interval: "
            + _reason(name, type_, grain),
            f"write {write_interval_filter(shown, type_)}, "
            "which includes both ends of the interval",
            certain=False,
        )
        return


def _reason(name: str, type_: str, grain: timedelta) -> str:
    of_day = name.endswith(("_date", "_ds"))
    if of_day and grain != _DAY:
        return f"compared with a {type_}, @{name} is midnight at the start of its day"
    edge = "last" if name.startswith("end_") else "first"
    return f"@{name} is the {edge} {'day' if of_day else 'instant'} inside the interval"


def _bounds(condition: exp.Expr) -> Iterator[_Bound]:
    """Yield the bounds in a condition that are not inside OR or NOT."""
    condition = condition.unnest()
    if isinstance(condition, exp.And):
        yield from _bounds(condition.this)
        yield from _bounds(condition.expression)
    elif isinstance(condition, exp.Between) and not condition.args.get("symmetric"):
        for sign, key in ((">=", "low"), ("<=", "high")):
            if _variables(condition.args[key]):
                yield _Bound(condition.this.unnest(), sign, condition.args[key], condition)
    elif type(condition) in _SIGNS:
        sign, mirrored = _SIGNS[type(condition)]
        left, right = condition.this.unnest(), condition.expression.unnest()
        if _variables(right) and not _variables(left):
            yield _Bound(left, sign, right, condition)
        elif _variables(left) and not _variables(right):
            yield _Bound(right, mirrored, left, condition)


_SIGNS: dict[type[exp.Expr], tuple[str, str]] = {
    exp.LT: ("<", ">"),
    exp.LTE: ("<=", ">="),
    exp.GT: (">", "<"),
    exp.GTE: (">=", "<="),
}


def _variables(e: exp.Expr) -> list[str]:
    names = (found.this.name.lower() for found in e.find_all(exp.Parameter))
    return [name for name in names if name.startswith(("start_", "end_"))]


def _written(e: exp.Expr) -> str:
    return f"@{e.this.name}" if isinstance(e, exp.Parameter) else e.sql("spark").replace(MARK, "")


def _type_text(value: exp.Expr) -> str | None:
    kind = infer(value)
    if kind is None:
        return None
    if kind.this in _INSTANTS:
        return "TIMESTAMP_NTZ" if kind.this == exp.DType.TIMESTAMPNTZ else "TIMESTAMP"
    return {exp.DType.DATE: "DATE", exp.DType.TEXT: "STRING"}.get(kind.this)


def _grain(value: exp.Expr) -> timedelta | None:
    """Return the smallest step between values of an expression, such as a day, or None."""
    kind = infer(value)
    if kind is not None and kind.this in (exp.DType.DATE, exp.DType.TEXT):
        return _DAY
    if kind is None or kind.this not in _INSTANTS:
        return None
    if called_function(value) == "date_trunc":
        unit = value.expressions[0].name.strip("'\"").lower()
        return _DAY if unit in ("day", "dd") else None
    while isinstance(value, exp.Cast) or called_function(value) in _CASTS:
        value = (value.this if isinstance(value, exp.Cast) else value.expressions[0]).unnest()
    if isinstance(value, exp.Column):
        # A DATE that is cast to a TIMESTAMP still has one value a day.
        inner = infer(value)
        return _DAY if inner is not None and inner.this == exp.DType.DATE else _MICROSECOND
    return None


def _meets_bound(
    bound: _Bound, grain: timedelta, edge: str, interval: tuple[datetime, datetime]
) -> bool | None:
    """Return whether an interval's first or last value meets a bound, or None if unknown."""
    limit = _evaluate(bound.limit, interval)
    if limit is None:
        return None
    value = interval[0] if edge == "first" else interval[1] - _MICROSECOND
    if grain == _DAY:
        value = datetime.combine(value.date(), time())
        if isinstance(limit, str):
            limit = limit[:10]
    if isinstance(limit, str):
        limit = datetime.fromisoformat(limit)
    elif not isinstance(limit, datetime):
        limit = datetime.combine(limit, time())
    if bound.sign in ("<", "<="):
        return value < limit or (bound.sign == "<=" and value == limit)
    return value > limit or (bound.sign == ">=" and value == limit)


def _evaluate(e: exp.Expr, interval: tuple[datetime, datetime]) -> date | datetime | str | None:
    """Compute a bound for an interval: a DATE, an instant (UTC) or a text; None if unknown."""
    e = e.unnest()
    if isinstance(e, exp.Parameter):
        return _variable(e.this.name.lower(), interval)
    name = called_function(e)
    if isinstance(e, exp.Cast) or (name in _CASTS and len(e.expressions) == 1):
        inner = _evaluate(e.this if isinstance(e, exp.Cast) else e.expressions[0], interval)
        kind = e.to.this if isinstance(e, exp.Cast) else exp.DType[_CASTS[name]]
        return _cast(inner, kind)
    if isinstance(e, exp.Add | exp.Sub):
        return _add_days(_evaluate(e.this, interval), e.expression, 1 if type(e) is exp.Add else -1)
    if name in ("date_add", "date_sub") and len(e.expressions) == 2:
        first = _cast(_evaluate(e.expressions[0], interval), exp.DType.DATE)
        return _add_days(first, e.expressions[1], 1 if name == "date_add" else -1)
    return None


def _variable(name: str, interval: tuple[datetime, datetime]) -> date | datetime | str | None:
    prefix, _, suffix = name.partition("_")
    instant = {"start": interval[0], "end": interval[1] - _MICROSECOND}.get(prefix)
    if instant is None:
        return None
    values: dict[str, date | datetime | str] = {
        "date": instant.date(),
        "ds": instant.date().isoformat(),
        "dt": instant,
        "dtntz": instant,
        "ts": instant.isoformat(sep=" "),
        "tstz": instant.isoformat(sep=" "),
    }
    return values.get(suffix)


def _cast(value: date | datetime | str | None, kind: exp.DType) -> date | datetime | None:
    if value is None or kind not in (*_INSTANTS, exp.DType.DATE):
        return None
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    instant = value if isinstance(value, datetime) else datetime.combine(value, time())
    return instant.date() if kind == exp.DType.DATE else instant


def _add_days(
    value: date | datetime | str | None, by: exp.Expr, direction: int
) -> date | datetime | None:
    if value is None or isinstance(value, str):
        return None
    by = by.unnest()
    if isinstance(by, exp.Literal) and not by.is_string and by.this.isdigit():
        step = _DAY * int(by.this)
    elif called_function(by) == "interval literal" and len(by.expressions) == 1:
        number, _, unit = by.expressions[0].name.strip().partition(" ")
        length = _STEPS.get(unit.strip().lower().removesuffix("s"))
        if length is None or not number.isdigit():
            return None
        step = length * int(number)
        if step % _DAY and not isinstance(value, datetime):
            value = datetime.combine(value, time())
    else:
        return None
    return value + step * direction
