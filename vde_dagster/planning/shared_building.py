"""Building of many snapshots by several processes, for the first plan of a large project.

A worker builds snapshots from stored models and parents' snapshots. It returns None for a model
with a mistake; the main process builds this model again and reports the mistake.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.base.workers import Workers, call_quietly
from vde_dagster.planning.snapshots.built import BuildRules, BuildTask, BuiltSnapshot, pack, unpack
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.load import trees_in_worker
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster.sql.grammar.compiled import grammar_warnings
from vde_dagster.sql.trees import collect_rarely

_LARGEST_PART = 24


class _Known(NamedTuple):
    model: Model
    packed: bytes


class _Order(NamedTuple):
    model: Model
    parents: tuple[ModelName, ...]
    audited: tuple[ModelName, ...]


class _Request(NamedTuple):
    rules: BuildRules
    known: tuple[_Known, ...]
    orders: tuple[_Order, ...]


class TaskExchange:
    """Divides the building of snapshots among this process and worker processes."""

    def __init__(self, workers: Workers, rules: BuildRules) -> None:
        self._workers = workers
        self._rules = rules
        self._ready: dict[int | None, deque[BuildTask]] = {None: deque()}
        self._packed: dict[ModelName, tuple[Snapshot, bytes]] = {}
        self._there: dict[int, dict[ModelName, Snapshot]] = {}

    def add(self, task: BuildTask) -> None:
        """Add a task to the queue of the worker that parsed its query, or to the common queue."""
        owner = self._workers.owners.get(task.model.query or "")
        self._ready.setdefault(owner, deque()).append(task)

    @property
    def unfinished(self) -> bool:
        return self._workers.busy or any(self._ready.values())

    def take_task(self) -> BuildTask | None:
        """Return a waiting task to run in this process, or None."""
        return next(iter(self._taken(None, 1)), None)

    def send_tasks(self) -> None:
        """Send waiting tasks to idle workers, if many are waiting."""
        for number in self._workers.free:
            count = sum(map(len, self._ready.values())) // (2 * self._workers.count + 2)
            tasks = self._taken(number, min(_LARGEST_PART, count))
            if tasks:
                self._workers.send(number, build_in_worker, self._request(number, tasks), tasks)

    def receive(self, *, wait: bool) -> list[tuple[BuildTask, BuiltSnapshot | None]]:
        """Return finished tasks with their results; None for a model with mistakes."""
        found: list[tuple[BuildTask, BuiltSnapshot | None]] = []
        for number, tasks, values in self._workers.receive(wait=wait):
            for task, data in zip(tasks, values, strict=True):
                built = None
                if data is not None:
                    built = unpack(data, task.model)
                    self._there[number][task.model.name] = built.snapshot
                    self._packed[task.model.name] = built.snapshot, data
                found.append((task, built))
        return found

    def _taken(self, owner: int | None, count: int) -> list[BuildTask]:
        # Tasks whose queries the owner has parsed are preferred.
        found: list[BuildTask] = []
        others = sorted(self._ready.values(), key=len, reverse=True)
        for tasks in (self._ready.get(owner, ()), self._ready[None], *others):
            while tasks and len(found) < count:
                found.append(tasks.popleft())
        return found

    def _request(self, number: int, tasks: Sequence[BuildTask]) -> bytes:
        there = self._there.setdefault(number, {})
        known: list[_Known] = []
        for task in tasks:
            for name, snapshot in (*task.parents.items(), *task.audited.items()):
                if there.get(name) is not snapshot:
                    there[name] = snapshot
                    known.append(_Known(snapshot.model, self._pack(snapshot)))
        orders = [_Order(one.model, tuple(one.parents), tuple(one.audited)) for one in tasks]
        return to_bytes(_Request(self._rules, tuple(known), tuple(orders)))

    def _pack(self, snapshot: Snapshot) -> bytes:
        before, packed = self._packed.get(snapshot.model.name, (None, b""))
        if before is not snapshot:
            packed = pack(BuiltSnapshot(snapshot, ""))
            self._packed[snapshot.model.name] = snapshot, packed
        return packed


# -- in a worker -------------------------------------------------------------------------------


def build_in_worker(request: bytes) -> list[bytes | None]:
    """Build the requested snapshots in a worker process; None for models with mistakes."""
    from vde_dagster.planning.build_snapshot import build_and_check_snapshot, hash_for_children

    collect_rarely()
    rules, known, orders = from_bytes(_Request, request)
    there = _snapshots()
    for model, packed in known:
        there[model.name] = unpack(packed, model).snapshot

    def build(order: _Order) -> bytes | None:
        model = order.model
        parents, audited = (
            {name: there[name] for name in names} for names in (order.parents, order.audited)
        )
        tree = trees_in_worker().take(model.query) if model.query else None
        snapshot, problems = build_and_check_snapshot(model, parents, *rules, tree, audited)
        if grammar_warnings():
            return None  # Without Spark's grammar this process finds other mistakes.
        there[model.name] = snapshot
        return pack(BuiltSnapshot(snapshot, hash_for_children(snapshot), problems))

    return [call_quietly(build, order) for order in orders]


@cache
def _snapshots() -> dict[ModelName, Snapshot]:
    return {}
