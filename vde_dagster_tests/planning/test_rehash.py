"""An upgrade of the canonicaliser changes hashes, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.hashing import digest
from vde_dagster.planning import build_snapshot as module
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.environments.resolver import column_map
from vde_dagster.planning.environments.warehouse_state import WarehouseState, rehash_definitions
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import SHOP, ProjectFolder


@pytest.fixture
def earlier_canonicaliser(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Make every hash another one, as code of an earlier version would."""
    today = module._meaning

    def earlier(*arguments: Any) -> Any:
        version, columns, *rest = today(*arguments)
        salted = {name: digest("old", value) for name, value in version.columns.items()}
        version = replace(version, rows=digest("old", version.rows), columns=salted)
        columns = tuple(c._replace(version=salted[c.name]) for c in columns)
        return version, columns, *rest

    monkeypatch.setattr(module, "_meaning", earlier)
    monkeypatch.setattr(
        build_snapshots,
        "__kwdefaults__",
        {**build_snapshots.__kwdefaults__, "canonicaliser": "earlier"},
    )
    return monkeypatch


def test_a_bumped_canonicaliser_plans_no_changes_and_keeps_the_tables(
    tmp_path: Path, earlier_canonicaliser: pytest.MonkeyPatch
) -> None:
    folder = ProjectFolder(tmp_path, SHOP)
    warehouse = Warehouse()
    warehouse.apply(warehouse.plan(tmp_path))
    before = dict(warehouse.tables)
    old = dict(warehouse.snapshots)
    assert {snapshot.canonicaliser for snapshot in old.values()} == {"earlier"}

    earlier_canonicaliser.undo()
    assert warehouse.plan(tmp_path).builds, "the hashes do differ"
    production = warehouse.environments["prod"]
    state = WarehouseState(production, production, warehouse.snapshots, warehouse.tables)
    state, changed = rehash_definitions(
        state,
        module.CANONICALISER,
        lambda models, revise: build_snapshots(models, lambda name: None, revise=revise),
    )
    assert {table.id for table in changed} == set(before)
    warehouse.snapshots = dict(state.snapshots)
    warehouse.tables = dict(state.tables)
    assert warehouse.plan(tmp_path).is_empty

    # Versions that were published before the upgrade still find their columns: rollback works.
    for entry in production.entries.values():
        if entry.table_id:
            snapshot, table = old[entry.snapshot_id], warehouse.tables[entry.table_id]
            assert column_map(snapshot, table) == column_map(snapshot, before[table.id])

    folder.edit("models/marts/top.sql", "AS place", "AS place, revenue * 2 AS twice")
    assert [str(model.name) for model in warehouse.plan(tmp_path).builds] == ["marts.top"]


def test_hashing_again_twice_changes_nothing_more(
    tmp_path: Path, earlier_canonicaliser: pytest.MonkeyPatch
) -> None:
    ProjectFolder(tmp_path, SHOP)
    warehouse = Warehouse()
    warehouse.apply(warehouse.plan(tmp_path))
    earlier_canonicaliser.undo()
    production = warehouse.environments["prod"]
    state = WarehouseState(production, production, warehouse.snapshots, warehouse.tables)
    build = lambda models, revise: build_snapshots(  # noqa: E731
        models, lambda name: None, revise=revise
    )
    once, _ = rehash_definitions(state, module.CANONICALISER, build)
    stored = WarehouseState(production, production, warehouse.snapshots, once.tables)
    twice, changed = rehash_definitions(stored, module.CANONICALISER, build)
    assert changed == []
    assert twice.tables == once.tables


def test_a_table_that_changed_in_place_goes_on_after_an_upgrade(
    tmp_path: Path, earlier_canonicaliser: pytest.MonkeyPatch
) -> None:
    files = {
        "models/daily.sql": "MODEL (name m.daily, start '2024-01-01', kind "
        "INCREMENTAL_BY_TIME_RANGE (time_column day, forward_only true));\n"
        "SELECT day, id FROM m.rows WHERE day BETWEEN @start_ds AND @end_ds",
        "models/rows.sql": "MODEL (name m.rows, kind FULL);\nSELECT DATE '2024-01-01' AS day, "
        "1 AS id, 'a' AS s",
        "models/total.sql": "MODEL (name m.total, kind FULL);\nSELECT count(id) AS n FROM m.daily",
    }
    folder = ProjectFolder(tmp_path, files)
    warehouse = Warehouse()
    warehouse.apply(warehouse.plan(tmp_path))
    folder.edit("models/daily.sql", "day, id FROM", "day, id + 1 AS id, s FROM")
    deployed = warehouse.apply(warehouse.plan(tmp_path))
    assert [str(model.name) for model in deployed.models if model.deploys] == ["m.daily"]
    assert warehouse.plan(tmp_path).is_empty

    earlier_canonicaliser.undo()
    production = warehouse.environments["prod"]
    state, _ = rehash_definitions(
        WarehouseState(production, production, warehouse.snapshots, warehouse.tables),
        module.CANONICALISER,
        lambda models, revise: build_snapshots(models, lambda name: None, revise=revise),
    )
    warehouse.snapshots, warehouse.tables = dict(state.snapshots), dict(state.tables)
    assert warehouse.plan(tmp_path).is_empty
    folder.edit("models/daily.sql", "id + 1 AS id", "id + 2 AS id")
    again = warehouse.plan(tmp_path)
    assert [str(model.name) for model in again.models if model.deploys] == ["m.daily"]
    assert not again.builds
