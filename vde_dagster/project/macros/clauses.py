"""Clauses that a condition switches on and off: `@WHERE(@filtered) a > 1`.

`@WITH @JOIN @WHERE @GROUP_BY @HAVING @ORDER_BY @LIMIT`, as in SQLMesh (sqlmesh_macros.md there,
"SQL clause operators"). A clause that is off is left out up to where the next one begins.
"""

from __future__ import annotations

import re

from vde_dagster.sql.scanner import CLOSING, OPENING, Token

CLAUSES = {
    "with": "WITH",
    "join": "JOIN",
    "where": "WHERE",
    "group_by": "GROUP BY",
    "having": "HAVING",
    "order_by": "ORDER BY",
    "limit": "LIMIT",
}

_SETS = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS"})
_TAIL = _SETS | {"ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "FETCH", "WINDOW"}
_HEAD = _TAIL | {"WHERE", "GROUP", "HAVING", "QUALIFY"}
_JOINS = frozenset(
    {"JOIN", "LEFT", "RIGHT", "FULL", "INNER", "CROSS", "NATURAL", "LATERAL", "SEMI", "ANTI"}
)
_ENDS: dict[str, frozenset[str]] = {
    "with": frozenset({"SELECT", "FROM", "VALUES", "INSERT", "MERGE", "TABLE"}),
    "join": _HEAD | _JOINS,
    "where": _HEAD - {"WHERE"},
    "group_by": _TAIL | {"HAVING", "QUALIFY"},
    "having": _TAIL | {"QUALIFY"},
    "order_by": _TAIL - {"ORDER"},
    "limit": _SETS | {"OFFSET"},
}
_SIDES = re.compile(
    r"\b(?:(?:LEFT|RIGHT|FULL|INNER|OUTER|CROSS|NATURAL|SEMI|ANTI)\s+)+$", re.IGNORECASE
)


def clause_end(tokens: list[Token], clause: str, end: int) -> int:
    """Find where a clause ends.

    Args:
        tokens: What follows the operator's call, without comments.
        clause: One of `CLAUSES`.
        end: Where the text ends.

    Returns:
        The offset of what begins behind the clause.
    """
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind == "punct":
            depth += (token.text in OPENING) - (token.text in CLOSING)
        if depth < 0 or (depth == 0 and _ends(tokens, index, clause)):
            return token.start
    return end


def without_sides(text: str) -> str:
    """Take what says the kind of a join off the end of a text."""
    return _SIDES.sub("", text)


def _ends(tokens: list[Token], index: int, clause: str) -> bool:
    token = tokens[index]
    before = tokens[index - 1].text if index else ""
    behind = tokens[index + 1] if index + 1 < len(tokens) else None
    if token.text == "@":
        return behind is not None and behind.text.lower() in CLAUSES
    if token.kind == "word" and token.text.upper() in _ENDS[clause]:
        # `left(a, 1)` is a function, and `t.limit` a column.
        is_call = token.text.upper() in ("LEFT", "RIGHT") and behind and behind.text == "("
        return before != "." and not is_call
    return token.text == ";" or (token.text == "," and clause == "join")
