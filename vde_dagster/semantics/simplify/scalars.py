"""Rules for casts, arithmetic, text functions, and parts of structs and arrays.

These expressions stay unchanged: ``x + 0`` of floats, because it turns -0.0 into 0.0; ``x * 0``,
because x can be NULL or NaN; and sums, because another order may overflow. (Spark:
`LikeSimplification`, `CombineConcats`, `ParseToDate`, `Extract`,
`SimplifyCaseConversionExpressions`, `BinaryArithmeticWithDatetimeResolver`.)
"""

from __future__ import annotations

import re

from vde_dagster.semantics.algebra.nodes import Node, int_value, plain_string
from vde_dagster.semantics.simplify.facts import (
    BIGINT,
    BOOL,
    DATE,
    DOUBLE,
    INT,
    TEXT,
    TIMES,
    TIMESTAMP,
    WHOLE,
    Facts,
    is_null,
)

_NUMBERS = (*WHOLE, DOUBLE)
_WHOLE_NUMBER = re.compile(r"-?[0-9]+")


def simplify_cast(node: Node, facts: Facts) -> Node:
    """Simplify a cast of NULL, of a literal or of another cast, and a cast to the same type."""
    this: Node
    safe, target, this = node.parts
    terms = facts.terms
    if this.tag == "Null":
        return terms.make("cast", False, target, this) if safe else node
    if is_null(this):
        return (
            terms.make("cast", False, target, terms.make("Null"))
            if facts.is_lossless_cast(node)
            else node
        )
    if facts.type(node) is None:
        return node
    if facts.type(this) == target:
        return this
    if safe and facts.is_lossless_cast(node):
        return terms.make("cast", False, target, this)
    exact = this.tag == "cast" and facts.type(this) in WHOLE and facts.is_lossless_cast(this)
    if exact and (target in (*WHOLE, TEXT, DOUBLE) or target.startswith("DECIMAL")):
        return terms.make("cast", safe, target, this.parts[2])
    return _cast_literal(target, this, facts) or node


def _cast_literal(target: str, this: Node, facts: Facts) -> Node | None:
    if this.tag != "lit":
        return None
    value = int_value(this)
    if value is not None and target in (BIGINT, TEXT):
        text = f"{value}L" if target == BIGINT else f"'{value}'"
        return facts.terms.make("lit", "n" if target == BIGINT else "s", text)
    digits = plain_string(this.parts[1])
    if target != INT or digits is None or not _WHOLE_NUMBER.fullmatch(digits):
        return None
    made = facts.terms.number(int(digits))
    return made if int_value(made) is not None else None


def simplify_arithmetic(node: Node, facts: Facts) -> Node:
    """Simplify ``x + NULL``, ``x + 0`` and ``x * 1``, and rewrite ``x - 5`` as ``x + -5``."""
    tag = node.tag
    one: Node
    two: Node
    one, two = node.parts
    for constant, other in ((one, two), (two, one)):
        if constant.tag not in ("lit", "Null"):
            continue
        kind = facts.type(other)
        if kind not in _NUMBERS:
            continue
        if constant.tag == "Null" and facts.never_fails(other):
            return facts.typed_null(kind)
        if constant.tag == "Null" or (tag == "sub" and constant is not two):
            continue
        value = int_value(constant)
        changes_type = kind not in (INT, BIGINT, DOUBLE)
        if value is None or changes_type:
            continue
        if value == 0 and (tag == "sub" or (tag == "add" and kind != DOUBLE)):
            return other
        if value == 1 and tag == "mul":
            return other
        if tag == "sub" and -value in range(-(2**31), 2**31) and value:
            return facts.terms.arithmetic("add", other, facts.terms.number(-value))
    return node


def simplify_division(node: Node, facts: Facts) -> Node:
    named = dict(zip(node.parts[::2], node.parts[1::2], strict=True))
    one, this = named.get("expression"), named.get("this")
    by_one = one is not None and this is not None and int_value(one) == 1
    return this if by_one and this is not None and facts.type(this) == DOUBLE else node


def simplify_negation(node: Node, facts: Facts) -> Node:
    """Simplify ``-(-x)`` of a DOUBLE and ``+x`` of a number to ``x``."""
    inner = node.parts[-1]
    if inner.tag == "Null":
        return facts.typed_null(DOUBLE)
    # The minimum of an integer type cannot be negated.
    if node.tag == "neg":
        # The minus of a STRING is a DOUBLE, so the operand's own type decides.
        twice = inner.tag == "neg" and facts.type(inner.parts[0]) == DOUBLE
        return inner.parts[0] if twice else node
    return inner if facts.type(inner) in _NUMBERS else node


_JOINED = {TEXT, DATE, BOOL, DOUBLE, "FLOAT<>", *WHOLE, *TIMES}
_TWICE_AS_ONCE = frozenset({"lower", "upper", "trim", "ltrim", "rtrim"})


def simplify_like(node: Node, facts: Facts) -> Node:
    """Rewrite ``s LIKE 'ab%'`` as ``startswith(s, 'ab')``, and similarly for `%` at both ends."""
    _, pattern, _, this = node.parts if len(node.parts) == 4 else (None, None, None, None)
    if pattern is None or this is None:
        return node
    if pattern.tag in ("Any", "All"):
        return _each(node, pattern, this, facts)
    if is_null(pattern) and facts.never_fails(this):
        return facts.typed_null(BOOL)
    text = plain_string(pattern.parts[1]) if pattern.tag == "lit" else None
    if text is None or "_" in text or facts.type(this) != TEXT:
        return node
    inner = text.strip("%")
    if "%" in inner or not inner:
        return facts.terms.compare("eq", this, pattern) if not text else node
    made = facts.terms.make("lit", "s", f"'{inner}'")
    starts, ends = not text.startswith("%"), not text.endswith("%")
    if starts and ends:
        return facts.terms.compare("eq", this, made)
    name = "startswith" if starts else "endswith" if ends else "contains"
    return facts.terms.make("call", name, this, made)


def matches_all(node: Node) -> bool:
    pattern = node.parts[1] if len(node.parts) == 4 else None
    text = plain_string(pattern.parts[1]) if pattern is not None and pattern.tag == "lit" else None
    return text is not None and text != "" and not text.strip("%")


def _each(node: Node, patterns: Node, this: Node, facts: Facts) -> Node:
    listed = [p for p in patterns.parts if p.__class__ is Node]
    members = [p for one in listed for p in one.parts if p.__class__ is Node]
    if len(listed) != 1 or listed[0].tag != "Tuple" or not members:
        return node
    made = [
        simplify_like(facts.terms.make("Like", "expression", pattern, "this", this), facts)
        for pattern in members
    ]
    return facts.combine_conditions("or" if patterns.tag == "Any" else "and", made)


def negate_each_like(node: Node, facts: Facts) -> Node:
    """Rewrite ``s NOT LIKE ALL (a, b)`` as ``NOT s LIKE a AND NOT s LIKE b``, and ANY with OR."""
    # NOT LIKE ALL joins the negations by AND, and NOT LIKE ANY joins them by OR.
    inner = node.parts[0]
    if inner.tag not in ("and", "or"):
        return node
    return facts.combine_conditions(inner.tag, [facts.terms.negate(p) for p in inner.parts])


def simplify_concat(node: Node, facts: Facts) -> Node:
    flat: list[Node] = []
    for argument in node.parts[1:]:
        nested = argument.tag == "call" and argument.parts[0] == "concat"
        flat += argument.parts[1:] if nested else [argument]
    flat = [_as_text(argument, facts) for argument in flat]
    if any(facts.type(argument) not in _JOINED for argument in flat):
        return node
    made: list[Node] = []
    for argument in flat:
        last, text = _text(made[-1]) if made else None, _text(argument)
        if last is not None and text is not None:
            made[-1] = facts.terms.make("lit", "s", f"'{last}{text}'")
        else:
            made.append(argument)
    if len(made) == 1 and facts.type(made[0]) == TEXT:
        return made[0]
    return facts.terms.make("call", "concat", *made)


def _as_text(node: Node, facts: Facts) -> Node:
    # CONCAT casts its arguments anyway.
    if node.tag == "cast" and not node.parts[0] and node.parts[1] == TEXT:
        return node.parts[2] if facts.type(node.parts[2]) in _JOINED else node
    number = int_value(node)
    return node if number is None else facts.terms.make("lit", "s", f"'{number}'")


def _text(node: Node) -> str | None:
    return plain_string(node.parts[1]) if node.tag == "lit" else None


def drop_repeated_call(node: Node, facts: Facts) -> Node:
    """Simplify ``upper(upper(s))`` to ``upper(s)``, and similarly for functions like TRIM."""
    name, *arguments = node.parts
    inner = arguments[0] if len(arguments) == 1 else None
    if name not in _TWICE_AS_ONCE or inner is None or inner.__class__ is not Node:
        return node
    again = inner.tag == "call" and inner.parts[0] == name and len(inner.parts) == 2
    return inner if again and facts.type(inner) == TEXT else node


def pick_field(node: Node, facts: Facts) -> Node:
    """Simplify ``struct(a AS x).x`` to ``a``."""
    name, made = node.parts
    if made.tag != "call" or made.parts[0] != "struct":
        return node
    names, values = made.parts[1::2], made.parts[2::2]
    if len(names) != len(values) or any(n.__class__ is not str for n in names):
        return node
    # Spark ignores the case of field names.
    found = [i for i, n in enumerate(names) if n.lower() == name.lower()]
    if len(found) != 1 or not all(map(facts.never_fails, values)):
        return node
    value: Node = values[found[0]]
    return value


def pick_element(node: Node, facts: Facts) -> Node:
    """Simplify ``array(a, b)[0]`` to ``a``, if all elements have the same type."""
    made, at = node.parts
    place = int_value(at)
    if made.tag != "call" or made.parts[0] != "array" or place is None:
        return node
    elements = list(made.parts[1:])
    if not 0 <= place < len(elements) or facts.common_type(elements) is None:
        return node
    element: Node = elements[place]
    if element.tag == "Null" or not all(map(facts.never_fails, elements)):
        return node
    return element


_FIELDS = {
    **dict.fromkeys(("year", "quarter", "month", "day", "dayofweek", "hour", "minute"), ""),
    "week": "weekofyear",
    "doy": "dayofyear",
}
"""Name of the function that extracts a unit, by unit; "" if it is the name of the unit."""
_MADE = {"to_date": DATE, "to_timestamp": TIMESTAMP}
_DAYS = re.compile(r"'?\s*([+-]?[0-9]{1,8})\s*'?\s+(DAY|WEEK)S?\s*'?", re.IGNORECASE)
_COUNTS = WHOLE[:-1]
"""Types of numbers that can be added to a date in Spark."""


def as_date_add(node: Node, facts: Facts) -> Node:
    """Rewrite ``p + 1``, ``p + INTERVAL 1 DAY`` and ``date_sub(p, -1)`` as ``date_add(p, 1)``."""
    terms = facts.terms
    if node.tag == "call":
        days = int_value(node.parts[2]) if len(node.parts) == 3 else None
        if node.parts[0] != "date_sub" or days is None or days == -(2**31):
            return node
        return terms.make("call", "date_add", node.parts[1], terms.number(-days))
    one, two = node.parts
    if node.tag == "add" and facts.type(two) == DATE:
        one, two = two, one
    if facts.type(one) != DATE:
        return node
    counted = _days(two, facts)
    if counted is None:
        return node
    name = "date_add" if node.tag == "add" else "date_sub"
    return as_date_add(terms.make("call", name, one, counted), facts)


def _days(node: Node, facts: Facts) -> Node | None:
    """Return the days of a whole number or an interval of days or weeks; None for other nodes."""
    if facts.type(node) in _COUNTS:
        return node
    if node.tag != "typed literal" or node.parts[0] != "interval":
        return None
    found = _DAYS.fullmatch(node.parts[1])
    if found is None:
        return None
    days = int(found[1]) * (7 if found[2].upper() == "WEEK" else 1)
    return facts.terms.number(days)


def extract_as_function(node: Node, facts: Facts) -> Node:
    """Rewrite ``extract(YEAR FROM p)`` and ``date_part('year', p)`` as ``year(p)``."""
    if len(node.parts) != 3 or node.parts[1].tag != "unit":
        return node
    field, of = node.parts[1].parts[0], node.parts[2]
    if field not in _FIELDS or facts.type(of) not in (DATE, *TIMES):
        return node
    return facts.terms.make("call", _FIELDS[field] or field, of)


def to_date_as_cast(node: Node, facts: Facts) -> Node:
    """Rewrite ``to_date(q)`` and ``to_timestamp(q)`` without a format as casts."""
    if len(node.parts) != 2 or facts.type(node.parts[1]) not in (DATE, TEXT, *TIMES):
        return node
    return facts.terms.make("cast", False, _MADE[node.parts[0]], node.parts[1])
