"""Statements of the settings around runs, and those of models that run once views are published.

They are written in the publish transaction, so a process that dies behind it leaves them to
whoever works on the environment next. A row goes when its statement has run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from vde_dagster.base.names import ModelName
from vde_dagster.planning.plan.plan import NO_STATEMENTS, EnvironmentStatements
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database

_ROWS = schema.journal


@dataclass(frozen=True, slots=True)
class WaitingStatement:
    """A statement that has yet to run.

    Args:
        number: Its place among all statements of the store.
        statement: Complete Spark SQL.
    """

    number: int
    model: ModelName
    statement: str
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class VirtualUpdateStore:
    """Writing down and crossing off statements."""

    database: Database

    def intend(
        self,
        connection: Connection,
        environment: str,
        plan_id: str | None,
        statements: Iterable[tuple[ModelName, str]],
    ) -> None:
        """Write down what is to run, in the publish transaction.

        What an earlier publication left to do for the same models is replaced.
        """
        listed = list(statements)
        models = {model for model, _ in listed}
        outdated = [
            one.number for one in self.waiting(environment, connection) if one.model in models
        ]
        self._delete(connection, outdated)
        if listed:
            now = self.database.clock.now()
            connection.execute(
                insert(_ROWS),
                [
                    {
                        "plan_id": plan_id or "",
                        "step": _step(environment),
                        "detail": json.dumps([model.namespace, model.name, statement, None]),
                        "at": now,
                    }
                    for model, statement in listed
                ],
            )

    def waiting(
        self, environment: str, connection: Connection | None = None
    ) -> list[WaitingStatement]:
        """Return the statements that have yet to run for an environment, in order."""
        query = (
            select(_ROWS.c.seq, _ROWS.c.detail)
            .where(_ROWS.c.step == _step(environment))
            .order_by(_ROWS.c.seq)
        )
        with self.database.reading(connection) as conn:
            rows = conn.execute(query).all()
        out = []
        for row in rows:
            namespace, name, statement, failure = json.loads(row.detail)
            out.append(WaitingStatement(row.seq, ModelName(namespace, name), statement, failure))
        return out

    def done(self, statement: WaitingStatement) -> None:
        """Record that a statement has run; twice is harmless."""
        self.database.run_transaction(
            lambda conn: self._delete(conn, [statement.number]), name="state.virtual_update_done"
        )

    def failed(self, statement: WaitingStatement, why: str) -> None:
        """Record why a statement failed; it is run again."""
        model = statement.model
        detail = json.dumps([model.namespace, model.name, statement.statement, why])
        self.database.run_transaction(
            lambda conn: conn.execute(
                update(_ROWS).where(_ROWS.c.seq == statement.number).values(detail=detail)
            ),
            name="state.virtual_update_failed",
        )

    def forget(self, connection: Connection, environment: str) -> None:
        """Forget what has yet to run, in the transaction that ends the environment."""
        self._delete(connection, [one.number for one in self.waiting(environment, connection)])

    def _delete(self, connection: Connection, numbers: list[int]) -> None:
        if numbers:
            connection.execute(delete(_ROWS).where(_ROWS.c.seq.in_(numbers)))


def _step(environment: str) -> str:
    return f"on virtual update {environment}"


@dataclass(frozen=True, slots=True)
class EnvironmentStatementStore:
    """Reading and writing them."""

    database: Database

    def get(self, environment: str, connection: Connection | None = None) -> EnvironmentStatements:
        """Return the statements before and after all else, if any."""
        query = select(_ROWS.c.detail).where(_ROWS.c.step == _run_step(environment))
        with self.database.reading(connection) as conn:
            found = conn.execute(query).scalars().first()
        return EnvironmentStatements(*map(tuple, json.loads(found))) if found else NO_STATEMENTS

    def put(
        self, connection: Connection, environment: str, statements: EnvironmentStatements
    ) -> None:
        """Write them down, in the publish transaction."""
        if self.get(environment, connection) == statements:
            return
        self.forget(connection, environment)
        if statements:
            row = {
                "plan_id": "",
                "step": _run_step(environment),
                "detail": json.dumps([statements.before, statements.after]),
                "at": self.database.clock.now(),
            }
            connection.execute(insert(_ROWS), [row])

    def forget(self, connection: Connection, environment: str) -> None:
        """Forget them, in the transaction that ends the environment."""
        if self.get(environment, connection):
            connection.execute(delete(_ROWS).where(_ROWS.c.step == _run_step(environment)))


def _run_step(environment: str) -> str:
    return f"before and after all {environment}"
