"""Which tokens of a text belong to a macro's call."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.sql.scanner import CLOSING, OPENING, Token


def is_glued(before: str) -> bool:
    """Say whether a variable goes on with a name: `k_@x`."""
    return bool(before) and (before[-1].isalnum() or before[-1] == "_")


def call_length(tokens: list[Token]) -> int:
    """Count the tokens of a macro call that cannot be expanded."""
    name = tokens[1]
    called = len(tokens) > 2 and tokens[2].text == "(" and tokens[2].start == name.end
    return len(tokens) if called or name.text == "{" else 2


def call_tokens(tokens: Iterable[Token]) -> list[Token]:
    """Take what may belong to one macro call: `@`, a name, and all that brackets hold."""
    taken: list[Token] = []
    depth = 0
    for token in tokens:
        if token.kind == "comment":
            continue
        taken.append(token)
        depth += (token.text in OPENING) - (token.text in CLOSING)
        if len(taken) > 2 and depth <= 0:
            break
    return taken
