"""Hints for misspelt names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that looks most like the given one, or None when none does."""
    by_fold = {option.casefold(): option for option in known}
    found = difflib.get_close_matches(name.casefold(), list(by_fold), n=1, cutoff=0.6)
    return by_fold[found[0]] if found else None


def suggest(name: str, known: Iterable[str], what: str = "known names") -> str:
    """Write a hint: the closest known name, else the list of them."""
    options = sorted(set(known))
    match = closest(name, options)
    if match is not None:
        return f"did you mean '{match}'?"
    return f"{what}: {', '.join(options)}" if options else f"there are no {what}"
