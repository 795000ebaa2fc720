"""Rules for choices (CASE, IF, COALESCE, DECODE), such as dropping branches that are never taken.

A value is dropped only if all values have the same type, because a choice has their common type. An
untyped NULL fits any type. (Spark: `SimplifyConditionals`, `NullPropagation`,
`PushFoldableIntoBranches`.)
"""

from __future__ import annotations

from typing import Any

from vde_dagster.semantics.algebra.nodes import Node, int_value, null_test_operand, plain_string
from vde_dagster.semantics.simplify.booleans import make_comparison
from vde_dagster.semantics.simplify.facts import BOOL, INT, TEXT, Facts, is_null, map_case_values
from vde_dagster.semantics.spark_functions import DEFAULTS

Branch = tuple[Node, Node]


def simplify_case(node: Node, facts: Facts) -> Node:
    branches, other = _parts(node, facts)
    values = [*(value for _, value in branches), other]
    if len(set(values)) > 1 and facts.common_type(values) is None:
        return node
    branches, other = _reachable(branches, other, facts)
    if other.tag == "case":
        more, other = _parts(other, facts)
        branches += more
    branches = _merged(_sorted(branches, facts), facts)
    while branches and _alike(branches[-1][1], other) and facts.is_total(branches[-1][0]):
        branches.pop()
    if not branches:
        kind = facts.common_type(values)
        return facts.typed_null(kind) if other.tag == "Null" and kind is not None else other
    short = _in_short(*branches[0], other, facts) if len(branches) == 1 else None
    if short is not None:
        return short
    parts = [part for branch in branches for part in branch]
    # A missing ELSE is NULL, unless its type is all there is of the type of the whole.
    untyped = all(value.tag == "Null" for _, value in branches)
    return facts.terms.make("case", *parts, *([other] if untyped or not is_null(other) else []))


def _parts(node: Node, facts: Facts) -> tuple[list[Branch], Node]:
    parts = list(node.parts)
    other = parts.pop() if len(parts) % 2 else facts.terms.make("Null")
    return list(zip(parts[::2], parts[1::2], strict=True)), other


def _reachable(branches: list[Branch], other: Node, facts: Facts) -> tuple[list[Branch], Node]:
    kept: list[Branch] = []
    for at, (condition, value) in enumerate(branches):
        if condition.tag == "bool" and condition.parts[0]:
            if all(facts.is_condition(c) for c, _ in branches[at:]):
                return kept, value
            return [*kept, *branches[at:]], other
        # Other CASEs stay as they are, because Spark refuses conditions that are not boolean.
        null = is_null(condition) and facts.is_condition(condition)
        if not (condition.tag == "bool" or null):
            kept.append((condition, value))
    return kept, other


def _sorted(branches: list[Branch], facts: Facts) -> list[Branch]:
    made: list[Branch] = []
    run: list[tuple[Any, Branch]] = []
    compared: Any = None
    for branch in [*branches, None]:
        asked = _compared_literal(branch[0], facts) if branch is not None else None
        if run and (asked is None or asked[0] != compared):
            made += [one for _, one in sorted(run, key=lambda found: found[0])]
            run = []
        if asked is None or branch is None:
            made += [branch] if branch is not None else []
        else:
            compared = asked[0]
            run.append((asked[1], branch))
    return made


def _compared_literal(condition: Node, facts: Facts) -> tuple[Any, Any] | None:
    """Return the expression and the literal of a condition like ``x = 1``, or None."""
    if condition.tag != "eq" or not facts.never_fails(condition):
        return None
    for one, other in (condition.parts, condition.parts[::-1]):
        if one.tag == "lit" and other.tag != "lit":
            number, text = int_value(one), plain_string(one.parts[1])
            value = text if number is None else number
            return None if value is None else ((other, type(value)), value)
    return None


def _merged(branches: list[Branch], facts: Facts) -> list[Branch]:
    made: list[Branch] = []
    for condition, value in branches:
        if any(condition is earlier for earlier, _ in made):
            continue
        safe = all(map(facts.is_total, (condition, made[-1][0]))) if made else False
        if safe and _alike(made[-1][1], value):
            condition = facts.combine_conditions("or", [made.pop()[0], condition])
        made.append((condition, value))
    return made


def _alike(one: Node, two: Node) -> bool:
    return one is two or (is_null(one) and is_null(two))


def _in_short(condition: Node, value: Node, other: Node, facts: Facts) -> Node | None:
    terms = facts.terms
    if value.tag == other.tag == "bool" and value != other and facts.is_boolean(condition):
        true = make_is_true(condition, facts)
        return true if value.parts[0] else terms.negate(true)
    tested = null_test_operand(condition)
    if tested is not None and tested is other and not is_null(value):
        return simplify_coalesce(terms.make("call", "coalesce", other, value), facts)
    if tested is not None and tested is other:
        return other
    if condition.tag == "not" and facts.never_null(condition):
        return simplify_case(terms.make("case", condition.parts[0], other, value), facts)
    return None


def make_is_true(condition: Node, facts: Facts) -> Node:
    """Return an expression that equals a condition, but is FALSE where the condition is NULL."""
    if facts.never_null(condition):
        return condition
    return facts.terms.compare("nseq", condition, facts.terms.boolean(True))


def simplify_coalesce(node: Node, facts: Facts) -> Node:
    """Remove arguments of COALESCE after a value that is never NULL, and repeated arguments."""
    arguments: list[Node] = []
    for argument in node.parts[1:]:
        nested = argument.tag == "call" and argument.parts[0] == "coalesce"
        arguments += argument.parts[1:] if nested else [argument]
    kind = facts.common_type(arguments)
    if kind is None:
        return node
    kept: list[Node] = []
    for argument in dict.fromkeys(arguments):
        if not is_null(argument):
            kept.append(argument)
        if facts.never_null(argument):
            break
    if not kept:
        return facts.typed_null(kind)
    if len(kept) == 1:
        return kept[0]
    if kind == BOOL and len(kept) == 2 and kept[1].tag == "bool":
        terms, otherwise = facts.terms, kept[1].parts[0]
        known = terms.compare("nseq", kept[0], terms.boolean(not otherwise))
        return terms.negate(known) if otherwise else known
    return facts.terms.make("call", "coalesce", *kept)


def decode_as_case(node: Node, facts: Facts) -> Node:
    """Rewrite a DECODE whose results are texts as the equivalent CASE."""
    terms, (this, *others) = facts.terms, node.parts[1:]
    searched = others[: len(others) // 2 * 2 : 2]
    found = [*others[1::2], *(others[-1:] if len(others) % 2 else ())]
    # Other DECODEs stay, because Spark converts their results (in ANSI mode, INT to BIGINT).
    if len(others) < 2 or facts.common_type(found) != TEXT:
        return node
    if not all(facts.comparable(this, value) for value in searched):
        return node
    made = list(others)
    for i, value in zip(range(0, len(others), 2), searched, strict=False):
        made[i] = terms.compare("eq" if facts.never_null(value) else "nseq", this, value)
    return terms.make("case", *made)


def expand_null_functions(node: Node, facts: Facts) -> Node:
    """Replace functions such as NVL2 and NULLIF with CASE, COALESCE or IS NULL, as Spark does."""
    terms, name, arguments = facts.terms, node.parts[0], node.parts[1:]
    null, zero = terms.make("Null"), terms.number(0)
    if name == "nvl2" and len(arguments) == 3:
        present = terms.negate(terms.is_null(arguments[0]))
        return terms.make("case", present, *arguments[1:])
    if name in ("nullif", "nullifzero") and len(arguments) == (2 if name == "nullif" else 1):
        other = arguments[1] if name == "nullif" else zero
        return terms.make("case", terms.compare("eq", arguments[0], other), null, arguments[0])
    if name == "zeroifnull" and len(arguments) == 1:
        return terms.make("call", "coalesce", arguments[0], zero)
    if name in ("isnull", "isnotnull") and len(arguments) == 1:
        test = terms.is_null(arguments[0])
        return test if name == "isnull" else terms.negate(test)
    return node


_ARITHMETIC = ("add", "sub", "mul")
_CONSTANT = ("lit", "bool")


def push_into_case(node: Node, facts: Facts) -> Node:
    """Apply an operator with a literal to each value of a CASE, if all values are literals."""
    if len(node.parts) != 2:
        return node
    at = 0 if node.parts[0].tag == "case" else 1
    choice, constant = node.parts[at], node.parts[1 - at]
    kind = facts.type(choice) if choice.tag == "case" and constant.tag == "lit" else None
    if kind not in (INT, TEXT) or facts.type(constant) != kind:
        return node
    if kind == TEXT and node.tag in _ARITHMETIC:
        return node
    if len(choice.parts) % 2 == 0 and node.tag == "nseq":
        return node  # NULL of the missing ELSE would be compared, too.
    made = map_case_values(
        choice, lambda value: _decided(node, value, constant, at, facts), None, facts.terms
    )
    return made if made is not None else node


def _decided(node: Node, value: Node, constant: Node, at: int, facts: Facts) -> Node | None:
    if is_null(value):
        if node.tag == "nseq":
            return None
        return facts.typed_null(INT if node.tag in _ARITHMETIC else BOOL)
    if value.tag != "lit":
        return None
    operands = (constant, value) if at else (value, constant)
    if node.tag in _ARITHMETIC:
        made = facts.terms.arithmetic(node.tag, *operands)
    else:
        made = make_comparison(node.tag, *operands, facts)
    return made if made.tag in _CONSTANT else None


_PADDING = ("lpad", "rpad")


def drop_default_arguments(node: Node, facts: Facts) -> Node:
    """Drop arguments that are the default, as in ``round(x, 0)`` and ``lpad(s, 3, ' ')``."""
    name, *arguments = node.parts
    found = DEFAULTS.get(name)
    if name in _PADDING and len(arguments) == 3 and facts.type(arguments[0]) == TEXT:
        found = (2, ("' '",))
    if found is None:
        return node
    first, defaults = found
    size = len(arguments)
    while first < size <= first + len(defaults) and (
        _written(arguments[size - 1]) == defaults[size - 1 - first]
    ):
        size -= 1
    return facts.terms.make("call", name, *arguments[:size]) if size < len(arguments) else node


def _written(node: object) -> str | None:
    if not isinstance(node, Node) or node.tag not in ("lit", "bool", "Null"):
        return None
    if node.tag == "lit":
        return str(node.parts[1])
    return "null" if node.tag == "Null" else str(node.parts[0]).lower()
