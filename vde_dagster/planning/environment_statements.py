"""Statements of the settings around all that a plan does: `before_all` and `after_all`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from vde_dagster.base.names import ModelName
from vde_dagster.project.macros.time_variables import (
    substitute_time_variables,
    time_variable_values,
)

AFTER_ALL = ModelName("settings", "after_all")
"""Stands for a model where statements wait that belong to none."""


@dataclass(frozen=True, slots=True)
class EnvironmentStatements:
    """What runs before and after everything else that is done to an environment.

    Args:
        before: Spark SQL in which only time variables are left.
        after: The same, of what runs once the views are published.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.before or self.after)

    def map(self, change: Callable[[str], str]) -> EnvironmentStatements:
        """Return them with each text changed."""
        return EnvironmentStatements(
            tuple(map(change, self.before)), tuple(map(change, self.after))
        )

    def at(
        self, now: datetime, start: datetime | None, end: datetime | None
    ) -> EnvironmentStatements:
        """Return them as complete Spark SQL.

        Args:
            now: The instant of the plan (UTC).
            start: The start that the plan was asked for (UTC); else the last whole day's.
            end: Its exclusive end (UTC).
        """
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        values = time_variable_values(start or day - timedelta(days=1), end or day, now)
        return self.map(lambda text: substitute_time_variables(text, values))


NO_STATEMENTS = EnvironmentStatements()
