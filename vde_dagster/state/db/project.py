"""The project that a state belongs to: that of its first publication."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection, insert, select, update

from vde_dagster.errors import UsageError
from vde_dagster.project.settings import ProjectIdentity
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database

_ROW = schema.project


@dataclass(slots=True)
class ProjectStore:
    """Comparing a project with the one that the state belongs to, and writing down whose it is.

    Args:
        own: The project that the store was opened for, or None for nobody's.
    """

    database: Database
    own: ProjectIdentity | None = None

    def owner(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Return the project that the state belongs to, or None before the first publication."""
        query = select(_ROW.c.project_id, _ROW.c.name, _ROW.c.named)
        with self.database.reading(connection) as conn:
            row = conn.execute(query).one_or_none()
        if row is None:
            return None
        return ProjectIdentity(row.project_id, row.name, row.named)

    def is_new(self) -> bool:
        """Say whether nothing was ever made or published here."""
        with self.database.reading() as conn:
            return not any(
                conn.execute(select(table).limit(1)).first()
                for table in (_ROW, schema.environments, schema.tables)
            )

    def require_own(self, connection: Connection | None = None) -> ProjectIdentity | None:
        """Return the owner, if that may be the project that the store was opened for.

        Raises:
            UsageError: The state belongs to another project.
        """
        owner = self.owner(connection)
        if owner is None or self.own is None or not self.own.is_other(owner):
            return owner
        line = f'id = "{owner.id}"' if owner.id else f'name = "{owner.name}"'
        url = self.database.engine.url.render_as_string(hide_password=True)
        raise UsageError(
            f"the state store {url} belongs to the project {owner}, and this is the project "
            f"{self.own}: nothing was changed",
            hint=f"go to the folder of '{owner.name}' (--project), or give this project a state of "
            "its own (the setting state_url, or VDE_STATE_URL); if both are the same project, "
            f"write {line} below [tool.vde] in pyproject.toml",
        )

    def adopt(self, connection: Connection) -> None:
        """Let the state belong to the project from this publication on.

        Raises:
            UsageError: It belongs to another project.
        """
        owner = self.require_own(connection)
        own = self.own
        if own is None:
            return
        if owner is None:
            values = {"project_id": own.id, "name": own.name, "named": own.named}
            row = {"number": 1, **values, "since": self.database.clock.now()}
            connection.execute(insert(_ROW), [row])
        elif (known := own.or_known(owner)) != owner:
            values = {"project_id": known.id, "name": known.name, "named": known.named}
            connection.execute(update(_ROW).values(**values))
