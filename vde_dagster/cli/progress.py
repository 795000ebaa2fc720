"""Progress of an apply as bars on stderr: one for all intervals, and a line per running model."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count
from vde_dagster.execution import events
from vde_dagster.planning.changes.refresh import Refresh
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.document import count_units, format_range

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, Task, TaskID


class ApplyProgress:
    """Displays an apply's events: bars on a terminal, otherwise a line per model."""

    def __init__(self, console: Console, plan: Plan) -> None:
        self._units = {
            model.name: count_units(plan.snapshots[model.snapshot_id or ""], model.intervals)
            for model in plan.builds
        }
        self._skipped: set[ModelName] = set()
        self._refreshes: dict[ModelName, Refresh] = {}
        self._finished = 0
        self._bars = _bars(console, shown=console.is_terminal and bool(self._units))
        self._all = self._bars.add_task("all", total=sum(self._units.values()))
        self._tasks: dict[ModelName, TaskID] = {}

    def __enter__(self) -> ApplyProgress:
        self._bars.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bars.stop()

    def show(self, event: events.Event) -> None:
        match event:
            case events.ApplyStarted() if total := sum(self._units.values()):
                models = count(len(self._units), "model")
                work = "recording as filled" if event.plan.recorded else "computing"
                self._print(f"{work} {models}, {count(total, 'interval')}")
            case events.UnitTestFinished(result=result) if not result.passed:
                self._print(f"[red]{event.snapshot.name}: {result.test.name} failed[/]")
            case events.UnitTestFinished(remembered=False):
                test = event.result.test.name
                self._print(f"{event.snapshot.name}: {test} [dim]passed[/]")
            case events.ModelStarted():
                self._start(event)
            case events.IntervalFilled():
                self._advance(event)
            case events.AuditFinished() if event.result.failed_rows:
                self._audit(event)
            case events.MemoryLacked():
                self._print(f"[yellow]{event.text}[/]")
            case events.ModelFinished():
                self._finish(event)
            case events.ModelFailed():
                self._hide(event.name)
                self._print(f"[red]{event.name} failed[/]")
                if event.skipped:
                    self._print(
                        f"[yellow]therefore skipped: {', '.join(map(str, event.skipped))}[/]"
                    )
            case events.VirtualUpdateRan(error=None):
                from rich.markup import escape

                self._print(f"{event.model}: [dim]{escape(event.statement)}[/]")
            case events.Published():
                environment = event.environment
                self._print(
                    f"published [bold]{environment.name}[/] version {environment.version} "
                    f"in {event.seconds:.1f} s"
                )

    def _task(self, name: ModelName) -> Task:
        # The bar is visible from the model's start to its end.
        if name not in self._tasks:
            total = self._units.get(name, 0)
            self._tasks[name] = self._bars.add_task(str(name), total=total, visible=False)
        return self._bars.tasks[self._tasks[name]]

    def _start(self, event: events.ModelStarted) -> None:
        task = self._task(event.snapshot.name)
        before = int(task.completed)
        self._bars.reset(task.id, visible=True)
        # Intervals of an earlier attempt are no longer missing.
        missing = count_units(event.snapshot, event.missing)
        self._count(task, before, int(task.total or 0) - missing)

    def _advance(self, event: events.IntervalFilled) -> None:
        name = event.snapshot.name
        from rich.markup import escape

        for note in event.result.notes:
            self._print(f"[yellow]{escape(note)}[/]")
        if event.skipped is not None:
            self._skipped.add(name)
        if event.refresh is not None:
            self._refreshes[name] = event.refresh
        task = self._task(name)
        filled = count_units(event.snapshot, IntervalSet((event.interval,)))
        self._count(task, int(task.completed), int(task.completed) + filled)

    def _count(self, task: Task, before: int, done: int) -> None:
        # Lookback refills some intervals, which were never counted as missing.
        done = max(0, min(done, int(task.total or 0)))
        self._bars.update(task.id, completed=done)
        self._bars.advance(self._all, done - before)

    def _audit(self, event: events.AuditFinished) -> None:
        style, word = ("red", "blocks") if event.audit.blocking else ("yellow", "warns")
        rows = count(event.result.failed_rows, "row")
        where = format_range(event.interval)
        self._print(
            f"[{style}]{event.snapshot.name}: {event.audit.name} {word}: {rows}, {where}[/]"
        )

    def _finish(self, event: events.ModelFinished) -> None:
        from rich.markup import escape

        from vde_dagster.reports.reasons import describe_refresh

        name = event.snapshot.name
        self._hide(name)
        if name not in self._units:  # Only audited or created empty: not in the total.
            self._print(f"{name} [dim]{event.seconds:.1f} s[/]")
            return
        self._finished += 1
        ready = f"[dim]({self._finished}/{len(self._units)})[/]"
        how = "skipped, no new input" if name in self._skipped else f"{event.seconds:.1f} s"
        if name in self._refreshes and not self._refreshes[name].is_routine:
            how += f", {escape(describe_refresh(self._refreshes[name], done=True))}"
        self._print(f"{ready} {name} [dim]{how}[/]")

    def _hide(self, name: ModelName) -> None:
        if name in self._tasks:
            self._bars.update(self._tasks[name], visible=False)

    def _print(self, text: str) -> None:
        self._bars.console.print(text)


def _bars(console: Console, *, shown: bool) -> Progress:
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(compact=True),
        console=console,
        transient=True,
        disable=not shown,
    )
