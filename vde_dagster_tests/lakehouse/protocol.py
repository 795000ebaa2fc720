"""What an apply does to state and lakehouse, step by step, with an engine that needs no Spark.

The order of the steps is that of `vde_dagster.execution`: journal, lease, fill, record, publish.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path

from sqlalchemy import Engine

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.maintenance.janitor import JanitorReport, clean
from vde_dagster.lakehouse.metadata.commit_summaries import committed_fills
from vde_dagster.lakehouse.publishing.publication import FastForward, Holding, Publication, Return
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import (
    PRODUCTION,
    Entry,
    Environment,
    HeldState,
    ViewNames,
)
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.db.database import Database, make_engine
from vde_dagster.state.db.effects import Clock, Effects
from vde_dagster.state.db.leases import Lease
from vde_dagster.state.environments.pins import load_filled
from vde_dagster.state.fills.fills import FillRecord
from vde_dagster.state.retention import Retention
from vde_dagster.state.store import StateStore
from vde_dagster.state.tables.tables import filled_ranges
from vde_dagster_tests.fixtures.toy_distribution.vde_toy.folder_catalog import FolderCatalog
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.lakehouse.oracle import Seen, disconnect, look
from vde_dagster_tests.state.builders import (
    day,
    days,
    environment,
    plan,
    snapshot,
    table,
    view,
)

LEASE_SECONDS = 60.0
RETENTION = Retention(history_versions=3, history=timedelta(days=30), grace=timedelta(hours=24))


@dataclass(frozen=True)
class Job:
    """One plan: which version of each model an environment is to show, filled for which days."""

    id: str
    environment: str
    base_version: int
    models: tuple[tuple[str, str], ...]
    days: IntervalSet = field(default_factory=lambda: days(0, 1))


@dataclass
class Process:
    """One process's view of the world: its own connections, and its own port for effects."""

    store: StateStore
    lakehouse: Lakehouse
    engine: FakeEngine
    name: str = "worker"

    def apply(self, job: Job) -> Environment:
        """Fill what is missing, then publish."""
        store = self.store
        self.lakehouse.recover()
        model_names = [name for name, _ in job.models]
        record = store.plans.record(job.id)
        if record is None:  # A retry applies the plan of the first attempt.
            value = plan(job.id, job.environment, job.base_version, at=store.database.clock.now())
            store.plans.save(replace(value, entries={}, models=()))
        if record is not None and record.status == "applied":
            return self._made_by(job)
        with self._lease(f"environment/{job.environment}") as lease:
            record = store.plans.record(job.id)
            if record is not None and record.status == "applied":
                return self._made_by(job)
            store.plans.set_status(job.id, "applying")
            tables = [self._fill(job, name, version) for name, version in job.models]
            views = tuple(self._view(job, n, t) for n, t in zip(model_names, tables, strict=True))
            return self._publish(job, tables, views, lease)

    def _made_by(self, job: Job) -> Environment:
        kept = self.store.versions.history(job.environment)
        for version in kept:
            if version.plan_id == job.id:
                made = self.store.versions.at(job.environment, version.version)
                assert made is not None
                return made
        if all(version.version > job.base_version + 1 for version in kept):
            # The environment was dropped since, or the janitor keeps later versions alone.
            raise UsageError(f"the version that {job.id} made is no longer kept")
        raise AssertionError(f"{job.id} is applied, and no version says so")

    def _fill(self, job: Job, model: str, version: str) -> PhysicalTable:
        store = self.store
        defined = snapshot(f"db.{model}", version)
        store.snapshots.save([defined])
        made = store.tables.ensure(replace(table(model, version), snapshot_id=defined.id))
        with self._lease(f"table/{made.id}", wait_seconds=30):
            made = store.tables.load([made.id])[made.id]
            shown = {
                entry.table_id
                for known in store.environments.all()
                for entry in known.entries.values()
            }
            branch = f"vde_{job.id}" if made.id in shown else None
            if not made.created:
                self.engine.create_table(made)
                store.tables.mark_created(made, [(column.name, "INT") for column in made.columns])
            waiting = IntervalSet.of(
                item.interval for item in store.pending.for_plan(job.id) if item.table_id == made.id
            )
            missing = job.days - made.intervals - waiting
            for fill in committed_fills(self.lakehouse.table_metadata(made.ref), branch):
                ours = fill.table_id == made.id and (not branch or fill.plan_id == job.id)
                if ours and missing.contains(fill.interval):
                    self._record(job, made, fill.interval, branch, fill.iceberg_snapshot_id)
                    missing = missing - IntervalSet((fill.interval,))
            for part in missing:
                for number in range((part.end - part.start).days):
                    start = (part.start - day(0).start).days + number
                    commit = self.engine.fill(made, day(start), job.id, branch)
                    self._record(job, made, day(start), branch, commit)
        return store.tables.load([made.id])[made.id]

    def _record(self, job: Job, made: PhysicalTable, interval, branch, commit: int) -> None:
        if branch:
            self.store.pending.record(
                FillRecord(made.id, interval, job.id, commit, 10, branch=branch)
            )
        else:
            self.store.fills.record(FillRecord(made.id, interval, job.id, commit, 10))

    def _view(self, job: Job, model: str, made: PhysicalTable) -> ViewDefinition:
        ref = ViewNames(job.environment).ref(ModelName("db", model))
        return view(ref.name, f"SELECT a FROM {made.ref}", namespace=ref.namespace)

    def _publish(
        self,
        job: Job,
        tables: Sequence[PhysicalTable],
        views: tuple[ViewDefinition, ...],
        lease: Lease,
    ) -> Environment:
        entries = [
            (f"db.{name}", snapshot(f"db.{name}", version).id, made.id)
            for (name, version), made in zip(job.models, tables, strict=True)
        ]
        value = environment(
            job.environment,
            entries,
            by=self.name,
            plan_id=job.id,
            at=self.store.database.clock.now(),
        )
        waiting = {item.table_id for item in self.store.pending.for_plan(job.id)}
        return self.lakehouse.publish(
            Publication(
                environment=value,
                base_version=job.base_version,
                views=views,
                dropped=tuple(
                    ref
                    for ref in self.lakehouse.published_views(job.environment)
                    if ref.name not in {definition.name for definition in views}
                ),
                fast_forwards=tuple(
                    FastForward(made.ref, made.id, f"vde_{job.id}")
                    for made in tables
                    if made.id in waiting
                ),
                plan_id=job.id,
                leases=(lease,),
            )
        )

    def rollback(self, name: str, version: int) -> Environment:
        """Publish an old version again."""
        with self._lease(f"environment/{name}") as lease:
            self.lakehouse.recover()
            current = self.store.environments.get(name)
            old = self.store.versions.at(name, version)
            assert current is not None
            assert old is not None
            if current.entries == old.entries:
                return current
            views = self.shown(name, old.entries)
            made = environment(name, by=self.name, at=self.store.database.clock.now())
            wanted = {definition.name for definition in views}
            return self.lakehouse.publish(
                Publication(
                    environment=replace(made, entries=old.entries, note=f"rollback to {version}"),
                    base_version=current.version,
                    views=views,
                    dropped=tuple(
                        r for r in self.lakehouse.published_views(name) if r.name not in wanted
                    ),
                    leases=(lease,),
                )
            )

    def roll_back_data(self, name: str, version: int) -> Environment:
        """Publish an old version again, and take the tables back that it alone owns."""
        with ExitStack() as stack:
            lease = stack.enter_context(self._lease(f"environment/{name}"))
            self.lakehouse.recover()
            current, old = (
                self.store.environments.get(name),
                self.store.versions.at(name, version),
            )
            assert current is not None
            assert old is not None
            returns, others, stay = self._returns(old)
            owned = {one.table_id for one in returns}
            leases = [stack.enter_context(self._lease(f"table/{one}")) for one in sorted(owned)]
            pins = self.store.pins.at(name, version)
            entries = {
                entry.name: replace(entry, held=pins[entry.table_id].state_to_hold)
                if entry.table_id in stay
                else entry
                for entry in old.entries.values()
            }
            made = environment(name, by=self.name, at=self.store.database.clock.now())
            views = self.shown(name, entries)
            wanted = {definition.name for definition in views}
            return self.lakehouse.publish(
                Publication(
                    environment=replace(made, entries=entries, note=f"rollback to {version}"),
                    base_version=current.version,
                    views=views,
                    dropped=tuple(
                        r for r in self.lakehouse.published_views(name) if r.name not in wanted
                    ),
                    leases=(lease, *leases),
                    returns=returns,
                    sources=((name, version),),
                    holding=tuple(self._holding(one, held) for one, held in others.items()),
                )
            )

    def _returns(
        self, old: Environment
    ) -> tuple[tuple[Return, ...], dict[str, dict[str, HeldState]], set[str]]:
        """Return which tables go back, what others hold of them, and which stay where they are."""
        store, production = self.store, old.name == PRODUCTION
        pins = store.pins.at(old.name, old.version)
        ids = {e.table_id for e in old.entries.values() if e.table_id and e.held is None}
        found: list[Return] = []
        others: dict[str, dict[str, HeldState]] = {}
        stay: set[str] = set()
        for made in store.tables.load(sorted(ids)).values():
            pin, head = pins[made.id], self.lakehouse.main_snapshot(made.ref)
            was = load_filled(pin.filled or "")
            with store.database.reading() as conn:
                now = filled_ranges(conn, [made.id]).get(made.id, IntervalSet())
            showing = [
                one.name
                for one in store.environments.all()
                if one.name != old.name
                and any(e.table_id == made.id and not e.held for e in one.entries.values())
            ]
            if (head, now) == (pin.snapshot_id, was):
                continue
            if not production and showing:
                stay |= {made.id} if head != pin.snapshot_id else set()
                continue
            at = old.published_at if production else None
            filled = was if production else was & now
            back = Return(made.ref, made.id, pin.snapshot_id, filled, head, None, at)
            found.append(back)
            if head == pin.snapshot_id:
                continue
            schema_id: int = self.lakehouse.table_metadata(made.ref)["current-schema-id"]
            for one in showing:
                others.setdefault(one, {})[made.id] = HeldState(head, schema_id)
        return tuple(found), others, stay

    def _holding(self, name: str, held: dict[str, HeldState]) -> Holding:
        """Make the version of another environment that goes on showing what it shows."""
        other = self.store.environments.get(name)
        assert other is not None
        entries = {
            one.name: replace(one, held=one.held or held.get(one.table_id or ""))
            for one in other.entries.values()
        }
        made = environment(name, by=self.name, at=self.store.database.clock.now())
        made = replace(made, version=other.version + 1, entries=entries, note="holds")
        return Holding(made, other.version, self.shown(name, entries))

    def shown(self, name: str, entries: Mapping[ModelName, Entry]) -> tuple[ViewDefinition, ...]:
        """Define the views of tables, as they are or as they are held."""
        ids = [entry.table_id for entry in entries.values() if entry.table_id]
        tables = self.store.tables.load(ids)
        views = []
        for entry in entries.values():
            ref, at = ViewNames(name).ref(entry.name), ""
            if entry.held is not None:
                at = f" VERSION AS OF {entry.held.snapshot_id}"
            sql = f"SELECT a FROM {tables[entry.table_id or ''].ref}{at}"
            views.append(view(ref.name, sql, namespace=ref.namespace))
        return tuple(views)

    def freeze(self, source: str, version: int, name: str) -> Environment:
        """Publish a version under a name of its own, each table held at its pin."""
        with self._lease(f"environment/{name}") as lease:
            self.lakehouse.recover()
            current = self.store.environments.get(name)
            if current is not None:
                return current
            old = self.store.versions.at(source, version)
            assert old is not None
            pins = self.store.pins.at(source, version)
            entries = {
                entry.name: replace(entry, held=pins[entry.table_id or ""].state_to_hold)
                for entry in old.entries.values()
            }
            views = self.shown(name, entries)
            made = environment(name, by=self.name, at=self.store.database.clock.now())
            return self.lakehouse.publish(
                Publication(
                    environment=replace(made, entries=entries, frozen=f"{source}@{version}"),
                    base_version=0,
                    views=views,
                    leases=(lease,),
                    sources=((source, version),),
                )
            )

    def janitor(self) -> JanitorReport:
        """Clean up."""
        return clean(self.lakehouse, RETENTION, timedelta(days=7))

    @contextmanager
    def _lease(self, resource: str, wait_seconds: float = 0) -> Iterator[Lease]:
        lease = self.store.leases.acquire(resource, self.name, LEASE_SECONDS, wait_seconds)
        try:
            yield lease
        finally:
            self.store.leases.release(lease)


@dataclass
class World:
    """A database and a warehouse, which outlive processes, and the time.

    Args:
        url: The state's database.
        warehouse: Where files lie.
        clock: The time.
        pointers: The folder of a catalog that promises nothing, in place of the database's own.
    """

    url: str
    warehouse: Path
    clock: Clock
    pointers: Path | None = None

    def process(self, effects: Effects | None = None, name: str = "worker") -> Process:
        """Start what stands for a process: new objects, fresh connections."""
        engine = _engine(self.url)
        engine.dispose()
        store = StateStore(Database(engine, self.clock, effects))
        catalog = None
        if self.pointers is not None:
            catalog = FolderCatalog("lakehouse", self.pointers, store.database.effects)
        lakehouse = Lakehouse(store, "lakehouse", str(self.warehouse), catalog=catalog)
        return Process(store, lakehouse, FakeEngine(lakehouse), name)

    def look(self, *, settled: bool = True) -> Seen:
        """Read everything as an independent reader does; see `oracle.look`."""
        return look(self.url, self.pointers, settled=settled)


@functools.cache
def _engine(url: str) -> Engine:
    """One engine per database: compiling the same SQL anew is most of a short process' work."""
    return make_engine(url)


def close_connections(url: str) -> None:
    """Let nobody of this process be connected to a database any more."""
    _engine(url).dispose()
    disconnect()


def fast_folder() -> str:
    """A temporary folder in memory where there is one: crash sweeps commit thousands of times."""
    memory = Path("/dev/shm")
    return tempfile.mkdtemp(prefix="vde-", dir=memory if memory.is_dir() else None)
