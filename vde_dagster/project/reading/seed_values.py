"""Values of a seed that its declared types cannot hold, found before Spark casts them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.model import Column

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 80
"""Most characters of a wrong value that a message shows."""
_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_DAY = r"[+-]?\d{4,7}(?:-(?:0?[1-9]|1[0-2])(?:-(?:0?[1-9]|[12]\d|3[01])(?:[ T].*)?)?)?"
_FORMS = {
    **dict.fromkeys(("TINYINT", "BYTE"), r"[+-]?\d+"),
    **dict.fromkeys(("SMALLINT", "SHORT"), r"[+-]?\d+"),
    **dict.fromkeys(("INT", "INTEGER"), r"[+-]?\d+"),
    **dict.fromkeys(("BIGINT", "LONG"), r"[+-]?\d+"),
    **dict.fromkeys(
        ("FLOAT", "REAL", "DOUBLE"), rf"(?:{_NUMBER}[dDfF]?|[+-]?(?i:nan|inf|infinity))"
    ),
    **dict.fromkeys(("DECIMAL", "DEC", "NUMERIC"), _NUMBER),
    "BOOLEAN": r"(?i:t|true|y|yes|1|f|false|n|no|0)",
    "DATE": _DAY,
    # A time alone is one of today.
    **dict.fromkeys(("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"), rf"(?:{_DAY}|T?\d{{1,2}}:.*)"),
}
"""What a cast to a type reads, or more: blanks around a value are taken off before."""
_BITS = {"TINYINT": 7, "BYTE": 7, "SMALLINT": 15, "SHORT": 15, "INT": 31, "INTEGER": 31}
_LONGEST = 63
_DIGITS = 20
"""What no integer of Spark has."""
_DECIMAL = re.compile(r"(?i:DECIMAL|DEC|NUMERIC)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_PLAIN_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


def check_values(
    table: pyarrow.Table,
    columns: Sequence[Column],
    location: SourceLocation,
    line_of: Callable[[int], int | None],
) -> None:
    """Check the values of declared columns.

    Args:
        table: The file's values as text, without blanks around them, NULLs as NULL.
        columns: The columns that have a declared type.
        location: The file.
        line_of: The 1-based line of a row, counted from 0.

    Raises:
        ProjectError: A column has values that a cast to its type refuses; names the first.
    """
    mistakes = []
    for column in columns:
        wrong = _wrong(table[column.name], column.type or "")
        if wrong is None:
            continue
        row, count = wrong
        value = str(table[column.name][row].as_py())
        value = value if len(value) <= _SHOWN else f"{value[:_SHOWN]}…"
        more = f" ({count:,} values are not)" if count > 1 else ""
        mistakes.append(
            ProjectError(
                f"'{value}' in column '{column.name}' is no {column.type}, as which the model "
                f"declares it{more}",
                hint="correct the value, or declare the column as STRING and cast it in a query",
                location=SourceLocation(location.path, line_of(row)),
            )
        )
    if mistakes:
        raise ProjectError.of(mistakes)


def _wrong(values: pyarrow.ChunkedArray, type_: str) -> tuple[int, int] | None:
    """Return the first row whose value has not the type, and how many there are."""
    import pyarrow.compute as pc

    kind = re.split(r"[\s(<]", type_.strip().upper(), maxsplit=1)[0]
    form = _FORMS.get(kind)
    if form is None:
        return None
    fits = pc.fill_null(pc.match_substring_regex(values, f"(?s)^(?:{form})$"), True)
    fits = pc.and_(fits, _in_range(values, fits, kind, type_))
    count = len(fits) - (pc.sum(fits).as_py() or 0)
    return (pc.index(fits, False).as_py(), count) if count else None


def _in_range(values: Any, fits: Any, kind: str, type_: str) -> Any:
    """Say which values that have the form of a type also are one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    check = _range_check(kind, type_)
    if check is None:
        return pa.array([True] * len(values), pa.bool_())
    known: dict[str, bool] = {}
    found = []
    for value, formed in zip(values.to_pylist(), fits.to_pylist(), strict=True):
        if value is None or not formed:
            found.append(True)
            continue
        if value not in known:
            known[value] = check(value)
        found.append(known[value])
    return pc.fill_null(pa.array(found, pa.bool_()), True)


def _range_check(kind: str, type_: str) -> Callable[[str], bool] | None:
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"):
        return _is_day
    if kind in ("BIGINT", "LONG") or kind in _BITS:
        limit = 1 << _BITS.get(kind, _LONGEST)
        # Python refuses to read numbers of thousands of digits.
        return lambda value: _whole_digits(value) < _DIGITS and -limit <= int(value) < limit
    sized = _DECIMAL.fullmatch(type_.strip())
    if sized is not None:
        whole = int(sized[1]) - int(sized[2] or 0)
        # Rounding up may need one more digit, which is left to Spark.
        return lambda value: "e" in value.lower() or _whole_digits(value) <= whole
    return None


def _is_day(value: str) -> bool:
    day = value[:10]
    if not _PLAIN_DAY.fullmatch(day):
        return True
    try:
        date.fromisoformat(day)
    except ValueError:
        return False
    return True


def _whole_digits(value: str) -> int:
    return len(value.lstrip("+-").partition(".")[0].lstrip("0"))
