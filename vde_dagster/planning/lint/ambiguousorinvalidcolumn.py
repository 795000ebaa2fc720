"""Every column is one of a table's whose columns are known.

What cannot be so is a mistake of every plan, rule or not; this is what may be, or may not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation

_UNCLEAR = re.compile(r"may belong to|tables are called")


def check(linted: Linted) -> Iterator[Violation]:
    """Find a column that may be one of several tables."""
    why = linted.snapshot.version.opaque or ""
    if _UNCLEAR.search(why):
        yield linted.violation(f"has a column that may be ambiguous, or not there: {why}")
