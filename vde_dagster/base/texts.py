"""Words for people: counts, lists, and hints for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from vde_dagster.errors import Fix, Hint


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


def first_of(total: int, most: int) -> str:
    """Say how many are left out where only the first are shown: ` and 3 more`, or nothing."""
    return f" and {total - most} more" if total > most else ""


def listed(names: Iterable[object], most: int = 10) -> str:
    """Name the first few: `a, b and 3 more`."""
    texts = list(map(str, names))
    return ", ".join(texts[:most]) + first_of(len(texts), most)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like the given one, or None when none does."""
    by_fold = {option.casefold(): option for option in known}
    found = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def one_letter_away(name: str, known: Iterable[str]) -> str | None:
    """Return the known name from which one letter was left out, added, changed or moved by one.

    Digits are no letters: `dev2` beside `dev1` is meant.

    >>> one_letter_away("prdo", ["dev", "prod"]), one_letter_away("dev2", ["dev", "dev1"])
    ('prod', None)
    """
    for option in sorted(known):
        start = _alike(name, option)
        ours, theirs = name[start:], option[start:]
        end = _alike(ours[::-1], theirs[::-1])
        ours, theirs = ours[: len(ours) - end], theirs[: len(theirs) - end]
        moved = len(ours) == 2 and ours == theirs[::-1]
        near = moved or (len(ours) <= 1 and len(theirs) <= 1)
        if name != option and near and not any(map(str.isdigit, ours + theirs)):
            return option
    return None


def _alike(one: str, other: str) -> int:
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


def meant(name: str, match: str, more: str = "", ask: str = "did you mean") -> Hint:
    """Write a hint at a misspelt name: which one is meant, that it can be written, and `more`."""
    sure = one_letter_away(name.casefold(), [match.casefold()]) is not None
    return Hint(f"{ask} '{match}'?{more}", Fix.writing(name, match, sure=sure))


def suggest(name: str, known: Iterable[str], what: str = "known names") -> str:
    """Write a hint: the closest known name, else the list of them."""
    options = sorted(set(known))
    match = closest(name, options)
    if match is not None:
        return meant(name, match)
    return f"{what}: {', '.join(options)}" if options else f"there are no {what}"


def printable(text: str) -> str:
    """Write a text with its control characters as escapes, for one line of a message."""
    return "".join(s if s.isprintable() else s.encode("unicode_escape").decode() for s in text)
