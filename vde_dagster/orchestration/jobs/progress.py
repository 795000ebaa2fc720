"""The progress of the main job on a terminal, drawn on stderr."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.execution.events import (
    AuditFinished,
    Event,
    IntervalFilled,
    MemoryLacked,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Published,
    UnitTestFinished,
)
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.snapshot import Snapshot

if TYPE_CHECKING:
    from rich.console import Console


class MainJobProgress:
    """One bar over all intervals, and a line per finished model.

    Args:
        console: A console on stderr; without a terminal only the lines are printed.
        plan: The plan that is applied.
    """

    def __init__(self, console: Console, plan: Plan) -> None:
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        self._console = console
        self._rows: dict[ModelName, int] = {}
        self._working: set[str] = set()
        total = sum(
            _units(plan.snapshots[model.snapshot_id or ""], interval)
            for model in plan.builds
            for interval in model.intervals
        )
        self._bar = Progress(
            SpinnerColumn(),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("intervals"),
            TimeElapsedColumn(),
            TextColumn("{task.description}"),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("starting Spark", total=total)

    def __enter__(self) -> MainJobProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def show(self, event: Event) -> None:
        """Show one event."""
        if isinstance(event, UnitTestFinished) and not event.result.passed:
            self._print(f"[red]✗[/] {event.snapshot.name}: {event.result.test.name} failed")
        elif isinstance(event, ModelStarted):
            self._working.add(str(event.snapshot.name))
        elif isinstance(event, IntervalFilled):
            name = event.snapshot.name
            self._rows[name] = self._rows.get(name, 0) + (event.result.rows or 0)
            self._bar.advance(self._task, _units(event.snapshot, event.interval))
        elif isinstance(event, AuditFinished) and event.result.failed_rows:
            self._print(
                f"[yellow]![/] {event.snapshot.name}: audit {event.audit.name} "
                f"found {event.result.failed_rows:,} rows"
            )
        elif isinstance(event, MemoryLacked):
            self._print(f"[yellow]![/] {event.text}")
        elif isinstance(event, ModelFinished):
            name = event.snapshot.name
            self._working.discard(str(name))
            rows = f", {self._rows[name]:,} rows" if self._rows.get(name) else ""
            self._print(f"[green]✓[/] {name}{rows}, {event.seconds:.1f} s")
        elif isinstance(event, ModelFailed):
            self._working.discard(str(event.name))
            self._print(f"[red]✗[/] {event.name} failed")
        elif isinstance(event, Published):
            self._working.clear()
        self._bar.update(self._task, description=", ".join(sorted(self._working)))

    def _print(self, text: str) -> None:
        self._console.print(text, highlight=False)


def _units(snapshot: Snapshot, interval: Interval) -> int:
    if not snapshot.is_incremental:
        return 1
    return max(snapshot.cadence.unit.count(interval), 1)
