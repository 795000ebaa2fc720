"""Up to which version of an environment consumers have taken a model's changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ConflictError
from vde_dagster.state import schema
from vde_dagster.state.database import Database
from vde_dagster.state.rows import upsert

_CURSOR = schema.change_cursors.c


@dataclass(frozen=True, slots=True)
class ChangeCursor:
    """A consumer's place in the changes of a model.

    Args:
        environment: The environment.
        model: The model.
        name: What the consumer calls it.
        version: The last version whose changes it has.
        moved_at: When it said so (UTC).
        moved_by: Who.
    """

    environment: str
    model: ModelName
    name: str
    version: int
    moved_at: datetime
    moved_by: str


@dataclass(frozen=True, slots=True)
class ChangeCursorStore:
    """Reading and moving cursors.

    Args:
        database: Where they are.
    """

    database: Database

    def version(self, environment: str, model: ModelName, name: str) -> int:
        """Return the version that a cursor is at; 0 for one that nobody has moved."""
        query = select(_CURSOR.version).where(*_is(environment, model, name))
        with self.database.reading() as conn:
            return conn.execute(query).scalar() or 0

    def of(self, environment: str, model: ModelName) -> list[ChangeCursor]:
        """Return the cursors of a model in an environment, by name."""
        query = (
            select(schema.change_cursors)
            .where(
                _CURSOR.environment == environment,
                _CURSOR.model_namespace == model.namespace,
                _CURSOR.model_name == model.name,
            )
            .order_by(_CURSOR.name)
        )
        with self.database.reading() as conn:
            return [
                ChangeCursor(
                    row.environment,
                    ModelName(row.model_namespace, row.model_name),
                    row.name,
                    row.version,
                    row.moved_at,
                    row.moved_by,
                )
                for row in conn.execute(query)
            ]

    def move(
        self, environment: str, model: ModelName, name: str, since: int, until: int, who: str
    ) -> None:
        """Note that a consumer has the changes from one version to another; twice is once.

        Raises:
            ConflictError: The cursor is at neither of them: somebody else moved it.
        """
        here = _is(environment, model, name)

        def work(conn: Connection) -> None:
            query = select(_CURSOR.version).where(*here).with_for_update()
            found = conn.execute(query).scalar()
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
            statement = upsert(conn, schema.change_cursors).values(**row)
            if conn.execute(statement.on_conflict_do_nothing()).rowcount == 0:
                raise _moved(environment, model, name, f"is no longer at {since}")

        self._run(work, "state.cursor_moved")

    def forget(self, environment: str, model: ModelName, name: str) -> bool:
        """Forget a cursor; say whether there was one."""
        here = _is(environment, model, name)
        found: list[int] = []

        def work(conn: Connection) -> None:
            found.append(conn.execute(delete(schema.change_cursors).where(*here)).rowcount)

        self._run(work, "state.cursor_forgotten")
        return bool(found[-1])

    def _run(self, work: Callable[[Connection], None], name: str) -> None:
        self.database.run_transaction(work, name=name)


def _moved(environment: str, model: ModelName, name: str, where: str) -> ConflictError:
    return ConflictError(
        f"the cursor '{name}' of {model} in '{environment}' {where}: somebody else has moved it",
        hint="take the changes since then, and let one consumer at a time use a cursor",
    )


def _is(environment: str, model: ModelName, name: str) -> tuple[ColumnElement[bool], ...]:
    return (
        _CURSOR.environment == environment,
        _CURSOR.model_namespace == model.namespace,
        _CURSOR.model_name == model.name,
        _CURSOR.name == name,
    )
