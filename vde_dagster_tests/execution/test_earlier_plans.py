"""Plans whose definitions an earlier version of the package stored, with fewer fields."""

from __future__ import annotations

import zlib
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sqlalchemy import insert

from vde_dagster.base.hashing import content_digest
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.identity import content_bytes, from_content
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.state.db import schema
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

FILES = {
    "models/a.sql": "MODEL (name m.a, kind FULL); SELECT 1 AS id, 2 AS v",
    "models/b.sql": "MODEL (name m.b, kind FULL); SELECT id, v * 2 AS w FROM m.a",
}


def test_a_plan_with_definitions_that_lack_later_fields_is_proven_and_applied(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        folder.edit("models/a.sql", "2 AS v", "3 AS v")
        workspace.reload()
        plan, rows = _stored_earlier(workspace.plan("prod", save=False))
        query = insert(schema.snapshots)
        workspace.store.database.run_transaction(
            lambda conn: conn.execute(query, rows) and None, name="test"
        )
        workspace.store.plans.save(plan)
        loaded = workspace.store.plans.load(plan.id)
        assert loaded == plan
        proven = workspace.plans.proven(loaded)
        assert [one.snapshot_id for one in proven.models] == [
            one.snapshot_id for one in plan.models
        ]
        assert [one.reasons for one in proven.models] == [one.reasons for one in plan.models]
        assert workspace.apply(loaded).published


def _stored_earlier(plan: Plan) -> tuple[Plan, list[dict[str, Any]]]:
    """Return a plan of definitions that are stored without one field, and their rows."""
    earlier: dict[str, Snapshot] = {}
    rows = []
    for key, snapshot in plan.snapshots.items():
        plain = msgspec.msgpack.decode(content_bytes(snapshot))
        del plain["model"]["tags"]
        data = msgspec.msgpack.encode(plain)
        found = from_content(content_digest(data), data)
        assert found is not None
        assert found.id != key
        assert replace(found, id=key) == snapshot
        earlier[key] = found
        rows.append(
            {
                "snapshot_id": found.id,
                "model_namespace": snapshot.name.namespace,
                "model_name": snapshot.name.name,
                "payload": zlib.compress(data),
                "created_at": datetime(2024, 1, 1, tzinfo=timezone.utc),
            }
        )
    models = tuple(
        replace(model, snapshot_id=earlier[model.snapshot_id or ""].id) for model in plan.models
    )
    entries = {
        name: replace(entry, snapshot_id=earlier[entry.snapshot_id].id)
        for name, entry in plan.entries.items()
    }
    tables = tuple(
        replace(model, table=replace(model.table, snapshot_id=earlier[model.table.snapshot_id].id))
        if model.table is not None and model.table.snapshot_id in earlier
        else model
        for model in models
    )
    snapshots = {one.id: one for one in earlier.values()}
    return replace(plan, models=tables, entries=entries, snapshots=snapshots), rows
