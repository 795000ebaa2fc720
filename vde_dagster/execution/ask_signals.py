"""Calling the signals of models: which of the missing intervals may be filled yet."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, overload

from vde_dagster.base.instants import utc
from vde_dagster.base.names import ModelName
from vde_dagster.base.said import said as told
from vde_dagster.errors import ProjectError
from vde_dagster.planning.cadence import IntervalUnit
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.readiness import Ready
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Signal

Pair = tuple[datetime, datetime]


@dataclass(frozen=True, slots=True)
class Batch(Sequence[Pair]):
    """The intervals of a range, made when they are looked at: a range may have millions.

    Args:
        unit: Their length.
        interval: The range (UTC), of whole units.
    """

    unit: IntervalUnit
    interval: Interval

    def __len__(self) -> int:
        return self.unit.count(self.interval)

    @overload
    def __getitem__(self, index: int) -> Pair: ...
    @overload
    def __getitem__(self, index: slice) -> list[Pair]: ...
    def __getitem__(self, index: int | slice) -> Pair | list[Pair]:
        numbers = range(len(self))[index]
        if isinstance(numbers, range):
            return [self._pair(number) for number in numbers]
        return self._pair(numbers)

    def _pair(self, number: int) -> Pair:
        start = self.unit.shift(self.interval.start, number)
        return start, min(self.unit.shift(start, 1), self.interval.end)


def signals_of(
    environment: str, now: datetime, context: Callable[[ModelName], object] = lambda name: None
) -> Ready:
    """Return what asks the signals of models on behalf of a plan.

    They are asked while planning, once. An apply fills what was ready then, for that is what was
    approved, however much later: what has arrived stays, and what arrives since is for the next
    run.

    Args:
        environment: The environment that is planned.
        now: The plan's instant (UTC).
        context: Makes the argument `context` of a model's signals.
    """

    def ready(snapshot: Snapshot, missing: IntervalSet) -> IntervalSet:
        said = {
            "execution_time": now,
            "environment": environment,
            "model": str(snapshot.name),
            "context": context(snapshot.name),
        }
        for signal in snapshot.model.signals:
            missing = _passing(signal, snapshot, missing, said)
        return missing

    return ready


def _passing(
    signal: Signal, snapshot: Snapshot, missing: IntervalSet, said: dict[str, Any]
) -> IntervalSet:
    from vde_dagster.project.python.files import where_raised
    from vde_dagster.project.python.runtime import run_source

    out = IntervalSet()
    try:
        function = run_source(signal.python)
        arguments = {**_wanted(function, said), **dict(signal.arguments)}
        for interval in missing:
            batch = Batch(snapshot.cadence.unit, interval)
            answer = function(batch, **arguments)
            if isinstance(answer, bool):
                found = IntervalSet((interval,)) if answer else IntervalSet()
            else:
                found = _ranges(answer) & IntervalSet((interval,))
                found = snapshot.cadence.whole(found, IntervalSet((interval,)))
            out = out | found
    except (Exception, SystemExit) as error:
        path, _, _ = signal.python.entrypoint.rpartition(":")
        raise ProjectError(
            f"{snapshot.name}: signal '{signal.name}' failed: {told(error)}",
            hint="a signal returns true, false, or a list of the batch's intervals",
            location=where_raised(error, Path(path)),
        ) from error
    return out


def _ranges(answer: Iterable[Any]) -> IntervalSet:
    return IntervalSet.of(Interval(utc(start), utc(end)) for start, end in answer)


def _wanted(function: Callable[..., Any], said: dict[str, Any]) -> dict[str, Any]:
    """Return those of the values that a function has parameters for."""
    parameters = inspect.signature(function).parameters.values()
    if any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters):
        return said
    return {one.name: said[one.name] for one in list(parameters)[1:] if one.name in said}
