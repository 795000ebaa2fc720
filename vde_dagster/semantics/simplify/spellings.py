"""Rules that replace different texts of the same value, such as `1.0` and `1`, by one text.

Spark converts a literal and the column that is compared with it to a common type. Literals of
different types are equivalent if this conversion changes no value. Each rule was verified on Spark
with `fixtures/semantics/spark_optimizer.yaml`, with ANSI mode and without, in three time zones.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal, InvalidOperation

from vde_dagster.semantics.algebra.nodes import Node, int_value, is_plain_date, plain_string
from vde_dagster.semantics.simplify.facts import DATE, DOUBLE, TEXT, TIMES, WHOLE, Facts

_NUMBER = re.compile(r"(-?(?:\d+\.?\d*|\.\d+)(?:E[+-]?\d+)?)(L|S|Y|D|BD)?", re.IGNORECASE)
_DECIMAL = re.compile(r"DECIMAL<(\d+), (\d+)>")
_LARGEST_INT = 2**31
_DIGITS_OF_INT, _MOST_DIGITS = 10, 38
_MOST_SCALE = 18
"""Maximum number of decimals that leaves enough digits for a BIGINT."""


def shorten_compared_literal(node: Node, facts: Facts) -> Node:
    """Replace the literal of a comparison with the shortest equivalent literal.

    ``i = 1.0``, ``d > 0.00`` and ``dec <= 1L`` become comparisons with INTs, and
    ``ts < '2020-01-01'`` becomes a comparison with a TIMESTAMP.
    """
    one, two = node.parts
    for literal, other in ((one, two), (two, one)):
        if literal.tag in _CONSTANTS and other.tag not in _LITERALS:
            made = _literal_beside(literal, other, facts)
            if made is not literal:
                sides = (made, other) if literal is one else (other, made)
                return facts.terms.compare(node.tag, *sides)
            if other.tag == "call" and node.tag in ("eq", "neq"):
                return _prefix(node, other, literal, facts)
    return node


_LITERALS = ("lit", "typed literal")
_CONSTANTS = (*_LITERALS, "cast")


def in_list_as_ints(node: Node, facts: Facts) -> Node:
    """Rewrite the numbers of an IN as INTs, if all are whole numbers."""
    this, listed = node.parts
    made = [_whole_number(member, this, facts) for member in listed.parts]
    if any(member is None for member in made) or made == list(listed.parts):
        return node
    members = list(dict.fromkeys(member for member in made if member is not None))
    return facts.terms.make("in", this, facts.terms.unordered("in list", members))


def _literal_beside(literal: Node, other: Node, facts: Facts) -> Node:
    if literal.tag == "lit" and int_value(literal) is not None:
        return literal
    whole = _whole_number(literal, other, facts)
    return whole if whole is not None else _instant(literal, other, facts)


def _whole_number(literal: Node, other: Node, facts: Facts) -> Node | None:
    """Return the INT that can replace a literal in a comparison with `other`, or None."""
    if literal.tag != "lit" or literal.parts[0] != "n" or other.tag == "lit":
        return None
    found = _NUMBER.fullmatch(literal.parts[1])
    try:
        value = Decimal(found[1]) if found is not None else None
    except InvalidOperation:
        return None
    if found is None or value is None or value != int(value) or abs(value) >= _LARGEST_INT:
        return None
    suffix = (found[2] or "").upper()
    floating = suffix == "D" or ("E" in found[1].upper() and suffix != "BD")
    scale = max(-int(value.as_tuple().exponent), 0)
    return facts.terms.number(int(value)) if _is_exact(other, floating, scale, facts) else None


def _is_exact(other: Node, floating: bool, scale: int, facts: Facts) -> bool:
    kind = facts.type(other)
    if kind == DOUBLE:
        return True
    if kind in WHOLE:
        # A BIGINT that a DOUBLE rounds is far from numbers of the size of an INT.
        return floating or scale <= _MOST_SCALE
    found = _DECIMAL.fullmatch(kind or "")
    if found is None or floating:
        return False
    precision, own = int(found[1]), int(found[2])
    return max(precision - own, _DIGITS_OF_INT) + max(own, scale) <= _MOST_DIGITS


_CLOCK = re.compile(r"[ T](\d\d:\d\d)(?::(\d\d)(\.\d{1,6})?)?")
_FIRST_YEAR, _LAST_YEAR = 1970, 2037
"""Range of years in which no time zone's clock jumps from before midnight to after midnight."""
_NAMES = {"TIMESTAMPTZ<>": "timestamp", "TIMESTAMPLTZ<>": "timestamp"} | {
    "TIMESTAMPNTZ<>": "timestamp_ntz"
}


def _instant(literal: Node, other: Node, facts: Facts) -> Node:
    kind = facts.type(other)
    if kind not in TIMES or other.tag in ("lit", "typed literal"):
        return literal
    name = _NAMES[kind]
    if name == "timestamp" and not facts.terms.has_zoned_timestamps:
        return literal
    text = _instant_text(literal, kind)
    return literal if text is None else facts.terms.make("typed literal", name, f"'{text}'")


def _instant_text(literal: Node, kind: str) -> str | None:
    tag, parts = literal.tag, literal.parts
    if tag == "lit":
        return _normal_instant(parts[1])
    if tag == "typed literal" and parts[0] == _NAMES[kind]:
        return _normal_instant(parts[1])
    if tag != "cast" or parts[0] or parts[2].tag != "lit":
        return None
    if parts[1] == kind:
        return _normal_instant(parts[2].parts[1])
    text = parts[2].parts[1]
    if parts[1] == DATE and is_plain_date(text):
        year = int(text[1:5])
        return text[1:-1] if _FIRST_YEAR <= year <= _LAST_YEAR else None
    return None


def _normal_instant(written: str) -> str | None:
    """Return the shortest text of a date and time without a zone, or None for other texts.

    >>> _normal_instant("'2020-01-01T00:00'"), _normal_instant("'2020-01-01 10:30'")
    ('2020-01-01', '2020-01-01 10:30:00')
    >>> _normal_instant("'2020-1-1'"), _normal_instant("'2020-01-01 25:00:00'")
    (None, None)
    """
    text = plain_string(written)
    if text is None or not is_plain_date(f"'{text[:10]}'"):
        return None
    if len(text) == len("2020-01-01"):
        return text
    found = _CLOCK.fullmatch(text[10:])
    if found is None:
        return None
    clock = f"{found[1]}:{found[2] or '00'}"
    try:
        datetime.strptime(clock, "%H:%M:%S")
    except ValueError:
        return None
    fraction = (found[3] or "").rstrip("0").rstrip(".")
    whole = f"{clock}{fraction}"
    return text[:10] if whole == "00:00:00" else f"{text[:10]} {whole}"


def _prefix(node: Node, call: Node, literal: Node, facts: Facts) -> Node:
    if call.parts[0] != "substring" or len(call.parts) != 4 or literal.tag != "lit":
        return node
    _, this, start, size = call.parts
    text = plain_string(literal.parts[1])
    if not text or not text.isascii() or facts.type(this) != TEXT:
        return node
    if int_value(start) != 1 or int_value(size) != len(text):
        return node
    made = facts.terms.make("call", "startswith", this, literal)
    return made if node.tag == "eq" else facts.terms.make("not", made)


def drop_double_casts(node: Node, facts: Facts) -> Node:
    """Rewrite ``CAST(i AS DOUBLE) / 2`` as ``i / 2``, which Spark computes with DOUBLEs."""
    named = dict(zip(node.parts[::2], node.parts[1::2], strict=True))
    this, by = named.get("this"), named.get("expression")
    if not isinstance(this, Node) or not isinstance(by, Node):
        return node
    first, second = _whole_in_double(this, facts), _whole_in_double(by, facts)
    kinds = (facts.type(first), facts.type(second))
    if (first is this and second is by) or not all(kind in (*WHOLE, DOUBLE) for kind in kinds):
        return node
    parts = [first if p is this else second if p is by else p for p in node.parts]
    return facts.terms.make("Div", *parts)


def _whole_in_double(node: Node, facts: Facts) -> Node:
    # Spark converts the operands of `/` to DOUBLE.
    if node.tag == "lit" and node.parts[0] == "n" and int_value(node) is None:
        found = _NUMBER.fullmatch(node.parts[1])
        suffix = (found[2] or "").upper() if found is not None else ""
        exact = suffix in ("L", "S", "Y", "D") or (not suffix and "E" in node.parts[1])
        value = Decimal(found[1]) if found is not None and exact else None
        # A zero may have a sign, which a quotient keeps.
        if value is not None and value and value == int(value) and abs(value) < _LARGEST_INT:
            return facts.terms.number(int(value))
        return node
    plain = node.tag == "cast" and not node.parts[0] and node.parts[1] == DOUBLE
    return node.parts[2] if plain and facts.type(node.parts[2]) in WHOLE else node


_MONTHS = re.compile(r"'?([+-]?\d{1,6})'? (MONTH|YEAR)")


def as_add_months(node: Node, facts: Facts) -> Node:
    """Rewrite ``p + INTERVAL 1 MONTH`` of a date as ``add_months(p, 1)``."""
    one, two = node.parts
    if node.tag == "add" and facts.type(two) == DATE:
        one, two = two, one
    if facts.type(one) != DATE or two.tag != "typed literal" or two.parts[0] != "interval":
        return node
    found = _MONTHS.fullmatch(two.parts[1])
    if found is None:
        return node
    months = int(found[1]) * (12 if found[2] == "YEAR" else 1)
    if node.tag == "sub":
        months = -months
    return facts.terms.make("call", "add_months", one, facts.terms.number(months))


def between_as_in(node: Node, facts: Facts) -> Node:
    """Rewrite ``i BETWEEN 1 AND 2`` as ``i IN (1, 2)``, and its negation as NOT IN."""
    if node.tag not in ("and", "or"):
        return node
    terms, turned = facts.terms, node.tag == "or"
    ends: dict[Node, dict[str, list[tuple[int, Node]]]] = {}
    for part in node.parts:
        found = _end_of_range(terms.negate(part) if turned else part, facts)
        if found is not None:
            this, side, value = found
            ends.setdefault(this, {}).setdefault(side, []).append((value, part))
    for this, sides in ends.items():
        if {side: len(found) for side, found in sides.items()} != {"low": 1, "high": 1}:
            continue
        (low, first), (high, last) = sides["low"][0], sides["high"][0]
        if 0 <= high - low <= 1:
            values = dict.fromkeys((low, high))
            equal = [terms.compare("eq", this, terms.number(value)) for value in values]
            listed = facts.combine_conditions("or", equal)
            rest = [part for part in node.parts if part is not first and part is not last]
            return facts.combine_conditions(
                node.tag, [*rest, terms.negate(listed) if turned else listed]
            )
    return node


def _end_of_range(part: Node, facts: Facts) -> tuple[Node, str, int] | None:
    if part.tag not in ("lt", "le"):
        return None
    one, two = part.parts
    strict = part.tag == "lt"
    for this, literal, side in ((two, one, "low"), (one, two, "high")):
        value = int_value(literal)
        if value is None or int_value(this) is not None or facts.type(this) not in WHOLE:
            continue
        moved = value + (strict if side == "low" else -strict)
        return (this, side, moved) if -_LARGEST_INT <= moved < _LARGEST_INT else None
    return None
