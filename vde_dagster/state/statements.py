"""Every statement that changes something in a writing transaction passes the port by its name.

A transaction is all or nothing whatever happens inside it, so its commit is the effect that
matters; the statements pass as well because code runs between them, and code can be wrong.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, event

from vde_dagster.state.effects import Effects, NoEffects

_CHANGES = re.compile(
    r"""\s*(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s
    (?:(?:INTO|FROM|UNIQUE|TABLE|INDEX|IF|NOT|EXISTS)\s+)*["`]?(\w+)""",
    re.IGNORECASE | re.VERBOSE,
)


def announce_statements(connection: Connection, effects: Effects, transaction: str) -> None:
    """Let a connection's statements pass the port as `<transaction>.<verb> <table>`.

    Args:
        connection: The transaction's connection.
        effects: The port; the one of production costs a statement nothing.
        transaction: What the transaction is for.
    """
    if isinstance(effects, NoEffects):
        return

    def before(
        conn: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
    ) -> None:
        change = _CHANGES.match(statement)
        if change is None:
            return
        verb, table = change.groups()
        passage: AbstractContextManager[None] = effects.at(f"{transaction}.{verb.lower()} {table}")
        passage.__enter__()
        context.vde_passage = passage

    event.listen(connection, "before_cursor_execute", before)
    event.listen(connection, "after_cursor_execute", _after)


def _after(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    passage = getattr(context, "vde_passage", None)
    if passage is None:
        return
    try:
        passage.__exit__(None, None, None)
    except BaseException:
        # The connection is given up with its cursor open, which would keep SQLite's lock.
        cursor.close()
        raise
