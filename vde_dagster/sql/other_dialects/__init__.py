"""Translation of queries from other dialects to Spark SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


SPARKS = frozenset({"", "spark", "spark2", "databricks"})
"""Dialects with Spark's functions; Spark lacks some functions of Databricks."""

DATE_SERIES = "VDE_DATE_SERIES"
"""Function that the macro `@DATE_SPINE` writes in other dialects; the translation replaces it."""


class Unwritable(ValueError):
    """The query has a form without an equivalent in Spark.

    Args:
        types: Type names in upper case. The error points at the first of them in the query.

    Attributes:
        function: Name of a function that is not in the list of verified functions, or None.
        start: Offset of the form in the text of its query, or None if unknown.
    """

    def __init__(self, what: str, *types: str) -> None:
        super().__init__(what)
        self.types = types
        self.function: str | None = None
        self.start: int | None = None

    def at_node(self, node: exp.Expr) -> Unwritable:
        """Add a node's offset as `start`, if `start` is missing, and return this error."""
        if self.start is None:
            starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
            self.start = node.meta.get("start", min(starts, default=None))
        return self
