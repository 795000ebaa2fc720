"""Dates: days that are added to them, fields that are taken out, and what makes one of a time.

(Spark does so itself: `BinaryArithmeticWithDatetimeResolver`, `ParseToDate`, `Extract`.)
"""

from __future__ import annotations

import re

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.normalise import integer
from vde_dagster.semantics.simplify.facts import DATE, TEXT, TIMES, WHOLE, Facts

_FIELDS = {
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "hour", "minute"), ""),
    "week": "weekofyear",
    "doy": "dayofyear",
}
"""Units to the functions that take them out of a date or a time, where the names differ."""
_MADE = {"to_date": DATE, "to_timestamp": "TIMESTAMPTZ<>"}
_DAYS = re.compile(r"'?\s*([+-]?[0-9]{1,9})\s*'? DAYS?", re.IGNORECASE)
_COUNTS = WHOLE[:-1]
"""Types of numbers that Spark adds to a date."""


def days_added(node: Node, facts: Facts) -> Node:
    """``p + 1``, ``p + INTERVAL 1 DAY`` and ``date_sub(p, -1)`` as ``date_add(p, 1)``."""
    terms = facts.terms
    if node.tag == "call":
        days = integer(node.parts[2]) if len(node.parts) == 3 else None
        if node.parts[0] != "date_sub" or days is None or days == -(2**31):
            return node
        return terms.make("call", "date_add", node.parts[1], terms.make("lit", "n", str(-days)))
    one, two = node.parts
    if node.tag == "add" and facts.type(two) == DATE:
        one, two = two, one
    if facts.type(one) != DATE:
        return node
    counted = _days(two, facts)
    if counted is None:
        return node
    name = "date_add" if node.tag == "add" else "date_sub"
    return days_added(terms.make("call", name, one, counted), facts)


def _days(node: Node, facts: Facts) -> Node | None:
    """A number of days: a whole number, or an interval of days."""
    if facts.type(node) in _COUNTS:
        return node
    if node.tag != "typed literal" or node.parts[0] != "interval":
        return None
    found = _DAYS.fullmatch(node.parts[1])
    return facts.terms.make("lit", "n", str(int(found[1]))) if found else None


def field_taken(node: Node, facts: Facts) -> Node:
    """``extract(YEAR FROM p)`` and ``date_part('year', p)`` as ``year(p)``."""
    if len(node.parts) != 3 or node.parts[1].tag != "unit":
        return node
    field, of = node.parts[1].parts[0], node.parts[2]
    if field not in _FIELDS or facts.type(of) not in (DATE, *TIMES):
        return node
    return facts.terms.make("call", _FIELDS[field] or field, of)


def date_made(node: Node, facts: Facts) -> Node:
    """``to_date(q)`` and ``to_timestamp(q)`` as the casts that they are without a format."""
    if len(node.parts) != 2 or facts.type(node.parts[1]) not in (DATE, TEXT, *TIMES):
        return node
    return facts.terms.make("cast", False, _MADE[node.parts[0]], node.parts[1])
