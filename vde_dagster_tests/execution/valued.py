"""An engine whose rows say what they were made of, and a reader of what environments show."""

from __future__ import annotations

import json
import re
from typing import Any

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import FakeSpark

_FROM = re.compile(r"`\w+`\.`(vde__[^`]+)`\.`([^`]+)`(?: VERSION AS OF (\d+))?")


class Valued(FakeSpark):
    """An engine whose rows say, day by day, what they were made of."""

    def content(
        self,
        metadata: dict[str, Any],
        head: int | None,
        task: FillTask,
        read: dict[str, int | None],
    ) -> Any:
        """Return by range the definition, the state of the sources, and the parents' rows."""
        made = f"{task.snapshot.fill_version[:6]}"
        parents = sorted(
            json.dumps(self.rows(ref, snapshot, task)) for ref, snapshot in read.items()
        )
        new = {str(task.interval): [made, *(parents or [self.sources])]}
        if head is None or not task.snapshot.is_incremental:
            return new
        (parent,) = [one for one in metadata["snapshots"] if one["snapshot-id"] == head]
        return {**json.loads(parent["summary"].get("fake.content", "{}")), **new}

    def rows(self, ref: str, snapshot_id: int | None, task: FillTask) -> Any:
        """Return a parent's rows: of the range that is filled, where the reader keeps to it."""
        metadata = self.lakehouse.table_metadata(TableRef(*ref.split(".")))
        rows = content_of(metadata, snapshot_id)
        if not task.snapshot.is_incremental:
            return rows
        return rows.get(str(task.interval))


def content_of(metadata: dict[str, Any], snapshot_id: int | None) -> dict[str, Any]:
    """Return the rows of a commit."""
    for one in metadata["snapshots"]:
        if one["snapshot-id"] == snapshot_id:
            found: dict[str, Any] = json.loads(one["summary"].get("fake.content", "{}"))
            return found
    assert snapshot_id is None
    return {}


def shown(workspace: Workspace, environment: str = "prod") -> dict[str, Any]:
    """Return the rows that the views of an environment show, read from catalog and metadata."""
    lakehouse, found = workspace.lakehouse, {}
    for view in lakehouse.published_views(environment):
        with workspace.store.database.reading() as conn:
            pointer = lakehouse.catalog.pointers([view], conn)[view]
        metadata = lakehouse.files.read_json(pointer.location)
        current = next(
            one
            for one in metadata["versions"]
            if one["version-id"] == metadata["current-version-id"]
        )
        sql = next(one["sql"] for one in current["representations"] if one["dialect"] == "spark")
        ((namespace, name, snapshot),) = _FROM.findall(sql)
        table = lakehouse.table_metadata(TableRef(namespace, name))
        head = lakehouse.main_snapshot(TableRef(namespace, name))
        found[view.name] = content_of(table, int(snapshot) if snapshot else head)
    return found
