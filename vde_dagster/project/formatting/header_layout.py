"""`MODEL (…)` and `AUDIT (…)` headers laid out: a property a line.

Values keep the blanks that they have: some of them are texts of SQL that take part in versions.
"""

from __future__ import annotations

from collections.abc import Sequence

from vde_dagster.sql.layout.clauses import is_comment
from vde_dagster.sql.layout.documents import (
    HARD,
    LINE,
    SOFT,
    Document,
    Group,
    Nest,
)
from vde_dagster.sql.layout.nodes import Bracket, Leaf, Node
from vde_dagster.sql.layout.queries import remark, split_list

_A_LINE_EACH = ("kind", "columns")
"""Properties whose brackets have a line for every item."""

_OF_CALLS = ("audits", "signals")
"""Properties whose items are calls, with brackets of their own."""


def header_document(nodes: Sequence[Node], pad: int) -> Document:
    """Lay out a header.

    Args:
        nodes: Its word and its bracket, with comments.
        pad: Blanks before a property.
    """
    parts: list[Document] = []
    for node in nodes:
        if isinstance(node, Bracket):
            properties = [
                (Group(_value(own, pad, _levels(own), wide=_name(own) in _A_LINE_EACH)), behind)
                for own, behind in split_list(node.inside)
            ]
            parts.append((" (", Nest(pad, (HARD, _listed(properties, HARD))), HARD, ")"))
        else:
            parts.append(remark(node) if is_comment(node) else node.text.upper())
    return tuple(parts)


def _name(nodes: Sequence[Node]) -> str:
    first = next((node for node in nodes if not is_comment(node)), None)
    return first.text.lower() if isinstance(first, Leaf) else ""


def _levels(nodes: Sequence[Node]) -> int:
    """Return how many brackets of a property, one in another, may have lines of their own.

    What is in deeper ones is a text that takes part in versions, with the blanks at its edges.
    """
    return 2 if _name(nodes) in _OF_CALLS else 1


def _listed(items: Sequence[tuple[Document, list[Leaf]]], between: Document) -> Document:
    parts: list[Document] = []
    for number, (own, behind) in enumerate(items):
        last = number == len(items) - 1
        parts += [own, () if last else ",", tuple(map(remark, behind)), () if last else between]
    return tuple(parts)


def _value(nodes: Sequence[Node], pad: int, levels: int, *, wide: bool = False) -> Document:
    """Lay out a value with the blanks that it has; lines end where they ended, or not at all."""
    parts: list[Document] = []
    for number, node in enumerate(nodes):
        first = node.opening if isinstance(node, Bracket) else node
        if number and not is_comment(node) and not first.adjacent:
            parts.append(LINE if first.begins_line else " ")
        if isinstance(node, Bracket):
            parts.append(_bracket(node, pad, levels, wide=wide))
        else:
            parts.append(remark(node) if is_comment(node) else node.text)
    return tuple(parts)


def _bracket(bracket: Bracket, pad: int, levels: int, *, wide: bool) -> Document:
    opening, inside, closing = bracket.opening.text, bracket.inside, bracket.closing.text
    if not inside or levels < 1 or opening == "<":
        edges = [" " if _blank(one) else "" for one in (_first(bracket), bracket.closing)]
        return Nest(pad, (opening, edges[0], _value(inside, pad, 0))), edges[1], closing
    items = [(Group(_value(own, pad, levels - 1)), behind) for own, behind in split_list(inside)]
    between, edge = (HARD, HARD) if wide else (LINE, SOFT)
    return Group((opening, Nest(pad, (edge, _listed(items, between))), edge, closing))


def _first(bracket: Bracket) -> Leaf:
    first = bracket.inside[0] if bracket.inside else bracket.closing
    return first.opening if isinstance(first, Bracket) else first


def _blank(leaf: Leaf) -> bool:
    return not (leaf.adjacent or leaf.kind == "comment")
