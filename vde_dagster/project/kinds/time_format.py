"""Formats for writing times as text, such as `%Y-%m-%d`, in strftime's form.

Headers may also use the form of the model's dialect.

Directives: https://docs.python.org/3/library/datetime.html
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import lru_cache

UNITS = {
    "%f": "microsecond",
    "%S": "second",
    "%M": "minute",
    "%H": "hour",
    "%d": "day",
    "%m": "month",
    "%Y": "year",
}
FINEST_FIRST = tuple(UNITS)
_LENGTHS = (1e-6, 1, 60, 3600, 86400, 28 * 86400, 365 * 86400)
SECONDS = dict(zip(UNITS, _LENGTHS, strict=True))
"""Length (seconds) of the range that a directive's value identifies."""
_SAME = {"%y": "%Y", "%b": "%m", "%B": "%m"}
_ALIASES = {"%F": "%Y-%m-%d", "%T": "%H:%M:%S", "%R": "%H:%M", "%D": "%m/%d/%y"}
_SPARK = {
    "y": "%Y",
    "yyyy": "%Y",
    "yy": "%y",
    "MM": "%m",
    "MMM": "%b",
    "MMMM": "%B",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "SSSSSS": "%f",
}
_TO_SPARK = {value: key for key, value in _SPARK.items() if key != "y"}
_OLD_YEAR_LETTERS = {"Y": "%Y", "YYYY": "%Y", "YY": "%y"}
"""Letters that Spark no longer supports and that SQLMesh reads as the year."""
_SPARKS_OWN = frozenset({"", "spark", "spark2", "databricks", "hive"})
_PIECES = re.compile(r"'((?:[^']|'')*)'|([A-Za-z])\2*|.", re.DOTALL)
_UNIT = re.compile(r"([A-Za-z])\1*\d*")
_LITERALS = frozenset(("T", "Z"))
"""Letters of ISO 8601's notation, which need no quotes."""
_HINT = "%Y, %m, %d, %H, %M, %S (and %y, %b, %B, %f)"


def expand_aliases(pattern: str) -> str:
    """Replace short directives by their parts: `%F` by `%Y-%m-%d`."""
    for short, long in _ALIASES.items():
        pattern = pattern.replace(short, long)
    return pattern


def directives(pattern: str) -> list[str]:
    """Return the directives of an expanded format; variants such as `%y` become `%Y`."""
    return [_SAME.get(part, part) for part in re.findall("%.", pattern) if part != "%%"]


def finest_directive(pattern: str) -> str | None:
    """Return the directive of the shortest unit in a format: `%d` for `%Y-%m-%d`."""
    return next((part for part in FINEST_FIRST if part in directives(pattern)), None)


def sorts_by_time(pattern: str) -> bool:
    """Return whether texts in a format sort by time: `%Y-%m-%d` does, `%d.%m.%Y` does not."""
    parts = re.findall("%.", pattern)
    return parts == list(FINEST_FIRST[::-1][: len(parts)])


def format_problem(pattern: str) -> str | None:
    """Return why a format is invalid, or None if it is valid.

    Each text must identify one range of time. For example, `%m/%d` is invalid.
    """
    pattern = expand_aliases(pattern)
    unknown = [part for part in directives(pattern) if part not in UNITS]
    if "%" in re.sub("%.", "", pattern):
        unknown.append("%")
    if unknown:
        return f"'{unknown[0]}' is not one of {_HINT}"
    shortest = finest_directive(pattern)
    if shortest is None:
        return f"it contains none of {_HINT}"
    for part in FINEST_FIRST[FINEST_FIRST.index(shortest) :]:
        if part not in directives(pattern):
            return f"it contains the {UNITS[shortest]} but not the {UNITS[part]}"
    return None


def strftime_format(text: str, dialect: str) -> str:
    """Convert a time format, such as `yyyy-MM-dd` in Spark's dialect, to strftime's `%Y-%m-%d`.

    Raises:
        ValueError: The format is invalid; the message has the reason.
    """
    pattern = _from_dialect(text, dialect)
    wrong = format_problem(pattern)
    if wrong is not None:
        raise ValueError(wrong)
    return pattern


def spark_format(pattern: str) -> str:
    """Convert a strftime format to a Spark datetime pattern: `%Y-%m-%d` to `yyyy-MM-dd`."""
    out = []
    for letters, literal in re.findall("(%[^%])|((?:%%|[^%])+)", expand_aliases(pattern)):
        text = literal.replace("%%", "%").replace("'", "''")
        out.append(_TO_SPARK[letters] if letters else f"'{text}'")
    return "".join(out)


@lru_cache(maxsize=64)
def _from_dialect(text: str, dialect: str) -> str:
    if dialect.lower() in _SPARKS_OWN:
        return text if "%" in text else _from_spark(text)
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.time import format_time

    own = Dialect.get_or_raise(dialect)
    signs = any(key.startswith("%") for key in own.TIME_MAPPING)
    if "%" in text:
        return (format_time(text, own.TIME_MAPPING) or text) if signs else text
    usable = (*UNITS, *_SAME)
    known = {key: to for key, to in own.TIME_MAPPING.items() if "%" not in to or to in usable}
    if signs or not known:
        return _from_spark(text)
    parts = text.split('"')  # Every second part is literal text.
    parts[::2] = [format_time(part, known) or "" for part in parts[::2]]
    units = (unit[0] for part in parts[::2] for unit in _UNIT.finditer(re.sub("%.", " ", part)))
    unknown = next((unit for unit in units if unit not in _LITERALS), None)
    if unknown is not None:
        # The format may be Spark's.
        with suppress(ValueError):
            return _from_spark(text)
        raise ValueError(f"'{unknown}' is not a supported unit of {dialect}")
    return "".join(parts)


def _from_spark(text: str) -> str:
    """Translate a Spark datetime pattern to strftime's form.

    https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html
    """
    out = []
    for found in _PIECES.finditer(text):
        piece = found[0]
        if found[1] is not None:
            out.append(found[1].replace("''", "'") or "'")
        elif found[2] is None:
            out.append(piece)
        elif piece in _SPARK or piece in _OLD_YEAR_LETTERS:
            out.append(_SPARK.get(piece) or _OLD_YEAR_LETTERS[piece])
        else:
            known = ", ".join(key for key in _SPARK if key != "y")
            raise ValueError(f"'{piece}' is neither one of {known} nor a strftime format")
    return "".join(out)
