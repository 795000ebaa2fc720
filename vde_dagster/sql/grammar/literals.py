"""Checks of typed literals, such as DATE '…', whose text Spark's grammar does not check.

Spark's parser refuses an invalid text after the grammar accepted the literal. The rules follow
Spark 4.1's `IntervalUtils` and `SparkDateTimeUtils`. Names of time zones are not checked.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Sequence
from typing import NamedTuple

_DAY = r"\s*([+-]?\d{4,7})(?:-(0?[1-9]|1[0-2])(?:-(0?[1-9]|[12]\d|3[01])(?:[T ].*)?)?)?\s*"
_TIME = r"T?(?:[01]?\d|2[0-3])(?::[0-5]?\d(?::[0-5]?\d(?:\.\d*)?)?)?(?:\s*[A-Za-z+-].*)?"
_WORD = r"(?:epoch|now|today|tomorrow|yesterday)\b.*"
_INSTANT = rf"{_DAY.partition('(?:[T ]')[0]}(?:[T ]{_TIME})?)?)?\s*|\s*{_TIME}|\s*{_WORD}"
_TEXTS = {
    "DATE": (rf"{_DAY}|\s*{_WORD}", "'2024-01-31'"),
    **dict.fromkeys(
        ("TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ"), (_INSTANT, "'2024-01-31 18:30:00'")
    ),
    "TIME": (
        r"\s*T?(?:[01]?\d|2[0-3]):[0-5]?\d(?::[0-5]?\d(?:\.\d*)?)?(?:\s*[AP]M)?\s*",
        "'18:30:00'",
    ),
    "X": (r"[0-9a-f]*", "hexadecimal digits in quotes"),
}
"""Patterns of valid texts after a type's name, and examples."""
_TEXT = re.compile(rf"(?<!\w)(?:{'|'.join(_TEXTS)})\s*['\"]", re.IGNORECASE)
_INTERVALS = "INTERVAL"
_MONTHS, _MICROS = r"(?:year|month)s?", r"(?:week|day|hour|minute|millisecond|microsecond)s?"
_COUNT, _FRACTION = r"[+-]?\s*\d+", r"[+-]?\s*(?:\d+(?:\.\d{0,9})?|\.\d{1,9})"
_MONTH_PART = rf"{_COUNT}\s+{_MONTHS}"
_MICRO_PART = rf"(?:{_COUNT}\s+{_MICROS}|{_FRACTION}\s+seconds?)"
_INTERVAL = "|".join(
    rf"\s*(?:interval\s)?\s*{part}(?:\s+{part})*\s*" for part in (_MONTH_PART, _MICRO_PART)
)
_SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60}
_COUNTED = re.compile(r"(\d+)\s+(year|month|week|day|hour|minute)", re.IGNORECASE)
_LARGEST = {
    "year": 2**31 // 12,
    "month": 2**31,
    **{unit: 2**63 // 10**6 // seconds for unit, seconds in _SECONDS.items()},
}
"""The largest number of each unit that Spark may accept."""
UNITS = frozenset(
    f"{unit}{plural}"
    for unit in (
        *("NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK"),
        *("MONTH", "YEAR"),
    )
    for plural in ("", "S")
)
"""Units after a value of INTERVAL. Spark refuses NANOSECOND, though its grammar accepts it."""
_HOUR, _MINUTE, _SECOND = r"(?:[01]?\d|2[0-3])", r"[0-5]?\d", r"[0-5]?\d(?:\.\d{1,9})?"
_FROM_TO = {
    ("YEAR", "MONTH"): (r"\d+-(?:0*\d|0*1[01])", "'1-6'"),
    ("DAY", "HOUR"): (rf"\d+ {_HOUR}", "'1 12'"),
    ("DAY", "MINUTE"): (rf"\d+ {_HOUR}:{_MINUTE}", "'1 12:30'"),
    ("DAY", "SECOND"): (rf"\d+ {_HOUR}:{_MINUTE}:{_SECOND}", "'1 12:30:00'"),
    ("HOUR", "MINUTE"): (rf"\d+:{_MINUTE}", "'12:30'"),
    ("HOUR", "SECOND"): (rf"\d+:{_MINUTE}:{_SECOND}", "'12:30:00'"),
    ("MINUTE", "SECOND"): (rf"\d+:{_SECOND}", "'30:00'"),
}


class MalformedLiteral(NamedTuple):
    """A literal whose text is invalid for its type.

    Args:
        start, end: Half-open range of the invalid words' indexes in the query.
        example: Valid words in their place.
    """

    start: int
    end: int
    example: str


def may_be_malformed(text: str) -> bool:
    """Return whether a query may have a literal that `find_malformed` checks."""
    return _INTERVALS in text.upper() or (
        ("'" in text or '"' in text) and _TEXT.search(text) is not None
    )


def find_malformed(words: Sequence[str]) -> MalformedLiteral | None:
    """Find the first literal of a query whose text is invalid for its type."""
    for at, word in enumerate(words[:-1]):
        name = word.upper()
        found = None
        if name == _INTERVALS:
            found = _check_interval(words, at + 1)
        elif name in _TEXTS and _is_quoted(words[at + 1]):
            end, text = _join_strings(words, at + 1)
            if text is not None and not _is_valid(name, text):
                found = MalformedLiteral(at + 1, end, _TEXTS[name][1])
        if found is not None:
            return found
    return None


def _is_valid(name: str, text: str) -> bool:
    found = re.fullmatch(_TEXTS[name][0], text, re.IGNORECASE)
    if found is None:
        return False
    if found.re.groups < 3 or found[3] is None:
        return True
    # The calendar is the Gregorian one in all years, and repeats itself.
    return int(found[3]) <= monthrange(2000 + int(found[1]) % 400, int(found[2]))[1]


def _check_interval(words: Sequence[str], at: int) -> MalformedLiteral | None:
    """Check the interval literal after a word INTERVAL, which may also be a column's name."""
    start, parts = at, list[tuple[str, str]]()
    while at < len(words):
        sign = words[at] if words[at] in "+-" else ""
        first = at + bool(sign)
        if first >= len(words) or not (
            _is_quoted(words[first]) or words[first][0] in "0123456789."
        ):
            break
        end, text = (
            _join_strings(words, first) if _is_quoted(words[first]) else (first + 1, words[first])
        )
        unit = words[end].upper() if end < len(words) else ""
        if unit not in UNITS:
            if parts or sign or text is None or _is_interval(text):
                return None
            return MalformedLiteral(start, end, "'1 day'")
        if text is None:
            return None
        if words[end + 1 : end + 2] and words[end + 1].upper() == "TO" and not parts:
            pattern, example = _FROM_TO.get((unit, words[end + 2].upper()), ("", "'1 12:30:00'"))
            wrong = not _is_quoted(words[first]) or not _matches(rf"\s*[+-]?{pattern}\s*", text)
            if not pattern:
                return MalformedLiteral(end, end + 3, "DAY TO SECOND")
            return MalformedLiteral(start, end, example) if wrong else None
        parts.append((text, unit))
        at = end + 1
    whole = " ".join(f"{text.lstrip('-')} {unit}" for text, unit in parts)
    # A text beside a unit has no unit of its own.
    own = any(re.search("[A-Za-z]", text) for text, _ in parts)
    return (
        MalformedLiteral(start, at, "1 DAY") if parts and (own or not _is_interval(whole)) else None
    )


def _is_interval(text: str) -> bool:
    counted = _COUNTED.findall(text)
    return _matches(_INTERVAL, text) and all(
        int(n) <= _LARGEST[unit.lower()] for n, unit in counted
    )


def _matches(pattern: str, text: str) -> bool:
    return re.fullmatch(pattern, text, re.IGNORECASE) is not None


def _is_quoted(word: str) -> bool:
    return word[0] in "'\""


def _join_strings(words: Sequence[str], at: int) -> tuple[int, str | None]:
    """Return the index after adjacent strings, and their joined text (None with a backslash)."""
    end = next((i for i in range(at, len(words)) if not _is_quoted(words[i])), len(words))
    text = "".join(word[1:-1] for word in words[at:end])
    return end, None if "\\" in text else text
