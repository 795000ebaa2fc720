"""Layout of queries, with or without macros, in the style of SQLGlot's pretty printer.

SQLGlot's printer changes words (`nvl` becomes `COALESCE`), moves comments, and does not support
macros. Here every word (except for its case), literal and comment stays, in the same order.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from vde_dagster.project.formatting.documents import HARD, LINE, SOFT, Document, Group, Nest, Remark
from vde_dagster.project.formatting.nodes import (
    Bracket,
    Clause,
    Leaf,
    Node,
    is_comment,
    is_query,
    split_clauses,
)
from vde_dagster.project.settings import LayoutOptions
from vde_dagster.sql.query_text import CLAUSE_WORDS


def remark(comment: Leaf) -> Remark:
    return Remark(comment.text, behind=not comment.begins_line)


def split_list(nodes: Iterable[Node]) -> list[tuple[list[Node], list[Leaf]]]:
    """Split nodes at commas into items, and add to each item the comments that end its line."""
    items: list[tuple[list[Node], list[Leaf]]] = [([], [])]
    for node in nodes:
        if isinstance(node, Leaf) and node.text == ",":
            items.append(([], []))
        elif is_comment(node) and not items[-1][0] and len(items) > 1 and not _begins_line(node):
            items[-2][1].extend([node] if isinstance(node, Leaf) else [])
        else:
            items[-1][0].append(node)
    for own, behind in items:
        while own and is_comment(own[-1]) and not _begins_line(own[-1]):
            last = own.pop()
            behind[:0] = [last] if isinstance(last, Leaf) else []
    return items


def _begins_line(node: Node) -> bool:
    return isinstance(node, Leaf) and node.begins_line


class QueryLayout:
    """Lays out queries and expressions as documents for `render_document`."""

    def __init__(self, options: LayoutOptions) -> None:
        self._options = options

    def query(self, nodes: Sequence[Node]) -> Document:
        """Lay out a query, or a statement such as `CREATE VIEW v AS SELECT …`."""
        parts: list[Document] = []
        for clause in split_clauses(nodes):
            parts += [HARD, *map(remark, clause.before), self._clause(clause)]
        return tuple(parts)

    def _clause(self, clause: Clause) -> Document:
        if not clause.kind:
            return self.expression(clause.body)
        head = tuple(
            (" " if number else "", self._keyword(leaf)) for number, leaf in enumerate(clause.head)
        )
        indent = self._options.indent
        if clause.kind == "select":
            return self._select(head, clause.body)
        if clause.kind in ("list", "values"):
            return head, Nest(indent, (HARD, self.items(clause.body, HARD)))
        if clause.kind == "condition":
            return head, Nest(indent, (HARD, self._condition(clause.body)))
        if clause.kind == "on":
            condition = " ", self._condition(clause.body)
            return Nest(indent, (HARD, head, condition))
        if clause.kind in ("with", "set"):
            return head, " ", self.items(clause.body, " ")
        several = len(split_list(clause.body)) > 1
        return head, " ", Nest(indent if several else 0, Group(self.items(clause.body, LINE)))

    def _select(self, head: Document, body: list[Node]) -> Document:
        said: list[Node] = []
        while body and isinstance(body[0], Leaf) and body[0].kind == "hint":
            said.append(body.pop(0))
        if body and isinstance(body[0], Leaf) and body[0].word == "ON":
            said += body[:2]  # DISTINCT ON (…)
            body = body[2:]
        shown = (" ", self.expression(said)) if said else ()
        return head, shown, Nest(self._options.indent, (HARD, self.items(body, HARD)))

    def _keyword(self, node: Node) -> str:
        assert isinstance(node, Leaf)
        return node.word if node.word and self._options.keywords else node.text

    def _condition(self, nodes: list[Node]) -> Document:
        [*others, (own, behind)] = split_list(nodes)
        if others:
            return Group(self.items(nodes, LINE))
        return Group(self.expression(own)), tuple(map(remark, behind))

    def items(self, nodes: Sequence[Node], between: Document) -> Document:
        """Lay out items, separated by commas and `between`."""
        parts: list[Document] = []
        split = split_list(nodes)
        leads = self._options.leading_comma and between is HARD
        for number, (own, behind) in enumerate(split):
            last = number == len(split) - 1
            if leads and number:
                parts += [HARD, ", "]
            parts.append(Group(self.expression(own)))
            if not (last or leads):
                parts.append(",")
            parts += map(remark, behind)
            if not (last or leads):
                parts.append(between)
        return tuple(parts)

    def expression(self, nodes: Sequence[Node]) -> Document:
        """Lay out an expression, or a table with its alias."""
        grouped = _group_cases(nodes)
        return self._layout(grouped, _connectors(grouped))

    def _layout(self, nodes: Sequence[Node], breaks: set[int]) -> Document:
        parts: list[Document] = []
        before: Leaf | None = None
        for index, node in enumerate(nodes):
            first = node.opening if isinstance(node, Bracket) else node
            if before is not None and not is_comment(node):
                blank = " " if needs_space(before, first) else ""
                parts.append(LINE if index in breaks else blank)
            if isinstance(node, Bracket):
                parts.append(self._bracket(node))
                before = node.closing
            elif is_comment(node):
                parts.append(remark(node))
            else:
                parts.append(self._text(nodes, index))
                before = node
        return tuple(parts)

    def _text(self, nodes: Sequence[Node], index: int) -> str:
        before = nodes[index - 1] if index else None
        following = nodes[index + 1] if index + 1 < len(nodes) else None
        node = nodes[index]
        assert isinstance(node, Leaf)
        return leaf_text(
            node,
            before.closing if isinstance(before, Bracket) else before,
            following.opening if isinstance(following, Bracket) else following,
            self._options,
        )

    def _bracket(self, bracket: Bracket) -> Document:
        if bracket.opening.word == "CASE":
            return self._case(bracket)
        opening, inside, closing = bracket.opening.text, bracket.inside, bracket.closing.text
        if not inside:
            return opening + closing
        if opening == "<":
            return opening, self.items(inside, " "), closing
        pad = self._options.pad
        if opening == "(" and is_query(inside):
            return opening, Nest(pad, (HARD, self.query(inside))), HARD, closing
        content = self._window(inside) or self.items(inside, LINE)
        return Group((opening, Nest(pad, (SOFT, content)), SOFT, closing))

    def _window(self, nodes: Sequence[Node]) -> Document | None:
        words = [node.word if isinstance(node, Leaf) else "" for node in nodes]
        starts = [
            index
            for index, word in enumerate(words)
            if (word in ("PARTITION", "ORDER") and words[index + 1 : index + 2] == ["BY"])
            or (word in ("ROWS", "RANGE") and index and "BY" in words[:index])
        ]
        if not starts or "BY" not in words:
            return None
        ends = [*starts[1:], len(nodes)]
        parts: list[Document] = [self.items(nodes[: starts[0]], LINE)] if starts[0] else []
        for start, end in zip(starts, ends, strict=True):
            parts += [LINE if parts else "", self.items(nodes[start:end], " ")]
        return tuple(parts)

    def _case(self, bracket: Bracket) -> Document:
        inside = bracket.inside
        words = [node.word if isinstance(node, Leaf) else "" for node in inside]
        starts = [at for at, word in enumerate(words) if word in ("WHEN", "ELSE")]
        ends = [*starts, len(inside)]
        case, end = self._keyword(bracket.opening), self._keyword(bracket.closing)
        of = inside[: ends[0]]
        head: Document = (case, " ", self._layout(of, set())) if of else case
        branches = (inside[a:b] for a, b in pairwise(ends))
        lines = tuple((LINE, Group(self._layout(branch, set()))) for branch in branches)
        return Group((head, Nest(self._options.indent, lines), LINE, end))


def _group_cases(nodes: Sequence[Node]) -> list[Node]:
    open_: list[list[Node]] = [[]]
    for node in nodes:
        if isinstance(node, Leaf) and node.word == "CASE":
            open_.append([node])
        elif isinstance(node, Leaf) and node.word == "END" and len(open_) > 1:
            opening, *inside = open_.pop()
            open_[-1].append(Bracket(opening, tuple(inside), node))  # type: ignore[arg-type]
        else:
            open_[-1].append(node)
    return [node for unclosed in open_ for node in unclosed]


def _connectors(nodes: Sequence[Node]) -> set[int]:
    found: set[int] = set()
    between = 0
    for index, node in enumerate(nodes):
        word = node.word if isinstance(node, Leaf) else ""
        if word == "BETWEEN":
            between += 1
        elif word == "AND" and between:
            between -= 1
        elif word in ("AND", "OR"):
            found.add(index)
    return found


_NO_SPACE_AFTER = frozenset(["(", "[", ".", "::"])
_NO_SPACE_BEFORE = frozenset([")", "]", ",", ";", ".", "::"])
_KEEP_SPACES = frozenset("${}:?!~\\#@")
"""Signs that may get another meaning if spaces are added around them."""

_WORDS = """
ALL AND AS ASC BETWEEN BY CASE DESC DISTINCT ELSE EXISTS FALSE IN IS LIKE NOT NULL ON OR OVER
RECURSIVE RLIKE THEN TRUE USING WHEN
"""
KEYWORDS = frozenset(_WORDS.split())
"""Words that the option `keywords` writes in capitals, besides the first words of clauses."""

_BEFORE_BY = ("GROUP", "ORDER", "PARTITION", "SORT", "CLUSTER", "DISTRIBUTE")


def needs_space(before: Leaf, leaf: Leaf) -> bool:
    """Return whether a space separates two consecutive leaves of a line."""
    if leaf.kind == "type" or before.kind == "type":
        return before.text == ">" and leaf.kind != "type"
    if leaf.text in _NO_SPACE_BEFORE or before.text in _NO_SPACE_AFTER:
        return False
    if (
        _keeps_spaces(before)
        or _keeps_spaces(leaf)
        or (leaf.kind == "string" and before.kind in ("word", "string", "quoted"))
        or _may_join_name(before, leaf)
    ):
        return not leaf.adjacent
    if before.is_sign:
        return leaf.text in ("-", "+")  # Two of them would begin a comment.
    if leaf.text == "(":
        called = before.kind == "quoted" or (before.kind == "word" and before.is_value)
        return not called
    if leaf.text == "[":
        return not (leaf.adjacent and before.is_value)
    return True


def _keeps_spaces(leaf: Leaf) -> bool:
    return leaf.kind == "punct" and leaf.text in _KEEP_SPACES


def _may_join_name(before: Leaf, leaf: Leaf) -> bool:
    if "macro" not in (before.kind, leaf.kind):
        return False
    return before.is_value or before.kind == "macro"


def leaf_text(
    leaf: Leaf, before: Leaf | None, following: Leaf | None, options: LayoutOptions
) -> str:
    """Return a leaf's text; the options determine the case of keywords and functions."""
    word = leaf.word
    if not word or _is_name(leaf, before, following):
        return leaf.text
    if word in KEYWORDS or (word in _BEFORE_BY and following and following.word == "BY"):
        return word if options.keywords else leaf.text
    functions = options.normalize_functions
    if following and following.text == "(" and functions and word not in CLAUSE_WORDS:
        return word if functions == "upper" else leaf.text.lower()
    return leaf.text


def _is_name(leaf: Leaf, before: Leaf | None, following: Leaf | None) -> bool:
    if before and (before.text == "." or before.word == "AS"):
        return True
    if before and before.kind == "macro" and leaf.adjacent:
        return True
    if following and following.kind == "macro" and following.adjacent:
        return True
    return bool(following and following.text == ".")
