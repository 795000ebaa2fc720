"""What binding notes of a query that Spark would refuse; `checks` says it to the author."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from sqlglot import exp

Rule = Literal[
    "unknown function",
    "aggregate in clause",
    "nested aggregate",
    "window in clause",
    "no window",
    "window without order",
    "ungrouped",
    "position",
    "different widths",
    "several columns",
]


@dataclass(frozen=True, slots=True, eq=False)
class Noted:
    """One thing that was seen while a query was bound.

    Args:
        rule: What is wrong.
        where: The expression that is.
        details: What the rule's message needs, see there.
    """

    rule: Rule
    where: exp.Expr
    details: tuple[Any, ...] = ()
