"""SQL text as words, brackets and clauses.

A macro call counts as one word, because the text in its brackets may not be SQL yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from vde_dagster.sql.query_text import CLAUSE_WORDS
from vde_dagster.sql.scanner import CLOSING, OPENING, SourceText, Token

_SIGNS = "<= >= <> != == <=> || |> && << >> >>> ->> #> #>> @> <@ ~* !~ !~* ~~ !~~ ?| ?& // **"
_OPERATORS = frozenset(_SIGNS.split())
_NESTED_TYPES = ("ARRAY", "MAP", "STRUCT")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A word, sign, literal, comment or macro call of a SQL text.

    Args:
        kind: A kind of `Token`, `macro`, or `type` for the brackets `<>` of a type.
        adjacent: Whether no whitespace precedes it.
        begins_line: Whether a line end precedes it.
        is_sign: Whether it is a unary minus or plus.
    """

    kind: str
    text: str
    adjacent: bool
    begins_line: bool
    is_sign: bool = False

    @property
    def word(self) -> str:
        """The word in upper case, or "" if the leaf is not a word."""
        return self.text.upper() if self.kind == "word" else ""

    @property
    def is_value(self) -> bool:
        """Whether this leaf can end a value, so that a minus after it is binary."""
        if self.kind in ("word", "macro"):
            return self.word not in CLAUSE_WORDS
        return self.kind in ("number", "string", "quoted") or self.text in CLOSING


@dataclass(frozen=True, slots=True)
class Bracket:
    """An opening bracket, the nodes inside, and the closing bracket."""

    opening: Leaf
    inside: tuple[Node, ...]
    closing: Leaf


Node: TypeAlias = Leaf | Bracket


def read_nodes(source: SourceText, tokens: Sequence[Token]) -> tuple[Node, ...]:
    """Group tokens, including comments, into leaves and brackets.

    Raises:
        ProjectError: A bracket of a macro is not closed.
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
    while opened:  # Unclosed brackets are reported when the file is read.
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
    token = tokens[index]
    if token.kind != "punct":
        return token.kind, 1
    if token.text == "@" and _touches(tokens, index):
        following = tokens[index + 1]
        if following.text == "{":
            return "macro", source.closing(tokens, index + 1) - index + 1
        if following.kind in ("string", "quoted"):
            return "macro", 2
        if following.kind == "word":
            if _touches(tokens, index + 1) and tokens[index + 2].text == "(":
                return "macro", source.closing(tokens, index + 2) - index + 1
            return "macro", 2
    for count in (3, 2):
        run = tokens[index : index + count]
        if "".join(one.text for one in run) in _OPERATORS and all(
            _touches(tokens, at) for at in range(index, index + len(run) - 1)
        ):
            return "punct", len(run)
    return "punct", 1


def _touches(tokens: list[Token], index: int) -> bool:
    return index + 1 < len(tokens) and tokens[index + 1].start == tokens[index].end


_LISTS = ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE")
_CONDITIONS = ("WHERE", "HAVING", "QUALIFY")
_INLINE = ("FROM", "LIMIT", "OFFSET", "WINDOW")
_SETS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_BEFORE_JOIN = ("NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
_MACROS = ("@JOIN", "@WHERE", "@GROUP_BY", "@HAVING", "@ORDER_BY", "@LIMIT")


@dataclass(slots=True)
class Clause:
    """A clause of a query, such as SELECT with its columns.

    Args:
        kind: `with`, `select`, `list`, `condition`, `join`, `on`, `set`, `values`, `inline`; empty
            for the part before the first clause.
        before: Comments on lines of their own before the clause.
    """

    kind: str = ""
    head: list[Leaf] = field(default_factory=list)
    body: list[Node] = field(default_factory=list)
    before: list[Leaf] = field(default_factory=list)


def is_comment(node: Node) -> bool:
    return isinstance(node, Leaf) and node.kind == "comment"


def is_query(nodes: Sequence[Node]) -> bool:
    """Return whether nodes start like a query, with SELECT, WITH or VALUES."""
    first = next((node for node in nodes if not is_comment(node)), None)
    if isinstance(first, Bracket):
        return first.opening.text == "(" and is_query(first.inside)
    if first is None:
        return False
    return first.word in ("SELECT", "WITH", "VALUES") or _macro(first) == "@WITH"


def split_clauses(nodes: Sequence[Node]) -> list[Clause]:
    """Split the nodes of a query at its clauses: WITH, SELECT, FROM, JOIN, WHERE and so on."""
    clauses = [Clause()]
    index = 0
    while index < len(nodes):
        kind, count = _clause_at(nodes, index, clauses[-1])
        if not count:
            clauses[-1].body.append(nodes[index])
            index += 1
            continue
        head = [node for node in nodes[index : index + count] if isinstance(node, Leaf)]
        clauses.append(Clause(kind, head, before=_pop_leading_comments(clauses[-1])))
        index += count
    first = clauses[0]
    return clauses if first.body or first.before else clauses[1:]


def _pop_leading_comments(clause: Clause) -> list[Leaf]:
    taken: list[Leaf] = []
    while clause.body:
        last = clause.body[-1]
        if not (isinstance(last, Leaf) and last.kind == "comment" and last.begins_line):
            break
        taken.insert(0, last)
        clause.body.pop()
    return taken


def _clause_at(nodes: Sequence[Node], index: int, current: Clause) -> tuple[str, int]:
    """Return (kind, number of keywords) of the clause that starts at a node, or ("", 0)."""
    words = _words(nodes, index)
    first = words[0]
    if not first or _is_name(nodes, index):
        return "", 0
    if first.startswith("@"):
        if first == "@WITH":
            return "with", 1
        return ("inline", 1) if first in _MACROS else ("", 0)
    return _clause_from_words(nodes, index, words, current)


def _clause_from_words(
    nodes: Sequence[Node], index: int, words: list[str], current: Clause
) -> tuple[str, int]:
    first, second = words[0], words[1]
    starts = not current.kind and not [one for one in current.body if not is_comment(one)]
    if first == "WITH" and (starts or current.kind == "set"):
        return "with", 2 if second == "RECURSIVE" else 1
    if first == "VALUES" and (starts or current.kind == "set"):
        return "values", 1
    if first == "SELECT":
        return "select", 2 if second in ("ALL", "DISTINCT") else 1
    if first in _CONDITIONS:
        return "condition", 1
    if first == "FROM" and index and _word(nodes[index - 1]) == "DISTINCT":
        return "", 0  # IS DISTINCT FROM
    if first in _INLINE:
        return "inline", 1
    if first in _LISTS and second == "BY":
        return "list", 2
    if first == "LATERAL" and second == "VIEW":
        return "inline", 3 if words[2] == "OUTER" else 2
    if first in _SETS:
        return _set_operation(nodes, index, words)
    if first in ("ON", "USING") and current.kind == "join":
        return "on", 1
    joined = 0
    while words[joined] in _BEFORE_JOIN:
        joined += 1
    return ("join", joined + 1) if words[joined] == "JOIN" else ("", 0)


def _set_operation(nodes: Sequence[Node], index: int, words: list[str]) -> tuple[str, int]:
    """Return `set` and the number of words of a set operator (2 for `UNION ALL`), or "" and 0."""
    count = 1
    while words[count] in ("ALL", "DISTINCT", "BY", "NAME"):
        count += 1
    following = next((node for node in nodes[index + count :] if not is_comment(node)), None)
    begins = _word(following) in ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
    if begins or count > 1 or (isinstance(following, Bracket) and is_query(following.inside)):
        return "set", count
    # For example, the EXCEPT of `* EXCEPT (column)`.
    return "", 0


def _words(nodes: Sequence[Node], index: int) -> list[str]:
    found: list[str] = []
    for node in nodes[index : index + 6]:
        word = _word(node)
        if not word:
            break
        found.append(word)
    return [*found, "", "", "", ""]


def _word(node: Node | None) -> str:
    if not isinstance(node, Leaf):
        return ""
    return node.word or _macro(node)


def _macro(leaf: Leaf) -> str:
    return leaf.text.partition("(")[0].upper() if leaf.kind == "macro" else ""


def _is_name(nodes: Sequence[Node], index: int) -> bool:
    before = nodes[index - 1] if index else None
    following = nodes[index + 1] if index + 1 < len(nodes) else None
    if isinstance(before, Leaf) and (before.text == "." or before.word == "AS"):
        # A query follows AS, too: CREATE VIEW v AS SELECT.
        return _word(nodes[index]) not in ("SELECT", "WITH", "VALUES")
    return isinstance(following, Leaf) and following.text == "."
