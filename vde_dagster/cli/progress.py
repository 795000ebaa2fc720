"""Progress of an apply as bars on stderr: all intervals, and a line per model at work."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import count
from vde_dagster.execution.events import (
    ApplyStarted,
    AuditFinished,
    Event,
    IntervalFilled,
    MemoryLacked,
    ModelFailed,
    ModelFinished,
    ModelStarted,
    Published,
    UnitTestFinished,
    VirtualUpdateRan,
)
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.document import span, units

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID


class ApplyProgress:
    """A context manager whose `show` shows an apply's events.

    On a terminal it draws bars with the time left; elsewhere it prints a line per model.
    """

    def __init__(self, console: Console, plan: Plan) -> None:
        self._console = console
        self._plan = plan
        self._units = {
            model.name: units(plan.snapshots[model.snapshot_id or ""], model.intervals)
            for model in plan.builds
        }
        self._done: dict[ModelName, int] = {}
        self._skipped: set[ModelName] = set()
        self._finished = 0
        self._tasks: dict[ModelName, TaskID] = {}
        self._progress: Progress | None = None
        self._total: TaskID | None = None

    def __enter__(self) -> ApplyProgress:
        if self._console.is_terminal and self._units:
            self._progress = _bars(self._console)
            self._progress.start()
            self._total = self._progress.add_task("all", total=sum(self._units.values()))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def show(self, event: Event) -> None:
        """Show one event."""
        match event:
            case ApplyStarted() if total := sum(self._units.values()):
                models = count(len(self._units), "model")
                self._say(f"computing {models}, {count(total, 'interval')}")
            case UnitTestFinished(result=result) if not result.passed:
                self._say(f"[red]{event.snapshot.name}: {result.test.name} failed[/]")
            case UnitTestFinished(remembered=False):
                test = event.result.test.name
                self._say(f"{event.snapshot.name}: {test} [dim]passed[/]")
            case ModelStarted():
                self._add_bar(event)
            case IntervalFilled():
                self._advance(event)
            case AuditFinished() if event.result.failed_rows:
                self._audit(event)
            case MemoryLacked():
                self._say(f"[yellow]{event.text}[/]")
            case ModelFinished():
                self._finish(event)
            case ModelFailed():
                self._remove_bar(event.name)
                self._say(f"[red]{event.name} failed[/]")
                if event.skipped:
                    self._say(f"[yellow]skipped for it: {', '.join(map(str, event.skipped))}[/]")
            case VirtualUpdateRan(error=None):
                self._say(f"{event.model}: [dim]{event.statement}[/]")
            case Published():
                environment = event.environment
                self._say(
                    f"published [bold]{environment.name}[/] version {environment.version} "
                    f"in {event.seconds:.1f} s"
                )

    def _add_bar(self, event: ModelStarted) -> None:
        name = event.snapshot.name
        total, before = self._units.get(name, 0), self._done.get(name, 0)
        # What an earlier attempt had finished is not missing any more.
        self._done[name] = max(0, total - units(event.snapshot, event.missing))
        if self._progress is not None and self._total is not None:
            self._remove_bar(name)
            self._tasks[name] = self._progress.add_task(
                str(name), total=total, completed=self._done[name]
            )
            self._progress.advance(self._total, self._done[name] - before)

    def _advance(self, event: IntervalFilled) -> None:
        name = event.snapshot.name
        if event.skipped is not None:
            self._skipped.add(name)
        total = self._units.get(name, 0)
        before = self._done.get(name, 0)
        filled = units(event.snapshot, IntervalSet((event.interval,)))
        # Lookback fills some intervals again: they were never counted as missing.
        self._done[name] = min(total, before + filled)
        if self._progress is None or self._total is None:
            return
        self._progress.advance(self._total, self._done[name] - before)
        if name in self._tasks:
            self._progress.update(self._tasks[name], completed=self._done[name])

    def _audit(self, event: AuditFinished) -> None:
        style, word = ("red", "blocks") if event.audit.blocking else ("yellow", "warns")
        rows = count(event.result.failed_rows, "row")
        where = span(event.interval)
        self._say(f"[{style}]{event.snapshot.name}: {event.audit.name} {word}: {rows}, {where}[/]")

    def _finish(self, event: ModelFinished) -> None:
        name = event.snapshot.name
        self._remove_bar(name)
        if name not in self._units:  # Only audited, or made without rows: no work that was told.
            self._say(f"{name} [dim]{event.seconds:.1f} s[/]")
            return
        self._finished += 1
        ready = f"[dim]({self._finished}/{len(self._units)})[/]"
        how = "nothing new, skipped" if name in self._skipped else f"{event.seconds:.1f} s"
        self._say(f"{ready} {name} [dim]{how}[/]")

    def _remove_bar(self, name: ModelName) -> None:
        task = self._tasks.pop(name, None)
        if self._progress is not None and task is not None:
            self._progress.remove_task(task)

    def _say(self, text: str) -> None:
        console = self._progress.console if self._progress is not None else self._console
        console.print(text)


def _bars(console: Console) -> Progress:
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
    )
