"""Texts for messages: counts, lists, and hints for misspelled names; and tables in text files."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from vde_dagster.errors import Fix, Hint, UsageError


def count(number: int, noun: str) -> str:
    """Write a number with its noun: `1 day`, `2 days`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def size(number: int | None) -> str:
    """Write a number of bytes: `1.5 MB`."""
    if number is None:
        return ""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def and_more(total: int, most: int) -> str:
    """Return ` and 3 more` for a list that shows `most` of `total` items, "" if it shows all."""
    return f" and {total - most} more" if total > most else ""


def listed(names: Iterable[object], most: int = 10) -> str:
    """List the first few names: `a, b and 3 more`."""
    texts = list(map(str, names))
    return ", ".join(texts[:most]) + and_more(len(texts), most)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to the given one, or None if none is similar."""
    by_fold = {option.casefold(): option for option in known}
    found = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def closest_by_one_letter(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that differs by one letter: missing, extra, changed or swapped.

    Digits do not count as letters: `dev2` is not a misspelled `dev1`.

    >>> closest_by_one_letter("prdo", ["dev", "prod"]), closest_by_one_letter("dev2", ["dev1"])
    ('prod', None)
    """
    for option in sorted(known):
        start = _common_prefix_length(name, option)
        ours, theirs = name[start:], option[start:]
        end = _common_prefix_length(ours[::-1], theirs[::-1])
        ours, theirs = ours[: len(ours) - end], theirs[: len(theirs) - end]
        moved = len(ours) == 2 and ours == theirs[::-1]
        near = moved or (len(ours) <= 1 and len(theirs) <= 1)
        if name != option and near and not any(map(str.isdigit, ours + theirs)):
            return option
    return None


def _common_prefix_length(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def did_you_mean(name: str, match: str, more: str = "", ask: str = "did you mean") -> Hint:
    """Return the hint `did you mean 'match'?` for a misspelled name, with an edit that fixes it."""
    sure = closest_by_one_letter(name.casefold(), [match.casefold()]) is not None
    return Hint(f"{ask} '{match}'?{more}", Fix.writing(name, match, sure=sure))


def suggest(name: str, known: Iterable[str], what: str = "known names", otherwise: str = "") -> str:
    """Return `did you mean 'match'?` for a similar known name, else `otherwise` or all names."""
    options = sorted(set(known))
    match = closest(name, options)
    if match is not None or otherwise:
        return did_you_mean(name, match) if match is not None else otherwise
    return f"{what}: {', '.join(options)}" if options else f"there are no {what}"


def find_column(model: object, column: str, columns: Iterable[str]) -> str:
    """Return the spelling of a column in `columns`: `Amount` for `amount`.

    Raises:
        UsageError: The model has no column of that name.
    """
    known = {one.lower(): one for one in columns}
    if column.lower() not in known:
        hint = suggest(column, known.values(), "columns")
        raise UsageError(f"{model} has no column '{column}'", hint=hint)
    return known[column.lower()]


def printable(text: str) -> str:
    """Return a text with its unprintable characters escaped, for one line of a message."""
    return "".join(s if s.isprintable() else s.encode("unicode_escape").decode() for s in text)


@lru_cache(maxsize=8)
def lines_by_key(table: Path) -> dict[str, list[str]]:
    """Return a text file's lines by the text before their first tab, without comments (`#`)."""
    found: dict[str, list[str]] = {}
    for line in table.read_text("utf-8").splitlines():
        if not line.startswith("#"):
            found.setdefault(line[: line.index("\t")], []).append(line)
    return found
