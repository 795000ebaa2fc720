"""SQL statements to run around every run of an environment, or once after a publication.

The publish transaction records both. A statement to run once is deleted when it has run. If the
process dies before, the next process that works on the environment runs the statement.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan.plan import NO_STATEMENTS, EnvironmentStatements
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database

_ROWS = schema.journal


@dataclass(frozen=True, slots=True)
class WaitingStatement:
    """An SQL statement of a model that must run after its view was published."""

    number: int
    model: ModelName
    statement: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class StatementStore:
    database: Database

    def around_runs(
        self, environment: str, connection: Connection | None = None
    ) -> EnvironmentStatements:
        """Return the statements to run before and after each run of an environment."""
        query = select(_ROWS.c.detail).where(_ROWS.c.step == _around(environment))
        found = self.database.value(query, connection)
        return EnvironmentStatements(*map(tuple, json.loads(found))) if found else NO_STATEMENTS

    def put_around_runs(
        self, connection: Connection, environment: str, statements: EnvironmentStatements
    ) -> None:
        """Store, in a publication's transaction, statements to run before and after each run."""
        if self.around_runs(environment, connection) == statements:
            return
        self._delete(connection, _ROWS.c.step == _around(environment))
        if statements:
            detail = [statements.before, statements.after]
            connection.execute(insert(_ROWS), [self._row("", _around(environment), detail)])

    def intend(
        self,
        connection: Connection,
        environment: str,
        plan_id: str | None,
        statements: Iterable[tuple[ModelName, str]],
    ) -> None:
        """Store, in a publication's transaction, the statements to run after the publication.

        Earlier statements of the same models that have not run yet are deleted.
        """
        listed = list(statements)
        models, waiting = {model for model, _ in listed}, self.waiting(environment, connection)
        outdated = [one.number for one in waiting if one.model in models]
        self._delete(connection, _ROWS.c.seq.in_(outdated))
        if listed:
            rows = [
                self._row(plan_id or "", _once_published(environment), [*model, statement, None])
                for model, statement in listed
            ]
            connection.execute(insert(_ROWS), rows)

    def waiting(
        self, environment: str, connection: Connection | None = None
    ) -> list[WaitingStatement]:
        """Return the statements that must still run after a publication, oldest first."""
        query = (
            select(_ROWS.c.seq, _ROWS.c.detail)
            .where(_ROWS.c.step == _once_published(environment))
            .order_by(_ROWS.c.seq)
        )
        out = []
        for row in self.database.rows(query, connection):
            namespace, name, *rest = json.loads(row.detail)
            out.append(WaitingStatement(row.seq, ModelName(namespace, name), *rest))
        return out

    def done(self, statement: WaitingStatement) -> None:
        """Delete a statement that has run. May be repeated."""
        self.database.run_transaction(
            lambda conn: self._delete(conn, _ROWS.c.seq == statement.number),
            name="state.virtual_update_done",
        )

    def failed(self, statement: WaitingStatement, why: str) -> None:
        """Store the reason why a statement failed. The statement stays waiting."""
        detail = json.dumps([*statement.model, statement.statement, why])
        changed = update(_ROWS).where(_ROWS.c.seq == statement.number).values(detail=detail)
        self.database.run_transaction(
            lambda conn: conn.execute(changed), name="state.virtual_update_failed"
        )

    def forget(self, connection: Connection, environment: str) -> None:
        steps = _once_published(environment), _around(environment)
        self._delete(connection, _ROWS.c.step.in_(steps))

    def _row(self, plan_id: str, step: str, detail: list[Any]) -> dict[str, Any]:
        now = self.database.clock.now()
        return {"plan_id": plan_id, "step": step, "detail": json.dumps(detail), "at": now}

    def _delete(self, connection: Connection, which: ColumnElement[bool]) -> None:
        if connection.execute(select(_ROWS.c.seq).where(which).limit(1)).first() is not None:
            connection.execute(delete(_ROWS).where(which))


def _once_published(environment: str) -> str:
    return f"on virtual update {environment}"


def _around(environment: str) -> str:
    return f"before and after all {environment}"
