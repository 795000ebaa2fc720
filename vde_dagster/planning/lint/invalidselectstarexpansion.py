"""What a star stands for is known."""

from __future__ import annotations

import re
from collections.abc import Iterator

from vde_dagster.planning.lint.linted import Linted, Violation

_NOT_KNOWN = re.compile(r"the columns of (.+) are not known")


def check(linted: Linted) -> Iterator[Violation]:
    """Find a star over a table whose columns are not known."""
    found = _NOT_KNOWN.search(linted.snapshot.version.opaque or "")
    if found:
        yield linted.violation(f"selects * of {found[1]}, whose columns are not known")
