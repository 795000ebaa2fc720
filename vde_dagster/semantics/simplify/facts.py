"""Facts about expressions, such as their type and whether they can be NULL or raise an error.

A type counts as known only if it is the same under all of Spark's settings and its values can be
compared without conversion. The type of most expressions is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from sqlglot import exp

from vde_dagster.semantics import function_types
from vde_dagster.semantics._sqlglot import data_type, type_key
from vde_dagster.semantics.algebra.nodes import (
    BOOLEAN,
    COMPARED,
    Derived,
    FullJoin,
    Leaf,
    Node,
    SetOperation,
    Terms,
    case_values,
    int_value,
    is_plain_date,
    null_test_operand,
    plain_string,
    simple_aggregate,
)

TEXT, BOOL, DATE, DOUBLE = "TEXT<>", "BOOLEAN<>", "DATE<>", "DOUBLE<>"
INT, BIGINT = "INT<>", "BIGINT<>"
WHOLE = ("TINYINT<>", "SMALLINT<>", INT, BIGINT)
"""Integer types from the narrowest to the widest."""
_SUFFIXES = {"L": BIGINT, "S": "SMALLINT<>", "Y": "TINYINT<>", "D": DOUBLE, "F": "FLOAT<>"}
TIMESTAMP, ZONED = "TIMESTAMPTZ<>", "TIMESTAMPLTZ<>"
TIMES = {TIMESTAMP, ZONED, "TIMESTAMPNTZ<>"}
_BARE = {"this", "expressions", "nested"}
_PLAIN = frozenset({*WHOLE, TEXT, BOOL, DATE, DOUBLE, "FLOAT<>", "BINARY<>"} | TIMES)
_TOTAL = frozenset({"lower", "upper", "trim", "length", "concat", "coalesce", "startswith"}) | {
    *("endswith", "contains", "struct")
}
"""Functions that have a value for all texts, and raise no error."""
_OF_TIME = frozenset(
    {"year", "quarter", "month", "day", "dayofweek", "weekday", "dayofyear", "weekofyear"}
    | {"hour", "minute", "second"}
)
"""Functions that have a value for all dates and times, and raise no error."""


class Facts:
    """Determines types of expressions, and whether they can be NULL or raise an error.

    `present` are expressions that are not NULL because of a condition.
    """

    def __init__(self, terms: Terms, present: Set[Node] = frozenset()) -> None:
        self.terms = terms
        self._present = present
        self._types: dict[Node, str | None] = {}

    def type(self, node: Node) -> str | None:
        """Return the key of an expression's type; None if unknown, or for an untyped NULL."""
        if node not in self._types:
            self._types[node] = self._type(node)
        return self._types[node]

    def common_type(self, nodes: list[Node]) -> str | None:
        """Return the common type of expressions, without plain NULLs; None if types differ."""
        kinds = {self.type(node) for node in nodes if node.tag != "Null"}
        return kinds.pop() if len(kinds) == 1 else None

    def typed_null(self, kind: str) -> Node:
        # If a setting may change what TIMESTAMP means, the type of the NULL is TIMESTAMP_LTZ.
        known = ZONED if self.unless_setting_dependent(kind) is None else kind
        return self.terms.make("cast", False, known, self.terms.make("Null"))

    def combine_conditions(self, tag: str, operands: list[Node]) -> Node:
        made = self.terms.combine(tag, operands)
        absorbing = self.terms.boolean(tag == "or")
        # An AND with FALSE becomes FALSE, and an OR with TRUE becomes TRUE, but only if no other
        # operand can raise an error.
        if made.tag == tag and absorbing in made.parts:
            kept = [part for part in made.parts if not self.is_total(part)]
            made = self.terms.combine(tag, [*kept, absorbing])
        alone = made.tag == tag and len(made.parts) == 1 and self.is_boolean(made.parts[0])
        return made.parts[0] if alone else made

    def is_boolean(self, node: Node) -> bool:
        return node.tag in BOOLEAN or self.type(node) == BOOL

    def _type(self, node: Node) -> str | None:
        tag, parts = node.tag, node.parts
        if tag in BOOLEAN:
            return BOOL
        if tag == "ref":
            return self._type_of_column(node)
        if tag == "lit":
            return _type_of_literal(node)
        if tag == "cast":
            return self.unless_setting_dependent(_plain(parts[1]))
        if tag == "case":
            return self.common_type(case_values(node))
        if tag in ("add", "sub", "mul"):
            return self._type_of_arithmetic([self.type(p) for p in parts])
        if tag == "column":
            return self.type(parts[0])
        if tag == "Div":
            kinds = [self.type(part) for part in parts if part.__class__ is Node]
            return DOUBLE if len(kinds) == 2 and {*kinds} <= {*WHOLE, DOUBLE} else None
        if tag == "neg":
            kind = self.type(parts[0])
            return DOUBLE if kind == TEXT else kind
        if tag == "aggregate":
            return self._type_of_total(parts[0])
        return self._type_of_call(node) if tag == "call" else None

    def unless_setting_dependent(self, kind: str | None) -> str | None:
        """Return `kind`, or None for TIMESTAMP if a setting may change its meaning."""
        return None if kind == TIMESTAMP and not self.terms.has_zoned_timestamps else kind

    def _type_of_column(self, node: Node) -> str | None:
        source, key = node.parts
        if isinstance(source, (Derived, FullJoin)):
            return self.type(source.columns[key])
        kind = plain_type(_declared(source, key))
        return self.unless_setting_dependent(kind) if isinstance(source, SetOperation) else kind

    def _type_of_arithmetic(self, kinds: list[str | None]) -> str | None:
        if all(kind in WHOLE for kind in kinds):
            return max((kind for kind in kinds if kind), key=WHOLE.index)
        numbers = all(kind in WHOLE or kind in (DOUBLE, "FLOAT<>") for kind in kinds)
        return DOUBLE if numbers and DOUBLE in kinds else None

    def _type_of_total(self, body: Node) -> str | None:
        if body.tag == "Filter":
            return self._type_of_total(body.parts[0])
        if body.tag == "count rows":
            return BIGINT
        total = simple_aggregate(body)
        if total is None:
            return None
        name, of = total
        if name in ("count", "count_if"):
            return BIGINT
        kind = self.type(of)
        if name == "sum" and (kind in WHOLE or kind == DOUBLE):
            return BIGINT if kind in WHOLE else DOUBLE
        return kind if name in ("min", "max") else None

    def _type_of_call(self, node: Node) -> str | None:
        name, arguments = node.parts[0], list(node.parts[1:])
        if any(argument.__class__ is not Node for argument in arguments):
            return None  # A name among them, or what is no expression.
        if name in ("coalesce", "greatest", "least"):
            same = self.common_type(arguments)
            if same is not None:
                return same
        return self._type_by_table(name, arguments)

    def _type_by_table(self, name: str, arguments: list[Node]) -> str | None:
        unit = arguments[0].parts[0] if arguments and arguments[0].tag == "unit" else None
        rest = arguments if unit is None else arguments[1:]
        kinds = [self.type(argument) for argument in rest]
        letters = function_types.encode_argument_types(list(map(_letter, rest, kinds)), kinds)
        result = function_types.find_result(name, letters, len(arguments), unit)
        if result is None:
            return None
        if result[0] in function_types.FORMS and result[1:].isdigit():
            place = int(result[1:]) - 1 - (unit is not None)
            return kinds[place] if result[0] == "=" else None
        return self.unless_setting_dependent(plain_type(data_type(result)))

    def never_null(self, node: Node) -> bool:
        tag, parts = node.tag, node.parts
        if node in self._present or tag in ("lit", "bool", "Is", "nseq", "exists"):
            return True
        if tag in ("and", "or", "not"):
            return all(map(self.never_null, parts))
        if tag in ("eq", "neq", "lt", "le"):
            return self.comparable(*parts) and all(map(self.never_null, parts))
        if tag == "cast":
            return self.is_lossless_cast(node) and self.never_null(parts[2])
        if tag in ("add", "sub", "mul"):
            return self.type(node) is not None and all(map(self.never_null, parts))
        if tag == "case":
            values = case_values(node)
            known = bool(len(parts) % 2) and self.common_type(values) is not None
            return known and all(map(self.never_null, values))
        if tag == "call":
            if parts[0] == "coalesce" and self.common_type(list(parts[1:])) is not None:
                return any(map(self.never_null, parts[1:]))
            return bool(parts[0] == "struct")
        if tag == "aggregate":
            body = parts[0]
            counts = body.tag == "call" and body.parts[0] in ("count", "count_if")
            return counts or body.tag == "count rows"
        return tag == "ref" and self._column_never_null(node)

    def _column_never_null(self, node: Node) -> bool:
        source, key = node.parts
        if not isinstance(source, Derived) or source.op == "left":
            return False
        made = source.columns[key]
        if source.op == "agg" and len(source.keys) > 1 and made.tag != "aggregate":
            return False  # A grouping set that leaves out a key has NULL for it.
        return Facts(self.terms).never_null(made)

    def never_fails(self, node: Node) -> bool:
        """Return whether computing an expression raises no error, with and without ANSI mode."""
        # Rewrites may remove only such expressions, or compute them for other rows than before.
        tag, parts = node.tag, node.parts
        if tag in ("ref", "lit", "bool", "Null", "session", "symbol", "parameter"):
            return True
        inner = [p for p in parts if p.__class__ is Node]
        if tag in ("and", "or", "not"):
            return all(map(self.is_total, inner))
        if tag == "Is":
            return all(map(self.never_fails, inner))
        if tag in COMPARED:
            return self.comparable(*parts) and all(map(self.never_fails, inner))
        if tag == "case":
            known = self.type(node) is not None
            asked = inner[: len(inner) - len(inner) % 2 : 2]
            return known and all(map(self.is_total, asked)) and all(map(self.never_fails, inner))
        if tag == "cast":
            tried = parts[0] and self.allows_cast(self.type(parts[2]), parts[1])
            return (tried or self.is_lossless_cast(node)) and self.never_fails(parts[2])
        if tag in ("add", "sub", "mul"):
            return self.type(node) == DOUBLE and all(map(self.never_fails, inner))
        if tag == "call" and parts[0] in _TOTAL:
            known = parts[0] == "struct" or self.common_type(inner) is not None
            return known and all(map(self.never_fails, inner))
        if tag == "call" and parts[0] in _OF_TIME and len(parts) == 2:
            return self.type(inner[0]) in (DATE, *TIMES) and self.never_fails(inner[0])
        if tag == "Like" and len(inner) == 2 and inner[0].tag == "lit":
            # A pattern with a backslash may be one that Spark refuses.
            return self.common_type(inner) == TEXT and plain_string(inner[0].parts[1]) is not None
        return False

    def is_total(self, condition: Node) -> bool:
        """Return whether Spark accepts a condition in AND and OR, and computing it never fails."""
        return self.is_condition(condition) and self.never_fails(condition)

    def is_condition(self, node: Node) -> bool:
        """Return whether Spark accepts an expression in AND and OR: a boolean or untyped NULL."""
        return self.is_boolean(node) or node.tag == "Null"

    def comparable(self, one: Node, two: Node) -> bool:
        left, right = self.type(one), self.type(two)
        if one.tag == "Null" or two.tag == "Null":
            return True
        if left is None or right is None:
            return False
        # Any other conversion may raise an error, or turn a value into NULL.
        return left == right or {left, right} <= {*WHOLE, DOUBLE}

    def allows_cast(self, kind: str | None, target: str) -> bool:
        """Return whether Spark allows a cast between two types, in ANSI mode and with TRY_CAST."""
        if kind is None or _plain(target) is None:
            return False
        families = [_family(kind), _family(target)]
        return kind == target or TEXT in (kind, target) or families[0] == families[1] is not None

    def is_lossless_cast(self, cast: Node) -> bool:
        """Return whether a cast changes no value of its operand, as from INT to BIGINT."""
        _, target, of = cast.parts
        kind = self.type(of)
        if is_null(of):
            return of.tag == "Null" or self.allows_cast(kind, target)
        if kind in WHOLE and target in WHOLE:
            return WHOLE.index(kind) <= WHOLE.index(target)
        return kind == target or (kind in WHOLE and kind != BIGINT and target == DOUBLE)


def map_case_values(
    node: Node, change: Callable[[Node], Node | None], other: Node | None, terms: Terms
) -> Node | None:
    """Apply `change` to the values of a CASE. Return None if `change` returns None for a value."""
    parts = list(node.parts)
    for i in [*range(1, len(parts), 2), *([len(parts) - 1] if len(parts) % 2 else [])]:
        made = change(parts[i])
        if made is None:
            return None
        parts[i] = made
    return terms.make("case", *parts, *([] if other is None or len(parts) % 2 else [other]))


def is_null(node: Node) -> bool:
    """Return whether an expression is NULL, with a type or without."""
    while node.tag == "cast":
        node = node.parts[2]
    return node.tag == "Null"


def plain_type(kind: Any) -> str | None:
    """Return the key of a simple type such as INT; None for ARRAY<INT> or DECIMAL(10, 2)."""
    if kind is None:
        return None
    if kind.args.keys() <= _BARE and not kind.args.get("expressions"):
        key = f"{kind.this.name}<>"  # As `type_key` has it, which takes its time.
        if key in _PLAIN:
            return key
    return _plain(type_key(kind))


def _plain(key: str) -> str | None:
    decimal = key.startswith("DECIMAL<") and key.endswith(">")
    return key if key in _PLAIN or decimal else None


def _family(kind: str) -> str | None:
    # Spark casts between types of a family.
    if kind in (*WHOLE, DOUBLE, "FLOAT<>", BOOL) or kind.startswith("DECIMAL<"):
        return "numbers"
    return "times" if kind == DATE or kind in TIMES else None


def _letter(node: Node, kind: str | None) -> str | None:
    if node.tag == "Null":
        return function_types.NULL
    if node.tag == "unit":
        return "t"
    return function_types.LAMBDA if node.tag == "lambda" else function_types.letter_of_key(kind)


def _type_of_literal(node: Node) -> str | None:
    form, text = node.parts
    if form == "s":
        return TEXT
    if int_value(node) is not None:
        return INT
    number = text[:-1].lstrip("-")
    if text[-1:] in "DF":
        number = number.replace(".", "", 1)
    return _SUFFIXES.get(text[-1:]) if number.isdigit() else None


_D = exp.DType
INTEGERS = frozenset({_D.TINYINT, _D.SMALLINT, _D.INT, _D.BIGINT})
_EXACT = INTEGERS | {_D.TEXT, _D.DATE, _D.BOOLEAN}
"""Exact types: no floats, because 0.0 equals -0.0, and no CHAR, because its padding is ignored."""


def value_type(node: Node) -> exp.DType | None:
    """Return the type of a column or literal, or None if unknown or if equal values can differ.

    For example, DOUBLE has the result None, because 0.0 equals -0.0.
    """
    while node.tag == "ref":
        source, key = node.parts
        if not isinstance(source, (Derived, FullJoin)):
            return _exact(_declared(source, key))
        node = source.columns[key]
    if node.tag == "lit":
        if int_value(node) is not None:
            return _D.INT
        return _D.TEXT if plain_string(node.parts[1]) is not None else None
    if node.tag == "bool":
        return _D.BOOLEAN
    return _total_type(node)


def _declared(source: Any, key: Any) -> Any:
    if isinstance(source, Leaf):
        return source.types.get(key)
    alike = isinstance(source, SetOperation) and source.has_common_types
    return source.branches[0].outputs[key].type if alike else None


def _exact(kind: Any) -> exp.DType | None:
    if kind is None or kind.this not in _EXACT:
        return None
    if any(value for key, value in kind.args.items() if key not in ("this", "nested")):
        return None
    found: exp.DType = kind.this
    return found


def _total_type(node: Node) -> exp.DType | None:
    if node.tag != "aggregate":
        return None
    body = node.parts[0]
    if body.tag == "count rows":
        return _D.BIGINT
    total = simple_aggregate(body)
    if total is None or total[0] == "count":
        return _D.BIGINT if total is not None else None
    name, kind = total[0], value_type(total[1])
    if name == "sum":
        return _D.BIGINT if kind in INTEGERS else None
    return kind if name in ("min", "max") else None


def comparable(one: Node, two: Node) -> bool:
    """Return whether two values have types that can be compared.

    These are the same exact type, two integer types, or a date and a text literal of a date.
    """
    left, right = value_type(one), value_type(two)
    if left is None or right is None:
        return False
    if left == right or (left in INTEGERS and right in INTEGERS):
        return True
    return {left, right} == {_D.DATE, _D.TEXT} and any(
        n.tag == "lit" and is_plain_date(n.parts[1]) for n in (one, two)
    )


def is_constant(node: Node) -> bool:
    return node.tag in ("lit", "bool") and value_type(node) is not None


STRICT = frozenset({"eq", "neq", "lt", "le", "add", "sub", "mul", "neg"})
"""Tags of nodes that are NULL if an operand is NULL."""


def rejects_null(condition: Node, node: Node) -> bool:
    """Return whether a condition cannot be true where the expression is NULL."""
    return not_true_if_null(condition, lambda part: part is node)


def not_true_if_null(condition: Node, is_null: Callable[[Node], bool]) -> bool:
    """Return whether a condition is never true if the expressions of `is_null` are NULL."""
    tag, parts = condition.tag, condition.parts
    if tag == "or":
        return all(not_true_if_null(p, is_null) for p in parts)
    if tag == "and":
        return any(not_true_if_null(p, is_null) for p in parts)
    if tag in ("eq", "neq", "lt", "le"):
        return any(_null_if(p, is_null) for p in parts)
    if tag == "in":
        return _null_if(parts[0], is_null)
    if tag == "not" and parts[0].tag == "Is":
        tested = null_test_operand(parts[0])
        return tested is not None and _null_if(tested, is_null)
    return False


def _null_if(node: Node, is_null: Callable[[Node], bool]) -> bool:
    if is_null(node):
        return True
    return node.tag in STRICT and any(_null_if(p, is_null) for p in node.parts)
