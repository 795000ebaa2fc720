"""Comparisons: with NULL, with TRUE, with itself, through casts, and lists of values.

NaN is equal to itself and above all other numbers in Spark, and 0.0 equals -0.0.
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.literals import is_plain_date, plain_string
from vde_dagster.semantics.normalise import boolean, compare, integer, negate
from vde_dagster.semantics.simplify.facts import (
    BIGINT,
    BOOL,
    DATE,
    DOUBLE,
    INT,
    TEXT,
    WHOLE,
    Facts,
    is_null,
    null_test,
    of_null,
)

_LONGEST_LIST = 40
_COMPARED_IN_ROWS = (*WHOLE, TEXT, DATE, BOOL)


def decide(node: Node, facts: Facts) -> Node:
    """A comparison that is decided, or between the values that it is about."""
    terms, tag = facts.terms, node.tag
    one, two = node.parts
    if tag in ("eq", "neq", "nseq") and _alike(one, two, facts):
        fields = zip(one.parts[2:], two.parts[2:], strict=True)
        same = [decide(terms.unordered("nseq", [a, b]), facts) for a, b in fields]
        made = facts.joined("and", same)
        return negate(terms, made) if tag == "neq" else made
    for constant, other in ((one, two), (two, one)):
        if is_null(constant) and tag == "nseq":
            return of_null(other, terms)
        if is_null(constant) and facts.never_fails(other):
            return facts.null(BOOL)
        if constant.tag == "bool" and facts.is_boolean(other) and tag in ("eq", "neq", "nseq"):
            return _with_constant(tag, other, constant, facts)
    if one is two and facts.never_fails(one) and (tag == "nseq" or facts.never_null(one)):
        return boolean(terms, tag in ("eq", "le", "nseq"))
    if tag == "nseq" and facts.never_null(one) and facts.never_null(two):
        tag = "eq"
    first, second = _uncast(one, two, facts), _uncast(two, one, facts)
    return compared(tag, first, second, facts)


def _alike(one: Node, two: Node, facts: Facts) -> bool:
    """Whether two are rows of values, ``(i, j) = (1, 2)``, which are compared one by one."""
    if not one.tag == two.tag == "Tuple" or len(one.parts) != len(two.parts):
        return False
    fields = zip(one.parts[2:], two.parts[2:], strict=True)
    pairs = [(facts.type(a), facts.type(b)) for a, b in fields]
    return all(a == b and a in _COMPARED_IN_ROWS for a, b in pairs)


def _with_constant(tag: str, other: Node, constant: Node, facts: Facts) -> Node:
    """A comparison of a condition with TRUE or FALSE."""
    terms = facts.terms
    same = constant.parts[0] is (tag != "neq")
    if tag != "nseq" or facts.never_null(other):
        return other if same else negate(terms, other)
    turned = negate(terms, other)
    if not same and turned.tag != "not":
        return terms.unordered("nseq", [turned, boolean(terms, True)])
    return terms.unordered("nseq", [other, constant])


def _uncast(node: Node, other: Node, facts: Facts) -> Node:
    """An operand without a cast that comparing it with the other makes by itself."""
    if node.tag not in ("cast", "lit"):
        return node
    kind = facts.type(other)
    while node.tag == "cast" and facts.widens(node) and not is_null(node):
        inner = facts.type(node.parts[2])
        if inner not in WHOLE or kind not in (*WHOLE, DOUBLE):
            break
        if facts.type(node) == DOUBLE and kind != DOUBLE:
            break
        node = node.parts[2]
    if node.tag == "lit" and kind in WHOLE and node.parts[1].endswith("L"):
        short = facts.terms.make("lit", "n", node.parts[1][:-1])
        return short if integer(short) is not None else node
    if node.tag == "lit" and kind in (INT, BIGINT):
        return _as_number(node, facts)
    if kind == DATE and node.tag == "cast" and node.parts[1] == DATE:
        of = node.parts[2]
        return of if of.tag == "lit" and is_plain_date(of.parts[1]) else node
    return node


def _as_number(node: Node, facts: Facts) -> Node:
    """A text of digits that is compared with whole numbers as the number that it is."""
    digits = plain_string(node.parts[1])
    made = facts.terms.make("lit", "n", digits) if digits is not None else None
    exact = made is not None and str(integer(made)) == digits
    return made if exact and made is not None else node


def compared(tag: str, one: Node, two: Node, facts: Facts) -> Node:
    """A comparison of two expressions, decided where both are plain literals.

    Texts without escapes are compared by their bytes in UTF-8, as Python compares them.
    """
    if one.tag == two.tag == "lit":
        a, b = plain_string(one.parts[1]), plain_string(two.parts[1])
        if a is not None and b is not None:
            results = {"eq": a == b, "nseq": a == b, "neq": a != b, "lt": a < b, "le": a <= b}
            return boolean(facts.terms, results[tag])
    return compare(facts.terms, tag, one, two)


def ask_null(node: Node, facts: Facts) -> Node:
    """IS NULL of what is or is not, and IS TRUE as the comparison that it is."""
    terms = facts.terms
    asked = null_test(node)
    if asked is None:
        parts = [p for p in node.parts if p.__class__ is Node]
        if len(parts) == 2 and parts[0].tag == "bool" and facts.is_boolean(parts[1]):
            return terms.unordered("nseq", parts)
        return node
    if is_null(asked):
        return boolean(terms, True)
    if facts.never_null(asked) and facts.never_fails(asked):
        return boolean(terms, False)
    if asked.tag == "cast" and facts.widens(asked):
        return of_null(asked.parts[2], terms)
    if asked.tag == "case":
        return _of_choice(asked, facts) or node
    return _of_first_present(asked, facts) or node


def _of_choice(asked: Node, facts: Facts) -> Node | None:
    """IS NULL of a CASE whose values are either NULL or never."""
    parts = list(asked.parts)
    values = [*range(1, len(parts), 2), *([len(parts) - 1] if len(parts) % 2 else [])]
    for i in values:
        null, value = is_null(parts[i]), parts[i]
        if not null and not (facts.never_null(value) and facts.never_fails(value)):
            return None
        parts[i] = boolean(facts.terms, null)
    other = [] if len(parts) % 2 else [boolean(facts.terms, True)]
    return facts.terms.make("case", *parts, *other)


def _of_first_present(asked: Node, facts: Facts) -> Node | None:
    if asked.tag != "call" or asked.parts[0] != "coalesce" or not facts.never_fails(asked):
        return None
    tests = [of_null(argument, facts.terms) for argument in asked.parts[1:]]
    return facts.joined("and", tests)


def among(node: Node, facts: Facts) -> Node:
    """IN of values as the comparisons that it stands for, where none converts another way."""
    this, listed = node.parts
    members = listed.parts
    if len(members) > _LONGEST_LIST or not all(_is_value(this, m, facts) for m in members):
        return node
    made = [decide(facts.terms.unordered("eq", [this, m]), facts) for m in members]
    return facts.joined("or", made)


def _is_value(this: Node, member: Node, facts: Facts) -> bool:
    if is_null(member):
        return facts.never_fails(this)
    kind = facts.type(this)
    if member.tag == "lit" and kind in (*WHOLE, DOUBLE) and integer(member) is not None:
        return True
    if member.tag == "Tuple":
        return _alike(this, member, facts)
    if member.tag == "lit" and kind in (INT, BIGINT):
        return _as_number(member, facts) is not member
    if kind == DATE:
        text = member.parts[2] if member.tag == "cast" and member.parts[1] == DATE else member
        return text.tag == "lit" and is_plain_date(text.parts[1])
    return kind == TEXT and member.tag == "lit" and facts.type(member) == TEXT
