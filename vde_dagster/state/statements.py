"""Every statement that changes something in a writing transaction passes the port by its name.

A transaction is all or nothing whatever happens inside it, so its commit is the effect that
matters; the statements pass as well because code runs between them, and code can be wrong.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from typing import Any

from sqlalchemy import Connection, Engine, event

from vde_dagster.state.effects import Effects, NoEffects

_OPTION = "vde_passing"
_CHANGES = re.compile(
    r"""\s*(INSERT|UPDATE|DELETE|CREATE|ALTER|DROP)\s
    (?:(?:INTO|FROM|UNIQUE|TABLE|INDEX|IF|NOT|EXISTS)\s+)*["`]?(\w+)""",
    re.IGNORECASE | re.VERBOSE,
)


def passing(connection: Connection, effects: Effects, transaction: str) -> Connection:
    """Let a connection's statements pass the port as `<transaction>.<verb> <table>`.

    Args:
        connection: The transaction's connection.
        effects: The port; the one of production costs a statement nothing.
        transaction: What the transaction is for.
    """
    if isinstance(effects, NoEffects):
        return connection
    return connection.execution_options(**{_OPTION: (effects, transaction)})


def announce_statements(engine: Engine) -> None:
    """Tell the port before and after each statement of the connections that pass it."""
    event.listen(engine, "before_cursor_execute", _before)
    event.listen(engine, "after_cursor_execute", _after)


def _before(
    connection: Connection, cursor: Any, statement: str, parameters: Any, context: Any, many: bool
) -> None:
    effects, transaction = connection.get_execution_options().get(_OPTION, (None, ""))
    change = _CHANGES.match(statement) if effects is not None else None
    if change is None:
        return
    verb, table = change.groups()
    passage: AbstractContextManager[None] = effects.at(f"{transaction}.{verb.lower()} {table}")
    passage.__enter__()
    context.vde_passage = passage


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
