"""Versions that changed a model's rows, and the cursors of consumers of these changes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, ScalarResult, delete, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, lock_rows
from vde_dagster.state.db.rows import is_model, upsert, value_from_row

_ENTRY, _PIN = schema.entries.c, schema.pins.c


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Consecutive versions of an environment with the same rows of a model.

    Args:
        first: The first of these versions.
        end: The first version after them, or None.
        shown: Whether the versions have the model.
    """

    first: int
    end: int | None
    table_id: str | None
    shown: bool = True


def version_ranges(database: Database, environment: str, model: ModelName) -> list[VersionRange]:
    """Divide an environment's versions into ranges with the same rows of a model, oldest first.

    For a model without a table, new rows of its parents do not begin a range.
    """
    entries = (
        select(_ENTRY.valid_from, _ENTRY.valid_to, _ENTRY.table_id)
        .where(_ENTRY.environment == environment, is_model(schema.entries, model))
        .order_by(_ENTRY.valid_from)
    )
    found: list[VersionRange] = []
    with database.reading() as conn:
        rows: Sequence[Any] = conn.execute(entries).all()
        for since, until, table_id in rows:
            pins = select(_PIN.valid_from).where(
                _PIN.environment == environment, _PIN.table_id == table_id, _PIN.valid_from > since
            )
            if until is not None:
                pins = pins.where(_PIN.valid_from < until)
            later: ScalarResult[int] = conn.execute(pins).scalars()
            firsts = [since, *sorted(later)]
            if found and found[-1].end is not None and found[-1].end < since:
                found.append(VersionRange(found[-1].end, since, None, shown=False))
            found += [
                VersionRange(first, end, table_id)
                for first, end in zip(firsts, [*firsts[1:], until], strict=True)
            ]
    return found


_CURSOR = schema.change_cursors.c


@dataclass(frozen=True, slots=True)
class ChangeCursor:
    """A consumer's position in the changes of a model: the last processed version."""

    environment: str
    model: ModelName
    name: str
    version: int
    moved_at: datetime
    moved_by: str


@dataclass(frozen=True, slots=True)
class ChangeCursorStore:
    database: Database

    def version(self, environment: str, model: ModelName, name: str) -> int:
        """Return the last version that a consumer has processed, or 0 for a new consumer."""
        query = select(_CURSOR.version).where(*_is(environment, model, name))
        return self.database.value(query) or 0

    def for_model(self, environment: str, model: ModelName) -> list[ChangeCursor]:
        query = select(schema.change_cursors).where(*_is(environment, model)).order_by(_CURSOR.name)
        return [value_from_row(ChangeCursor, row, model=model) for row in self.database.rows(query)]

    def move(
        self, environment: str, model: ModelName, name: str, since: int, until: int, who: str
    ) -> None:
        """Move a cursor from one version to another. Repeating the call has no effect.

        Raises:
            ConflictError: The cursor is at neither version: another consumer moved it.
        """
        here = _is(environment, model, name)

        def work(conn: Connection) -> None:
            found = lock_rows(conn, select(_CURSOR.version).where(*here)).scalar()
            at = found or 0
            if at == until:
                return
            if at != since:
                raise _moved(environment, model, name, f"is at version {at}, not at {since}")
            said = {"version": until, "moved_at": self.database.clock.now(), "moved_by": who}
            if found is not None:
                conn.execute(update(schema.change_cursors).where(*here).values(**said))
                return
            place = {"model_namespace": model.namespace, "model_name": model.name, "name": name}
            row = {"environment": environment, **place, **said}
            if not upsert(conn, schema.change_cursors, [row]):
                raise _moved(environment, model, name, f"is no longer at {since}")

        self.database.run_transaction(work, name="state.cursor_moved")

    def forget(self, environment: str, model: ModelName, name: str) -> bool:
        """Delete a cursor, and return whether it existed."""
        gone = delete(schema.change_cursors).where(*_is(environment, model, name))
        return self.database.run_transaction(
            lambda conn: conn.execute(gone).rowcount > 0, name="state.cursor_forgotten"
        )


def _moved(environment: str, model: ModelName, name: str, where: str) -> ConflictError:
    return ConflictError(
        f"the cursor '{name}' of {model} in '{environment}' {where}: another consumer moved it",
        hint="read the changes since the cursor's version, and let only one consumer use a cursor",
    )


def _is(environment: str, model: ModelName, *name: str) -> tuple[ColumnElement[bool], ...]:
    return (
        _CURSOR.environment == environment,
        is_model(schema.change_cursors, model),
        *(_CURSOR.name == one for one in name),
    )
