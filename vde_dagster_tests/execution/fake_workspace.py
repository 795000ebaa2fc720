"""Workspaces over real projects, state and Iceberg metadata, with an engine that needs no JVM.

The engine does to the catalog what Spark does: it writes a metadata file of its own and swaps the
pointer, and when somebody else was first it loads the table again and commits on top. In place of
data files, a commit's summary says which ranges the table holds, of which state of the sources each
was made, and which commits it read.
"""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import TABLE, PointerMovedError, Swap
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import TABLE_KEY
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.engine_tasks import (
    AnalysedQuery,
    AuditResult,
    AuditTask,
    FillResult,
    FillTask,
)
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.db.effects import Clock, Effects
from vde_dagster_tests.lakehouse.fake_engine import head, list_of_nothing, next_file, with_commit
from vde_dagster_tests.projects import SHOP, ProjectFolder

_READ = re.compile(r"`\w+`\.`([^`]+)`\.`([^`]+)`(?: VERSION AS OF '([^']+)')?")
_LIST = re.compile(r"\bSELECT\b(.*?)\bFROM\b", re.IGNORECASE | re.DOTALL)


class FakeSpark:
    """An engine for `Workspace.open`; `attach` gives it the catalog.

    Args:
        failing_audits: Models whose audits find rows.
        seconds: How long a fill takes.
        marker: A file that is made when a fill has begun, before its commit.
        sources: Numbers the state of the sources.
        statements: Where statements that ran are noted; a list of its own by default.
    """

    def __init__(
        self,
        failing_audits: Sequence[str] = (),
        seconds: float = 0.0,
        marker: Path | None = None,
        sources: int = 0,
        statements: list[str] | None = None,
    ) -> None:
        self.failing_audits = set(failing_audits)
        self.seconds = seconds
        self.marker = marker
        self.statements = 0
        self.sources = sources
        self.session_statements = [] if statements is None else statements
        self._lakehouse: Lakehouse | None = None
        self._reads: dict[int, dict[str, int | None]] = {}

    def start_in_background(self, *, writes: bool = True) -> None:
        """Start nothing."""

    def attach(self, lakehouse: Lakehouse) -> None:
        """Work on a catalog."""
        self._lakehouse = lakehouse

    @property
    def lakehouse(self) -> Lakehouse:
        """The catalog."""
        assert self._lakehouse is not None
        return self._lakehouse

    def analyze(
        self, sql: str, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Name the columns of a query; all are text."""
        self.statements += 1
        self.session_statements += [*before, *after]
        from sqlglot import parse_one

        return tuple((name, "STRING") for name in parse_one(sql, read="spark").named_selects)

    def prepare(self, sql: str, before: Sequence[str] = ()) -> AnalysedQuery:
        """Name the columns of a query."""
        return AnalysedQuery(self.analyze(sql, before))

    def create_table(
        self,
        table: PhysicalTable,
        snapshot: Snapshot,
        columns: tuple[tuple[str, str], ...],
        *,
        branch: str | None = None,
    ) -> None:
        """Create an empty table; do nothing when it exists."""
        self.statements += 1
        location = self.lakehouse.table_location(table.ref, table.id)
        listed = tuple((name, type_, None) for name, type_ in columns)
        own = {TABLE_KEY: table.id}
        self.lakehouse.create_table(NewTable(table.ref, listed, location, own, branch))

    def fill(self, task: FillTask) -> FillResult:
        """Commit a range to `main` or a branch, on top of whatever is there by then."""
        self.statements += 1
        if self.marker is not None:
            self.marker.touch()
        if self.seconds:
            time.sleep(self.seconds)
        snapshot_id = random.getrandbits(62)
        read = self._heads_read(task.query or " ".join(task.sources.values()))
        self._reads[snapshot_id] = read
        while True:
            try:
                return self._append(task, snapshot_id, read)
            except PointerMovedError:
                continue

    picks_commits = True

    def cherry_pick(self, task: FillTask, result: FillResult) -> FillResult | None:
        """Commit the range to the base, on top of what is there by then."""
        self.statements += 1
        read = self._reads[result.iceberg_snapshot_id or 0]
        onto = replace(task, branch=task.base, base=None)
        while True:
            try:
                landed = self._append(onto, random.getrandbits(62), read)
            except PointerMovedError:
                continue
            return replace(result, iceberg_snapshot_id=landed.iceberg_snapshot_id)

    def audit_all(self, tasks: Sequence[AuditTask]) -> Iterator[AuditResult]:
        """Run one audit after the other."""
        return map(self.audit, tasks)

    def audit(self, task: AuditTask) -> AuditResult:
        """Find one row in models that are to fail, none elsewhere."""
        self.statements += 1
        failed = str(task.model) in self.failing_audits
        return AuditResult(int(failed), ({"id": "1"},) if failed else (), 0.0)

    def query(
        self, sql: str, limit: int | None = None, before: Sequence[str] = ()
    ) -> tuple[tuple[tuple[str, str], ...], Sequence[tuple[Any, ...]]]:
        """Return nothing."""
        return self.analyze(sql), ()

    def run_statement(self, statement: str) -> None:
        """Note it; one with `fail` in it fails."""
        self.session_statements.append(statement)
        if "fail" in statement:
            raise ExecutionError("the statement failed")

    def begin(self, plan_id: str) -> None:
        """Do nothing."""

    def cancel(self, plan_id: str) -> bool:
        """Do nothing."""
        return True

    def close(self) -> None:
        """Do nothing."""

    def _append(self, task: FillTask, snapshot_id: int, read: dict[str, int | None]) -> FillResult:
        ref = task.table.ref
        pointer = self.lakehouse.metadata_location(ref)
        if pointer is None:
            raise ExecutionError(f"there is no table {ref}")
        metadata = read_metadata(self.lakehouse.files, pointer, str(ref))
        name = task.branch or "main"
        base = task.base or task.table.branch or "main"
        names = (name, base, task.table.branch or "main")
        parent = next((one for one in (head(metadata, n) for n in names) if one is not None), None)
        now = max(self._now(), metadata["last-updated-ms"])
        sequence = metadata["last-sequence-number"] + 1
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "sequence-number": sequence,
            "timestamp-ms": now,
            "manifest-list": list_of_nothing(metadata["location"]),
            "schema-id": 0,
            "summary": {
                "operation": "overwrite",
                "added-records": "10",
                "added-files-size": "100",
                "total-files-size": "100",
                "vde.plan": task.plan_id,
                "vde.table": task.table.id,
                "vde.interval": str(task.interval),
                "fake.content": json.dumps(self.content(metadata, parent, task, read)),
                "fake.read": json.dumps(read),
            },
        }
        if parent is not None:
            snapshot["parent-snapshot-id"] = parent
        changed, updates = with_commit(metadata, name, snapshot)
        self._commit(ref, pointer, changed, "engine.fill", updates)
        return FillResult(10, snapshot_id, 0.0, 100)

    def content(
        self,
        metadata: dict[str, Any],
        head: int | None,
        task: FillTask,
        read: dict[str, int | None],
    ) -> Any:
        """Say what the table holds after a fill, on top of a commit and made of others."""
        return _content(metadata, head, task, self.sources)

    def _heads_read(self, query: str) -> dict[str, int | None]:
        found: dict[str, int | None] = {}
        for namespace, name, branch in _READ.findall(query):
            ref = TableRef(namespace, name)
            found[str(ref)] = self.lakehouse.main_snapshot(ref, branch or None)
        return found

    def _commit(
        self,
        ref: TableRef,
        before: str,
        metadata: dict[str, Any],
        point: str,
        updates: tuple[dict[str, Any], ...] = (),
    ) -> None:
        location, data = next_file(metadata, before)
        self.lakehouse.files.write_all([(location, data)], f"{point}.file")
        swap = Swap(ref, TABLE, before, location, updates=updates)
        self.lakehouse.store.database.run_transaction(
            lambda conn: self.lakehouse.catalog.swap([swap], conn),
            name=point,
            idempotent=False,
        )

    def _now(self) -> int:
        return int(self.lakehouse.store.database.clock.now().timestamp() * 1000)


def _content(
    metadata: dict[str, Any], head: int | None, task: FillTask, sources: int
) -> list[tuple[str, int]]:
    """What the table holds after a fill, as what was overwritten leaves it.

    Returns:
        Ranges, each with the number of the state of the sources that it was made of.
    """
    new = (str(task.interval), sources)
    if head is None or not task.snapshot.is_incremental:
        return [new]
    (parent,) = [item for item in metadata["snapshots"] if item["snapshot-id"] == head]
    content = parent["summary"].get("fake.content", "[]")
    held = [
        (IntervalSet((Interval.parse(text),)), made_of) for text, made_of in json.loads(content)
    ]
    written = IntervalSet((task.interval,))
    left = sorted((str(part), made_of) for item, made_of in held for part in item - written)
    return [*left, new]


def open_fake(
    root: Path,
    engine: FakeSpark | None = None,
    *,
    clock: Clock | None = None,
    effects: Effects | None = None,
    remembered: dict[str, Any] | None = None,
    state_url: str | None = None,
) -> Workspace:
    """Open a project as a new process would, on an engine without Spark.

    Args:
        root: The project's folder.
        engine: The engine.
        clock: The time.
        effects: The port for side effects.
        remembered: Keeps for the next process what only saves time.
        state_url: The database, in place of the one that the project's settings name.
    """
    engine = engine or FakeSpark()
    workspace = Workspace.open(root, engine=engine, clock=clock, effects=effects)
    if remembered is not None:
        if "parsed" in remembered:
            project, settings = remembered["parsed"]
            workspace.__dict__["project"] = project
            workspace.__dict__["settings"] = settings
        remembered["parsed"] = workspace.project, workspace.settings
    if state_url is not None:
        settings = replace(workspace.settings, state_url=state_url)
        workspace.__dict__["settings"] = settings
    if remembered is not None:
        # It keeps compiled statements, which take longer to make than to run.
        own = workspace.store.database.engine
        workspace.store.database.engine = remembered.setdefault("engine", own)
        if workspace.store.database.engine is not own:
            own.dispose()
    engine.attach(workspace.lakehouse)
    return workspace


def publish_shop(root: Path, *, skip_backfill: bool = False) -> None:
    """Make the shop, and publish it to production."""
    with open_fake(ProjectFolder(root, SHOP).root) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=skip_backfill))
