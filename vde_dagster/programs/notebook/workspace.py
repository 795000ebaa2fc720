"""A workspace with repeatable reads: each environment is pinned when it is first read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vde_dagster.errors import UsageError
from vde_dagster.execution.published_version import named_environment, published_version
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.environment import environment_name
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.programs.notebook.results import Rows, as_arrow
from vde_dagster.programs.notebook.step_workspace import StepWorkspace


class NotebookWorkspace(Workspace):
    """A workspace that reads each environment at one pinned version."""

    @property
    def pins(self) -> dict[str, int]:
        """The pinned version of each environment that was read."""
        return self.__dict__.setdefault("_pins", {})  # type: ignore[no-any-return]

    def pin(self, environment: str) -> str:
        """Pin an environment to a version, and return the version, such as `dev@9`.

        Args:
            environment: Optionally with a version or a time: `dev@9`, `dev@2026-11-01`.

        Raises:
            UsageError: The environment or version does not exist.
        """
        found = published_version(self.store, environment)
        found = found or named_environment(self, environment)
        self.pins[found.name] = found.version
        return f"{found.name}@{found.version}"

    def pinned(self, environment: str) -> str:
        """Return an environment's pin, such as `dev@9`. Without a pin, pin its newest version."""
        if "@" in environment:
            return environment
        name = environment_name(environment)
        return f"{name}@{self.pins[name]}" if name in self.pins else self.pin(environment)

    def read(
        self,
        model: str,
        environment: str = "prod",
        columns: Sequence[str] = (),
        *,
        where: str | None = None,
        order_by: Sequence[str] = (),
        limit: int | None = None,
    ) -> Rows:
        """Read rows of a model that has a table, without Spark; see `read_rows`."""
        shown = self.pinned(environment)
        rows = self.queries.read(shown, model, columns, where=where, order_by=order_by, limit=limit)
        return Rows(rows, shown)

    def ask(self, environment: str, sql: str, limit: int | None = None) -> Rows:
        """Run a query on an environment with Spark; see `Queries.run`."""
        shown = self.pinned(environment)
        answer = self.queries.run_arrow(shown, sql, limit)
        return Rows(answer.value, shown, answer.read_live)

    def yields(self, rows: Any) -> Rows:
        """Show rows. When the notebook runs as a model, they become the rows of the model's table.

        Raises:
            UsageError: The rows are not from Arrow, pandas, Polars or another Arrow library.
        """
        return Rows(as_arrow(rows), "the model, once the notebook runs as a step")

    def plan(self, environment: str, options: PlanOptions | None = None, **said: Any) -> Plan:
        """Plan the current files for an environment, with the arguments of `Workspace.plan`."""
        self.reload()
        given = () if options is None else (options,)
        return super().plan(environment, *given, **said)

    def apply(self, plan: Plan, **how: Any) -> Any:
        """Apply a plan, and move the pin of its environment to the published version."""
        done = super().apply(plan, **how)
        if done.environment is not None and plan.environment in self.pins:
            self.pin(plan.environment)
        return done


def require_workspace(value: object) -> NotebookWorkspace | StepWorkspace:
    """Return the notebook's variable `workspace`, or raise UsageError if it has another type."""
    if not isinstance(value, NotebookWorkspace | StepWorkspace):
        raise UsageError(
            "the variable 'workspace' was overwritten and is no longer a notebook workspace",
            hint="create it again: %reload_ext vde_dagster",
        )
    return value
