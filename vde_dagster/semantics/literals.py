"""Literals: as they were written, but for what Spark certainly reads alike."""

from __future__ import annotations

import re
from datetime import date

from vde_dagster.semantics.algebra import Node, Terms

_PLAIN = re.compile(r"'([^'\\]*)'")
_INTEGER = re.compile(r"-?[0-9]+")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def bind_literal(terms: Terms, text: str) -> Node:
    """The node of a number or string as `sql.spark_tokens` leaves it, quotes and suffix included.

    Integers lose leading zeros, and zero its sign.
    """
    if not _INTEGER.fullmatch(text):
        kind = "s" if text[-1:] in "'\"" else "n"
        return terms.make("lit", kind, text if kind == "s" else text.upper())
    return terms.make("lit", "n", str(int(text)))


def plain_string(text: str) -> str | None:
    """The value of a string in single quotes without escapes; None for any other literal."""
    found = _PLAIN.fullmatch(text)
    return found[1] if found else None


def is_plain_date(text: str) -> bool:
    """Whether a literal is a string of a valid day, written as `'2024-02-29'`."""
    value = plain_string(text)
    if value is None or not _DATE.fullmatch(value):
        return False
    try:
        date.fromisoformat(value)
    except ValueError:
        return False
    return True
