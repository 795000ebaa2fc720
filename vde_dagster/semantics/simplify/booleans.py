"""Rules for comparisons, AND, OR and NOT, and for conditions that treat NULL like FALSE.

In Spark, NaN equals itself and is above all other numbers, and 0.0 equals -0.0. Three-valued logic
is a distributive lattice, so the rules of AND, OR and NOT hold for NULLs, too. NULL acts like FALSE
in WHERE, ON, HAVING, FILTER and after WHEN. (Spark: `BooleanSimplification` without rules that fail
for NULLs; `ReplaceNullWithFalseInPredicate`, `SimplifyConditionalsInPredicate`.)
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import (
    COMPARED,
    Node,
    case_values,
    int_value,
    is_false,
    is_plain_date,
    null_test_operand,
    plain_string,
)
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
    map_case_values,
)
from vde_dagster.semantics.simplify.scalars import matches_all

_LONGEST_LIST = 40
_COMPARED_IN_ROWS = (*WHOLE, TEXT, DATE, BOOL)


def simplify_comparison(node: Node, facts: Facts) -> Node:
    """Simplify a comparison, for example `i = i + 0` or `1 < 2`."""
    terms, tag = facts.terms, node.tag
    one, two = node.parts
    if tag in ("eq", "neq", "nseq") and _alike(one, two, facts):
        fields = zip(one.parts[2:], two.parts[2:], strict=True)
        same = [simplify_comparison(terms.unordered("nseq", [a, b]), facts) for a, b in fields]
        made = facts.combine_conditions("and", same)
        return terms.negate(made) if tag == "neq" else made
    for constant, other in ((one, two), (two, one)):
        if is_null(constant) and facts.comparable(one, two):
            if tag == "nseq":
                return terms.is_null(other)
            if facts.never_fails(other):
                return facts.typed_null(BOOL)
        if constant.tag == "bool" and facts.is_boolean(other) and tag in ("eq", "neq", "nseq"):
            return _with_constant(tag, other, constant, facts)
    if one is two and facts.never_fails(one) and (tag == "nseq" or facts.never_null(one)):
        return terms.boolean(tag in ("eq", "le", "nseq"))
    present = tag == "nseq" and facts.never_null(one) and facts.never_null(two)
    if present and _keeps_presence(one, two, facts):
        tag = "eq"
    first, second = _uncast(one, two, facts), _uncast(two, one, facts)
    return make_comparison(tag, first, second, facts)


def _keeps_presence(one: Node, two: Node, facts: Facts) -> bool:
    if facts.comparable(one, two):
        return True
    for constant, other in ((one, two), (two, one)):
        text = constant.parts[2] if constant.tag == "cast" else constant
        if facts.type(other) == DATE and text.tag == "lit" and is_plain_date(text.parts[1]):
            return constant is text or constant.parts[1] == DATE
    return False


def _alike(one: Node, two: Node, facts: Facts) -> bool:
    if not one.tag == two.tag == "Tuple" or len(one.parts) != len(two.parts):
        return False
    fields = zip(one.parts[2:], two.parts[2:], strict=True)
    pairs = [(facts.type(a), facts.type(b)) for a, b in fields]
    return all(a == b and a in _COMPARED_IN_ROWS for a, b in pairs)


def _with_constant(tag: str, other: Node, constant: Node, facts: Facts) -> Node:
    terms = facts.terms
    same = constant.parts[0] is (tag != "neq")
    if tag != "nseq" or facts.never_null(other):
        return other if same else terms.negate(other)
    turned = terms.negate(other)
    if not same and turned.tag != "not":
        return terms.unordered("nseq", [turned, terms.boolean(True)])
    return terms.unordered("nseq", [other, constant])


def _uncast(node: Node, other: Node, facts: Facts) -> Node:
    """Remove a cast from an operand if the comparison with `other` implies the cast."""
    if node.tag not in ("cast", "lit"):
        return node
    kind = facts.type(other)
    while node.tag == "cast" and facts.is_lossless_cast(node) and not is_null(node):
        inner = facts.type(node.parts[2])
        if inner not in WHOLE or kind not in (*WHOLE, DOUBLE):
            break
        if facts.type(node) == DOUBLE and kind != DOUBLE:
            break
        node = node.parts[2]
    if node.tag == "lit" and kind in WHOLE and node.parts[1].endswith("L"):
        short = facts.terms.number(node.parts[1][:-1])
        return short if int_value(short) is not None else node
    if node.tag == "lit" and kind in (INT, BIGINT):
        return _as_number(node, facts)
    if kind == DATE and node.tag == "cast" and node.parts[1] == DATE:
        text = node.parts[2]
        return text if text.tag == "lit" and is_plain_date(text.parts[1]) else node
    return node


def _as_number(node: Node, facts: Facts) -> Node:
    digits = plain_string(node.parts[1])
    made = facts.terms.number(digits) if digits is not None else None
    exact = made is not None and str(int_value(made)) == digits
    return made if exact and made is not None else node


def make_comparison(tag: str, one: Node, two: Node, facts: Facts) -> Node:
    if one.tag == two.tag == "lit":
        a, b = plain_string(one.parts[1]), plain_string(two.parts[1])
        if a is not None and b is not None:
            # Texts without escapes are compared by their bytes in UTF-8, as in Python.
            results = {"eq": a == b, "nseq": a == b, "neq": a != b, "lt": a < b, "le": a <= b}
            return facts.terms.boolean(results[tag])
    return facts.terms.compare(tag, one, two)


def simplify_is_null(node: Node, facts: Facts) -> Node:
    """Simplify IS TRUE, and IS NULL of expressions that are always or never NULL."""
    terms = facts.terms
    asked = null_test_operand(node)
    if asked is None:
        parts = [p for p in node.parts if p.__class__ is Node]
        if len(parts) == 2 and parts[0].tag == "bool" and facts.is_boolean(parts[1]):
            return terms.unordered("nseq", parts)
        return node
    if is_null(asked):
        return terms.boolean(True) if facts.never_fails(asked) else node
    if facts.never_null(asked) and facts.never_fails(asked):
        return terms.boolean(False)
    if asked.tag == "cast" and facts.is_lossless_cast(asked):
        return terms.is_null(asked.parts[2])
    if asked.tag == "case":
        return _case_is_null(asked, facts) or node
    return _coalesce_is_null(asked, facts) or node


def _case_is_null(asked: Node, facts: Facts) -> Node | None:
    values = case_values(asked)
    if facts.common_type(values) is None and any(value.tag != "Null" for value in values):
        return None

    def nullness(value: Node) -> Node | None:
        null = is_null(value)
        known = null or (facts.never_null(value) and facts.never_fails(value))
        return facts.terms.boolean(null) if known else None

    return map_case_values(asked, nullness, facts.terms.boolean(True), facts.terms)


def _coalesce_is_null(asked: Node, facts: Facts) -> Node | None:
    if asked.tag != "call" or asked.parts[0] != "coalesce" or not facts.never_fails(asked):
        return None
    tests = [facts.terms.is_null(argument) for argument in asked.parts[1:]]
    return facts.combine_conditions("and", tests)


def in_list_as_or(node: Node, facts: Facts) -> Node:
    """Rewrite ``x IN (1, 2)`` as ``x = 1 OR x = 2``, unless Spark converts types differently."""
    this, listed = node.parts
    members = listed.parts
    if len(members) > _LONGEST_LIST or not all(_is_value(this, m, facts) for m in members):
        return node
    made = [simplify_comparison(facts.terms.unordered("eq", [this, m]), facts) for m in members]
    return facts.combine_conditions("or", made)


def _is_value(this: Node, member: Node, facts: Facts) -> bool:
    if is_null(member):
        return facts.comparable(this, member) and facts.never_fails(this)
    kind = facts.type(this)
    if member.tag == "lit" and kind in (*WHOLE, DOUBLE) and int_value(member) is not None:
        return True
    if member.tag == "Tuple":
        return _alike(this, member, facts)
    if member.tag == "lit" and kind in (INT, BIGINT):
        return _as_number(member, facts) is not member
    if kind == DATE:
        text = member.parts[2] if member.tag == "cast" and member.parts[1] == DATE else member
        return text.tag == "lit" and is_plain_date(text.parts[1])
    return kind == TEXT and member.tag == "lit" and facts.type(member) == TEXT


_DUAL = {"and": "or", "or": "and"}
_MOST = 32


def simplify_and_or(node: Node, facts: Facts) -> Node:
    """Simplify ``p AND (p OR q)`` to ``p``, and factor out common operands."""
    tag = node.tag
    node = facts.combine_conditions(tag, list(node.parts))
    if node.tag != tag or not any(p.tag == _DUAL[tag] for p in node.parts):
        return node
    if len(node.parts) > _MOST:
        return node
    inside = {p: set(p.parts) if p.tag == _DUAL[tag] else {p} for p in node.parts}
    kept = [
        p
        for p in node.parts
        if not any(
            inside[q] < inside[p] and all(map(facts.is_total, inside[p] - inside[q]))
            for q in inside
        )
    ]
    if tag == "and" or len(kept) < 2 or any(p.tag != "and" for p in kept):
        return facts.combine_conditions(tag, kept)
    shared = set.intersection(*(inside[p] for p in kept))
    if not shared:
        return facts.combine_conditions(tag, kept)
    rest = [
        facts.combine_conditions("and", [p for p in one.parts if p not in shared]) for one in kept
    ]
    ordered = [p for p in kept[0].parts if p in shared]
    return facts.combine_conditions("and", [*ordered, facts.combine_conditions("or", rest)])


def push_down_not(node: Node, facts: Facts) -> Node:
    terms = facts.terms
    inner: Node = node.parts[0]
    if is_null(inner) and facts.is_condition(inner):
        return facts.typed_null(BOOL)
    if inner.tag == "not" and facts.is_boolean(inner.parts[0]):
        twice: Node = inner.parts[0]
        return twice
    if inner.tag in _DUAL and all(map(facts.is_boolean, inner.parts)):
        turned = [push_down_not(terms.make("not", p), facts) for p in inner.parts]
        return facts.combine_conditions(_DUAL[inner.tag], turned)
    return terms.negate(inner)


def simplify_condition(node: Node, facts: Facts) -> Node:
    """Simplify a condition that treats NULL as FALSE, such as a condition in WHERE."""
    terms, tag, parts = facts.terms, node.tag, node.parts
    if is_null(node) and facts.is_condition(node):
        return terms.boolean(False)
    if tag in ("and", "or"):
        made = facts.combine_conditions(tag, [simplify_condition(p, facts) for p in parts])
        return _without_contradiction(made, facts) if made.tag == "and" else made
    if tag == "case":
        return _choice(node, facts)
    if tag == "nseq":
        return _same(node, facts)
    if tag == "Like" and matches_all(node):
        return terms.negate(terms.is_null(parts[-1]))
    if tag in COMPARED and any(p.tag == "call" and p.parts[0] == "coalesce" for p in parts):
        return _with_default(node, facts)
    if tag in COMPARED and parts[0] is parts[-1] and facts.never_fails(node):
        if tag in ("neq", "lt"):
            return terms.boolean(False)
        return terms.negate(terms.is_null(parts[0]))
    return node


def _same(node: Node, facts: Facts) -> Node:
    one, two = node.parts
    for constant, other in ((one, two), (two, one)):
        if constant.tag == "bool" and constant.parts[0] and facts.is_boolean(other):
            return simplify_condition(other, facts)
        if facts.never_null(constant) and _keeps_presence(one, two, facts):
            return facts.terms.compare("eq", one, two)
    return node


def _with_default(node: Node, facts: Facts) -> Node:
    # The comparison with the default, 0 > 1, is known to be false.
    terms = facts.terms
    for i, (one, other) in enumerate((node.parts, node.parts[::-1])):
        if one.tag != "call" or len(one.parts) != 3 or other.tag != "lit":
            continue
        _, this, default = one.parts
        if default.tag != "lit" or not facts.comparable(this, default):
            continue
        known = make_comparison(
            node.tag, *((default, other) if i == 0 else (other, default)), facts
        )
        if known.tag == "bool" and facts.comparable(this, other):
            made = terms.compare(node.tag, *((this, other) if i == 0 else (other, this)))
            return (
                facts.combine_conditions("or", [made, terms.is_null(this)])
                if known.parts[0]
                else made
            )
    return node


def _choice(node: Node, facts: Facts) -> Node:
    terms, parts = facts.terms, node.parts
    listed = _listed(node, facts)
    if listed is not None:
        return listed
    if not 1 < len(parts) < 4 or not all(facts.is_boolean(p) or is_null(p) for p in parts[1:]):
        return node
    condition = parts[0]
    yes = simplify_condition(parts[1], facts)
    no = simplify_condition(parts[2], facts) if len(parts) == 3 else terms.boolean(False)
    if not all(map(facts.is_total, (condition, yes, no))):
        # A CASE keeps its values from rows of other conditions; operands of AND have no order.
        return terms.make("case", condition, yes, no)
    if is_false(no):
        return facts.combine_conditions("and", [condition, yes])
    if yes.tag == "bool" and yes.parts[0]:
        return facts.combine_conditions("or", [condition, no])
    if facts.never_null(condition):
        turned = terms.negate(condition)
        if yes.tag == "bool":
            return facts.combine_conditions("and", [turned, no])
        if no.tag == "bool":
            return facts.combine_conditions("or", [turned, yes])
    return terms.make("case", condition, yes, no)


def _listed(node: Node, facts: Facts) -> Node | None:
    """Simplify ``CASE x WHEN 1 THEN TRUE WHEN 2 THEN FALSE … END`` to an OR of its true cases."""
    values = case_values(node)
    if len(values) < 3 or not all(v.tag == "bool" or is_null(v) for v in values):
        return None
    otherwise = values.pop() if len(node.parts) % 2 else None
    if otherwise is not None and otherwise.tag == "bool" and otherwise.parts[0]:
        return None
    asked: dict[Any, tuple[Node, Node]] = {}
    of: set[Node] = set()
    for condition, value in zip(node.parts[::2], values, strict=False):
        literal = [p for p in condition.parts if p.__class__ is Node and p.tag == "lit"]
        if condition.tag != "eq" or len(literal) != 1 or not facts.never_fails(condition):
            return None
        of.update(p for p in condition.parts if p is not literal[0])
        # Two literals may be one value: the first of them counts.
        number, text = int_value(literal[0]), plain_string(literal[0].parts[1])
        asked.setdefault(text if number is None else number, (condition, value))
    if len(of) != 1 or len({type(value) for value in asked} | {type(None)}) != 2 or None in asked:
        return None
    true = [c for c, value in asked.values() if value.tag == "bool" and value.parts[0]]
    return facts.combine_conditions("or", true)


def _without_contradiction(node: Node, facts: Facts) -> Node:
    """Simplify contradictions: `p AND NOT p` is never true, `p AND (NOT p OR q)` is `p AND q`."""
    terms = facts.terms
    given = set(node.parts)
    turned = {terms.negate(p) for p in node.parts}
    if given & turned:
        return facts.combine_conditions("and", [*node.parts, terms.boolean(False)])
    kept: list[Node] = []
    for part in node.parts:
        if part.tag == "or":
            left = [p for p in part.parts if p not in turned]
            part = facts.combine_conditions("or", left) if len(left) < len(part.parts) else part
        kept.append(part)
    return facts.combine_conditions("and", kept)
