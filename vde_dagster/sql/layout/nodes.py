"""SQL text as words and brackets that know what stood between them.

Calls of macros are words: what is in their brackets is not SQL yet, and stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from vde_dagster.sql.query_text import CLAUSE_WORDS
from vde_dagster.sql.scanner import CLOSING, OPENING, SourceText, Token, matching

_SIGNS = "<= >= <> != == <=> || && << >> >>> ->> #> #>> @> <@ ~* !~ !~* ~~ !~~ ?| ?& // **"
_OPERATORS = frozenset(_SIGNS.split())
_NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word, sign, literal, comment or call of a macro.

    Args:
        kind: As of `Token`, and `macro`.
        text: As written.
        adjacent: Whether nothing stands before it.
        begins_line: Whether it is the first of its line.
        is_sign: Whether it is a minus or plus of one operand.
    """

    kind: str
    text: str
    adjacent: bool
    begins_line: bool
    is_sign: bool = False

    @property
    def word(self) -> str:
        """The word in upper case; empty for anything else."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_value(self) -> bool:
        """Whether it may end an operand, so that a minus behind it subtracts."""
        if self.kind in ("word", "macro"):
            return self.word not in CLAUSE_WORDS
        return self.kind in ("number", "string", "quoted") or self.text in CLOSING


@dataclass(frozen=True, slots=True)
class Bracket:
    """A pair of brackets.

    Args:
        opening: The first one.
        inside: What is between them.
        closing: The second one.
    """

    opening: Leaf
    inside: tuple[Node, ...]
    closing: Leaf


Node: TypeAlias = Leaf | Bracket


def read_nodes(source: SourceText, tokens: Sequence[Token]) -> tuple[Node, ...]:
    """Read tokens, comments included.

    Args:
        source: The file.
        tokens: A statement's, or some of them.

    Raises:
        ProjectError: Brackets do not match.
    """
    leaves = _leaves(source, list(tokens))
    nodes: list[list[Node]] = [[]]
    opened: list[Leaf] = []
    for leaf in leaves:
        if leaf.kind in ("punct", "type") and leaf.text in "([<" and _opens(leaf):
            opened.append(leaf)
            nodes.append([])
        elif opened and leaf.kind in ("punct", "type") and leaf.text == _closing(opened[-1]):
            inside = tuple(nodes.pop())
            nodes[-1].append(Bracket(opened.pop(), inside, leaf))
        else:
            nodes[-1].append(leaf)
    while opened:  # What is not closed is left to who reads the file.
        inside = tuple(nodes.pop())
        nodes[-1] += [opened.pop(), *inside]
    return tuple(nodes[0])


def _opens(leaf: Leaf) -> bool:
    return leaf.text in "([" or leaf.kind == "type"


def _closing(opening: Leaf) -> str:
    return ">" if opening.text == "<" else OPENING[opening.text]


def _leaves(source: SourceText, tokens: list[Token]) -> list[Leaf]:
    leaves: list[Leaf] = []
    index, end, angles = 0, tokens[0].start if tokens else 0, 0
    while index < len(tokens):
        first = tokens[index]
        kind, count = _leaf_at(source, tokens, index)
        last = tokens[index + count - 1]
        text = source.text[first.start : last.end] if count > 1 else first.text
        before = leaves[-1] if leaves else None
        if text == "<" and (angles or (before and before.word in _NESTED_TYPES)):
            kind, angles = "type", angles + 1
        elif angles and set(text) == {">"}:
            kind, count, text = "type", 1, ">"
            last, angles = first, angles - 1
        between = source.text[end : first.start]
        valued = next((one for one in reversed(leaves) if one.kind != "comment"), None)
        sign = text in ("-", "+") and not (valued and valued.is_value)
        leaves.append(Leaf(kind, text, not between and bool(leaves), "\n" in between, sign))
        index, end = index + count, last.end
    return leaves


def _leaf_at(source: SourceText, tokens: list[Token], index: int) -> tuple[str, int]:
    """Return the kind of the leaf that begins at a token, and how many tokens it has."""
    token = tokens[index]
    if token.kind != "punct":
        return token.kind, 1
    if token.text == "@" and _touches(tokens, index):
        following = tokens[index + 1]
        if following.text == "{":
            return "macro", matching(source, tokens, index + 1) - index + 1
        if following.kind in ("string", "quoted"):
            return "macro", 2
        if following.kind == "word":
            if _touches(tokens, index + 1) and tokens[index + 2].text == "(":
                return "macro", matching(source, tokens, index + 2) - index + 1
            return "macro", 2
    for count in (3, 2):
        run = tokens[index : index + count]
        if "".join(one.text for one in run) in _OPERATORS and all(
            _touches(tokens, at) for at in range(index, index + len(run) - 1)
        ):
            return "punct", len(run)
    return "punct", 1


def _touches(tokens: list[Token], index: int) -> bool:
    """Say whether a token follows right behind."""
    return index + 1 < len(tokens) and tokens[index + 1].start == tokens[index].end
