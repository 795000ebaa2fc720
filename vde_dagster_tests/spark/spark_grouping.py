"""How Spark's own parser groups operators, and the texts that ask for it.

The canonical form has brackets around every operator and none around names, with these words for
what Spark writes in several ways: ``a <> b`` is ``(NOT (a = b))``, ``a IS DISTINCT FROM b`` is
``(NOT (a <=> b))``, ``a NOT LIKE b`` is ``(NOT (a LIKE b))`` and so on; ``a IS TRUE`` is
``(a <=> true)``; ``a BETWEEN b AND c`` is ``between(a, b, c)``; ``a LIKE ANY (x, y)`` is an OR.
Chains of one AND, one OR or one ``||`` are one list, as their grouping changes nothing.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from itertools import product
from typing import Any

from vde_dagster_tests.spark.outcomes import FAILURES

BINARY = (
    "||", "+", "-", "*", "/", "%", "DIV", "&", "|", "^", "<<", ">>", ">>>", "=", "==", "<=>", "<>",
    "!=", "<", "<=", ">", ">=", "AND", "OR", "LIKE", "ILIKE", "RLIKE", "REGEXP", "NOT LIKE",
    "NOT RLIKE", "IS DISTINCT FROM", "IS NOT DISTINCT FROM",
)  # fmt: skip
PREFIX = ("NOT", "!", "-", "~", "+")
POSTFIX = (
    "IS NULL", "IS NOT NULL", "IS TRUE", "IS NOT FALSE", "IS UNKNOWN", ":: STRING",
    "COLLATE UTF8_LCASE", "[x]", ". f", ": f", "IN (x, y)", "NOT IN (x)", "BETWEEN x AND y",
    "NOT BETWEEN x AND y", "LIKE x ESCAPE '!'", "LIKE ANY (x, y)", "NOT LIKE ALL (x, y)",
)  # fmt: skip

LEVELS = ("||", "+", "*", "DIV", "&", "|", "^", "<<", "=", "<=>", "<", "AND", "OR", "LIKE",
          "IS DISTINCT FROM")  # fmt: skip
"""One or two operators of each level of precedence, for triples."""
POSTFIX_LEVELS = ("IS NULL", "IS TRUE", ":: STRING", "COLLATE UTF8_LCASE", "IN (x)",
                  "BETWEEN x AND y")  # fmt: skip

_SYMBOLS = {
    "Add": "+",
    "Subtract": "-",
    "Multiply": "*",
    "Divide": "/",
    "Remainder": "%",
    "IntegralDivide": "DIV",
    "BitwiseAnd": "&",
    "BitwiseOr": "|",
    "BitwiseXor": "^",
    "ShiftLeft": "<<",
    "ShiftRight": ">>",
    "ShiftRightUnsigned": ">>>",
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "Like": "LIKE",
    "ILike": "ILIKE",
    "RLike": "RLIKE",
}
_CHAINS = {"And": " AND ", "Or": " OR ", "Concat": " || "}
_BEFORE = {"Not": "NOT ", "UnaryMinus": "- ", "UnaryPositive": "+ ", "BitwiseNot": "~ "}
_BEHIND = {"IsNull": " IS NULL", "IsNotNull": " IS NOT NULL", "IsUnknown": " IS UNKNOWN",
           "IsNotUnknown": " IS NOT UNKNOWN"}  # fmt: skip


def spark_grouping(session: Any, text: str) -> str:
    """Return how Spark groups an expression, in the canonical form of this module.

    Args:
        session: A Spark session.
        text: An expression of names, numbers and the operators of this module.

    Raises:
        ValueError: Spark cannot parse it.
    """
    parser = session._jsparkSession.sessionState().sqlParser()
    try:
        # In brackets, or `a = NOT b` is read as the column NOT under the alias b.
        described = parser.parseExpression(f"({text})").toJSON()
    except FAILURES:
        raise ValueError(f"Spark cannot parse {text}") from None
    nodes: Iterator[dict[str, Any]] = iter(json.loads(described))
    shown = _chain(_show(nodes))
    assert next(nodes, None) is None, described
    return shown


def groupings(session: Any, texts: list[str]) -> dict[str, str | None]:
    """The grouping of each text, or None where Spark cannot parse it."""
    found: dict[str, str | None] = {}
    for text in texts:
        try:
            found[text] = spark_grouping(session, text)
        except ValueError:
            found[text] = None
    return found


def pairs() -> list[str]:
    """Two operators: every two of Spark's."""
    texts = [f"a {one} b {two} c" for one, two in product(BINARY, BINARY)]
    for before, op in product(PREFIX, BINARY):
        texts += [f"{before} a {op} b", f"a {op} {before} b"]
    for op, behind in product(BINARY, POSTFIX):
        texts += [f"a {op} b {behind}", f"a {behind} {op} b"]
    texts += [f"{before} a {behind}" for before, behind in product(PREFIX, POSTFIX)]
    texts += [f"{one} {two} a" for one, two in product(PREFIX, PREFIX)]
    texts += [f"a {one} {two}" for one, two in product(POSTFIX, POSTFIX)]
    for op in BINARY:
        texts += [f"a BETWEEN b {op} c AND d", f"a BETWEEN b AND c {op} d"]
        texts += [f"a IN (b {op} c, d)", f"a [b {op} c] {op} d"]
    return list(dict.fromkeys(texts))


def triples() -> list[str]:
    """Two binary operators, one of each level, and a unary or a postfix one at each place."""
    texts: list[str] = []
    for one, two in product(LEVELS, LEVELS):
        for before in PREFIX:
            texts += [
                f"{before} a {one} b {two} c",
                f"a {one} {before} b {two} c",
                f"a {one} b {two} {before} c",
            ]
        for behind in POSTFIX_LEVELS:
            texts += [
                f"a {behind} {one} b {two} c",
                f"a {one} b {behind} {two} c",
                f"a {one} b {two} c {behind}",
            ]
    return texts


def long_texts(rng: random.Random, count: int) -> list[str]:
    """Expressions of four to eight operators, some with a sign before an operand."""
    signs = sorted({op for op in BINARY if not op[0].isalpha() or op in ("AND", "OR", "DIV")})
    texts = []
    for _ in range(count):
        text = "a"
        for operand in "bcdefghi"[: rng.randint(4, 8)]:
            before = rng.choice(["", "", "", "- ", "~ "])
            behind = rng.choice(["", "", "", "", " :: STRING"])
            text += f" {rng.choice(signs)} {before}{operand}{behind}"
        texts.append(text + rng.choice(["", "", " IS NULL", " IN (x, y)", " LIKE z"]))
    return texts


def _chain(shown: str | tuple[str, list[str]]) -> str:
    if isinstance(shown, str):
        return shown
    return f"({shown[0].join(shown[1])})"


def _show(nodes: Iterator[dict[str, Any]]) -> str | tuple[str, list[str]]:
    """Show the next node, which its children follow; a chain stays open, to take in its like."""
    node = next(nodes)
    name = node["class"].rpartition(".")[2].partition("$")[0]
    children = [_show(nodes) for _ in range(node["num-children"])]
    if name in _CHAINS:
        operands: list[str] = []
        for child in children:
            same = isinstance(child, tuple) and child[0] == _CHAINS[name]
            operands += child[1] if same else [_chain(child)]
        return _CHAINS[name], operands
    shown = [_chain(child) for child in children]
    if name in _SYMBOLS:
        return f"({shown[0]} {_SYMBOLS[name]} {shown[1]})"
    if name in _BEFORE:
        return f"({_BEFORE[name]}{shown[0]})"
    if name in _BEHIND:
        return f"({shown[0]}{_BEHIND[name]})"
    return _other(name, node, shown)


def _other(name: str, node: dict[str, Any], shown: list[str]) -> str:
    match name:
        case "UnresolvedAttribute":
            return ".".join(str(node["nameParts"]).strip("[]").split(", "))
        case "UnresolvedFunction":
            return f"{str(node['nameParts']).strip('[]')}({', '.join(shown)})"
        case "Literal":
            return str(node["value"])
        case "Cast":
            return f"CAST({shown[0]} AS {str(node['dataType']).upper()})"
        case "Collate":
            return f"({shown[0]} COLLATE {shown[1]})"
        case "UnresolvedCollation":
            return str(node["collationName"]).strip("[]")
        case "UnresolvedExtractValue":
            return f"{shown[0]}[{shown[1]}]"
        case "SemiStructuredExtract":
            return f"{shown[0]}:{str(node['field']).removeprefix('$.')}"
        case "Alias":  # Spark gives a name to what `:` takes out
            return shown[0]
        case "In":
            return f"({shown[0]} IN ({', '.join(shown[1:])}))"
        case _:
            return f"{name}({', '.join(shown)})"
