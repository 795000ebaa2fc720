"""What an environment was last published to run before and after all else, for its runs."""

from __future__ import annotations

import json
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select

from vde_dagster.planning.environment_statements import NO_STATEMENTS, EnvironmentStatements
from vde_dagster.state import schema
from vde_dagster.state.database import Database

_ROWS = schema.journal


@dataclass(frozen=True, slots=True)
class EnvironmentStatementStore:
    """Reading and writing them.

    Args:
        database: Where they are.
    """

    database: Database

    def get(self, environment: str, connection: Connection | None = None) -> EnvironmentStatements:
        """Return what runs before and after all else; nothing where nobody said so."""
        query = select(_ROWS.c.detail).where(_ROWS.c.step == _step(environment))
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
                "step": _step(environment),
                "detail": json.dumps([statements.before, statements.after]),
                "at": self.database.clock.now(),
            }
            connection.execute(insert(_ROWS), [row])

    def forget(self, connection: Connection, environment: str) -> None:
        """Forget them, in the transaction that ends the environment."""
        if self.get(environment, connection):
            connection.execute(delete(_ROWS).where(_ROWS.c.step == _step(environment)))


def _step(environment: str) -> str:
    return f"before and after all {environment}"
