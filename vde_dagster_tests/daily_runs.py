"""A project over tables of others, whose production runs day by day on Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.table_contents import InputState
from vde_dagster_tests.projects import ProjectFolder


class DailyRuns:
    """A project, production, and the present.

    Args:
        sources: Statements that make the tables of others, in the namespace `raw`.
    """

    def __init__(self, root: Path, files: Mapping[str, str], *sources: str) -> None:
        self.folder = ProjectFolder(root, files)
        self.workspace = Workspace.open(root)
        self.now = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
        self.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.raw")
        for text in sources:
            self.sql(text)
        self.publish()

    def sql(self, text: str) -> None:
        """Let somebody else do something."""
        self.workspace.engine().session.sql(text)  # type: ignore[attr-defined]

    def publish(self, **options: tuple[str, ...]) -> dict[str, int | None]:
        """Publish what the files say now, or what the options ask for."""
        self.workspace.reload()
        return self._filled(self.apply(self.workspace.plan("prod", now=self.now, **options)))

    def run(self) -> dict[str, int | None]:
        """Run the next day; return how many rows were written, by model; None where skipped."""
        return self._filled(self.tick())

    def tick(self) -> list[Event]:
        """Run the next day, model by model; return what happened."""
        self.now += timedelta(days=1)
        return self.apply(self.workspace.plans.due("prod", now=self.now))

    def apply(self, plan: Plan) -> list[Event]:
        """Apply a plan, model by model; return what happened."""
        events: list[Event] = []
        self.workspace.apply(plan, on_event=events.append, concurrency=1)
        return events

    def _filled(self, events: Iterable[Event]) -> dict[str, int | None]:
        filled = [event for event in events if isinstance(event, IntervalFilled)]
        return {str(e.snapshot.name): None if e.skipped else e.result.rows for e in filled}

    def inputs(self, model: str) -> Mapping[str, InputState]:
        """Return what the last fill of a model read."""
        entry = self.workspace.store.environments.get("prod").entries[ModelName.parse(model)]
        assert entry.table_id is not None
        fill = self.workspace.store.fills.latest([entry.table_id])[entry.table_id]
        return fill.facts.inputs or {}
