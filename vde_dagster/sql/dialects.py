"""SQLGlot's dialects, changed so that they leave time formats as the author wrote them."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sqlglot.dialects.dialect import Dialect


@lru_cache(maxsize=16)
def untranslated(dialect: str) -> Dialect:
    """Return a dialect that neither translates the formats it reads nor those it writes.

    SQLGlot translates every format to Python's and back, which makes one of `'y'` and `'yyyy'`,
    though Spark pads the year of the second only.

    Args:
        dialect: A dialect's name.

    Raises:
        ValueError: SQLGlot knows no such dialect.
    """
    from sqlglot.dialects.dialect import Dialect

    base = Dialect.get_or_raise(dialect).__class__
    changed: Any = type(f"Vde{base.__name__}", (base,), {"TIME_MAPPING": {}, "FORMAT_MAPPING": {}})
    made: Dialect = changed()
    return made
