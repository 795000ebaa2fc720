"""Where the clauses of a query begin; what is not known stays in the clause before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vde_dagster.sql.layout.nodes import Bracket, Leaf, Node

_LISTS = ("GROUP", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE")
_CONDITIONS = ("WHERE", "HAVING", "QUALIFY")
_INLINE = ("FROM", "LIMIT", "OFFSET", "WINDOW")
_SETS = ("UNION", "EXCEPT", "INTERSECT", "MINUS")
_BEFORE_JOIN = ("NATURAL", "LEFT", "RIGHT", "FULL", "INNER", "OUTER", "CROSS", "SEMI", "ANTI")
_MACROS = ("@JOIN", "@WHERE", "@GROUP_BY", "@HAVING", "@ORDER_BY", "@LIMIT")


@dataclass(slots=True)
class Clause:
    """A clause of a query.

    Args:
        kind: `with`, `select`, `list`, `condition`, `join`, `on`, `set`, `values`, `inline`; empty
            for what stands before the first clause.
        head: Its keywords.
        body: What it has.
        before: Comments on lines of their own before it.
    """

    kind: str = ""
    head: list[Leaf] = field(default_factory=list)
    body: list[Node] = field(default_factory=list)
    before: list[Leaf] = field(default_factory=list)


def is_comment(node: Node) -> bool:
    """Say whether a node is a comment."""
    return isinstance(node, Leaf) and node.kind == "comment"


def is_query(nodes: Sequence[Node]) -> bool:
    """Say whether nodes are a query, as far as their beginning tells."""
    first = next((node for node in nodes if not is_comment(node)), None)
    if isinstance(first, Bracket):
        return first.opening.text == "(" and is_query(first.inside)
    if first is None:
        return False
    return first.word in ("SELECT", "WITH", "VALUES") or _macro(first) == "@WITH"


def clauses_of(nodes: Sequence[Node]) -> list[Clause]:
    """Split a query into its clauses."""
    clauses = [Clause()]
    index = 0
    while index < len(nodes):
        kind, count = _clause_at(nodes, index, clauses[-1])
        if not count:
            clauses[-1].body.append(nodes[index])
            index += 1
            continue
        head = [node for node in nodes[index : index + count] if isinstance(node, Leaf)]
        clauses.append(Clause(kind, head, before=_taken_comments(clauses[-1])))
        index += count
    first = clauses[0]
    return clauses if first.body or first.before else clauses[1:]


def _taken_comments(clause: Clause) -> list[Leaf]:
    """Take from the end of a clause the comments that belong to the next one."""
    taken: list[Leaf] = []
    while clause.body:
        last = clause.body[-1]
        if not (isinstance(last, Leaf) and last.kind == "comment" and last.begins_line):
            break
        taken.insert(0, last)
        clause.body.pop()
    return taken


def _clause_at(nodes: Sequence[Node], index: int, current: Clause) -> tuple[str, int]:
    """Return the clause that begins at a node, and how many keywords it has; 0 for none."""
    words = _words(nodes, index)
    first = words[0]
    if not first or _is_name(nodes, index):
        return "", 0
    if first.startswith("@"):
        if first == "@WITH":
            return "with", 1
        return ("inline", 1) if first in _MACROS else ("", 0)
    return _of_words(nodes, index, words, current)


def _of_words(
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
    """Tell `EXCEPT SELECT` from `* EXCEPT (column)`."""
    count = 1
    while words[count] in ("ALL", "DISTINCT", "BY", "NAME"):
        count += 1
    following = next((node for node in nodes[index + count :] if not is_comment(node)), None)
    begins = _word(following) in ("SELECT", "WITH", "VALUES", "TABLE", "FROM")
    if begins or count > 1 or (isinstance(following, Bracket) and is_query(following.inside)):
        return "set", count
    return "", 0


def _words(nodes: Sequence[Node], index: int) -> list[str]:
    """Return the words from a node on, up to what is none, with some empty ones behind them."""
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
    """Say whether a word is a part of a name, or an alias."""
    before = nodes[index - 1] if index else None
    following = nodes[index + 1] if index + 1 < len(nodes) else None
    if isinstance(before, Leaf) and (before.text == "." or before.word == "AS"):
        # A query follows AS, too: CREATE VIEW v AS SELECT.
        return _word(nodes[index]) not in ("SELECT", "WITH", "VALUES")
    return isinstance(following, Leaf) and following.text == "."
