"""Functions of texts: LIKE without a pattern, texts one behind the other, what is done already.

(Rules: Spark's `LikeSimplification`, `CombineConcats`, `SimplifyCaseConversionExpressions`.)
"""

from __future__ import annotations

from vde_dagster.semantics.algebra import Node
from vde_dagster.semantics.literals import plain_string
from vde_dagster.semantics.normalise import compare, integer, negate
from vde_dagster.semantics.simplify.facts import BOOL, DATE, TEXT, WHOLE, Facts, is_null

_JOINED = (TEXT, DATE, *WHOLE)
_TWICE_AS_ONCE = frozenset({"lower", "upper", "trim", "ltrim", "rtrim"})


def match(node: Node, facts: Facts) -> Node:
    """LIKE by a function where its pattern has `%` at its ends only."""
    _, pattern, _, this = node.parts if len(node.parts) == 4 else (None, None, None, None)
    if pattern is None or this is None:
        return node
    if pattern.tag in ("Any", "All"):
        return _each(node, pattern, this, facts)
    if is_null(pattern) and facts.never_fails(this):
        return facts.null(BOOL)
    text = plain_string(pattern.parts[1]) if pattern.tag == "lit" else None
    if text is None or "_" in text or facts.type(this) != TEXT:
        return node
    inner = text.strip("%")
    if "%" in inner or not inner:
        return compare(facts.terms, "eq", this, pattern) if not text else node
    made = facts.terms.make("lit", "s", f"'{inner}'")
    starts, ends = not text.startswith("%"), not text.endswith("%")
    if starts and ends:
        return compare(facts.terms, "eq", this, made)
    name = "startswith" if starts else "endswith" if ends else "contains"
    return facts.terms.make("call", name, this, made)


def matches_all(node: Node) -> bool:
    """Whether a LIKE matches every text."""
    pattern = node.parts[1] if len(node.parts) == 4 else None
    text = plain_string(pattern.parts[1]) if pattern is not None and pattern.tag == "lit" else None
    return text is not None and text != "" and not text.strip("%")


def _each(node: Node, patterns: Node, this: Node, facts: Facts) -> Node:
    """LIKE ANY and LIKE ALL as what they are short for."""
    listed = [p for p in patterns.parts if p.__class__ is Node]
    members = [p for one in listed for p in one.parts if p.__class__ is Node]
    if len(listed) != 1 or listed[0].tag != "Tuple" or not members:
        return node
    made = [
        match(facts.terms.make("Like", "expression", pattern, "this", this), facts)
        for pattern in members
    ]
    return facts.joined("or" if patterns.tag == "Any" else "and", made)


def not_each(node: Node, facts: Facts) -> Node:
    """NOT LIKE ANY asks whether any pattern does not match, NOT LIKE ALL whether none does."""
    inner = node.parts[0]
    if inner.tag not in ("and", "or"):
        return node
    return facts.joined(inner.tag, [negate(facts.terms, p) for p in inner.parts])


def string_together(node: Node, facts: Facts) -> Node:
    """One CONCAT for nested ones; neighbours that are literals are one."""
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
    """An argument of CONCAT, which casts to text by itself."""
    if node.tag == "cast" and not node.parts[0] and node.parts[1] == TEXT:
        return node.parts[2] if facts.type(node.parts[2]) in _JOINED else node
    number = integer(node)
    return node if number is None else facts.terms.make("lit", "s", f"'{number}'")


def _text(node: Node) -> str | None:
    return plain_string(node.parts[1]) if node.tag == "lit" else None


def once(node: Node, facts: Facts) -> Node:
    """A function whose result it would leave as it is."""
    name, *arguments = node.parts
    inner = arguments[0] if len(arguments) == 1 else None
    if name not in _TWICE_AS_ONCE or inner is None or inner.__class__ is not Node:
        return node
    again = inner.tag == "call" and inner.parts[0] == name and len(inner.parts) == 2
    return inner if again and facts.type(inner) == TEXT else node
