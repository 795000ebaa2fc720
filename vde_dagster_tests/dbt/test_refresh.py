"""A day of a dbt project: which models a plan and a run compute, and up to which instant."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from typing import Any

import pytest

from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.reasons import ReasonCode
from vde_dagster.plugins.dbt import models
from vde_dagster.plugins.dbt.nodes import kinds
from vde_dagster.project.kinds import IncrementalByUniqueKey, Kind
from vde_dagster_tests.dbt.conftest import DbtCopy
from vde_dagster_tests.planning.simulate import Warehouse

EVENTS = [("id", "BIGINT"), ("kind", "STRING"), ("amount", "BIGINT"), ("at", "TIMESTAMP")]
ACCUMULATING = {"appended", "batched", "by_day", "by_time", "either", "first_kept", "merged"}
"""Incremental models of the project, which has a snapshot, too."""


def at(day: int, hour: int = 0, minute: int = 0) -> datetime:
    return datetime(2024, 1, day, hour, minute, tzinfo=timezone.utc)


def _built(plan: Plan) -> dict[str, PlannedModel]:
    return {model.name.name: model for model in plan.models if model.builds}


def _ends(built: dict[str, PlannedModel], names: set[str]) -> set[datetime]:
    return {built[name].intervals.ranges[-1].end for name in names}


@pytest.fixture
def warehouse() -> Warehouse:
    return Warehouse({"raw.events": EVENTS})


def test_what_accumulates_is_computed_up_to_now_once_a_tick(
    copied: Callable[[str], DbtCopy], warehouse: Warehouse
) -> None:
    root = copied("table").root
    names = {*ACCUMULATING, "open_log__versions"}

    first = _built(warehouse.apply(warehouse.plan(root, "prod", now=at(3, 10, 30))))
    assert names <= first.keys()
    assert _ends(first, names) == {at(3, 10, 30)}
    assert first["batched"].intervals.ranges[0].start == at(1)
    assert first["contracted"].intervals == IntervalSet((Interval(at(2), at(3)),))

    # Nothing is due before the next tick, neither by a run nor by a plan.
    assert not _built(warehouse.apply(warehouse.plan_run("prod", now=at(3, 11))))
    assert not _built(warehouse.apply(warehouse.plan(root, "prod", now=at(3, 11))))

    second = _built(warehouse.apply(warehouse.plan_run("prod", now=at(4, 0, 30))))
    assert {*names, "contracted"} <= second.keys()
    assert _ends(second, names) == {at(4, 0, 30)}
    # Rows are added from where the last run ended; a batch is computed again from its beginning.
    assert second["appended"].intervals.ranges[0].start == at(3, 10, 30)
    assert second["open_log__versions"].intervals.ranges[0].start == at(3, 10, 30)
    assert second["batched"].intervals.ranges[0].start == at(1), "two days of lookback"
    assert not _built(warehouse.apply(warehouse.plan_run("prod", now=at(4, 0, 40))))


def test_a_run_that_ignores_crons_asks_every_model(
    copied: Callable[[str], DbtCopy], warehouse: Warehouse
) -> None:
    root = copied("table").root
    warehouse.apply(warehouse.plan(root, "prod", now=at(3, 10, 30)))

    for minute in (0, 20):
        plan = warehouse.plan_run("prod", now=at(3, 11, minute), ignore_cron=True)
        built = _built(warehouse.apply(plan))
        tables = {"contracted", "totals_v1", "totals_v2", "in_python"}
        assert {*ACCUMULATING, *tables, "open_log__versions"} == built.keys()
        assert _ends(built, ACCUMULATING) == {at(3, 11, minute)}
        full = built["contracted"]
        assert full.intervals == IntervalSet((Interval(at(2), at(3)),))
        assert any(reason.code is ReasonCode.BEFORE_CRON for reason in full.reasons)
        # What it reads decides whether it is computed.
        assert built["totals_v1"].skippable


def test_models_that_are_due_hourly_are_computed_hourly(
    copied: Callable[[str], DbtCopy], warehouse: Warehouse
) -> None:
    copy = copied("table")
    settings = copy.root / "pyproject.toml"
    settings.write_text(settings.read_text().replace("[tool.vde]", '[tool.vde]\ncron = "@hourly"'))
    warehouse.apply(warehouse.plan(copy.root, "prod", now=at(3, 10, 30)))

    assert not _built(warehouse.apply(warehouse.plan_run("prod", now=at(3, 10, 50))))
    built = _built(warehouse.apply(warehouse.plan_run("prod", now=at(3, 11, 10))))

    assert {*ACCUMULATING, "contracted", "totals_v1", "open_log__versions"} <= built.keys()
    assert _ends(built, ACCUMULATING) == {at(3, 11, 10)}
    assert built["contracted"].intervals == IntervalSet((Interval(at(3, 10), at(3, 11)),))


@pytest.mark.parametrize(
    ("filled", "ignore_cron", "until"),
    [
        (None, False, at(3, 10)),
        (at(2, 20), False, at(3, 10)),
        (at(3), False, at(3)),
        (at(3, 9), False, at(3, 9)),
        (at(3, 9), True, at(3, 10)),
    ],
)
def test_what_is_filled_until_now_is_due_once_a_tick(
    filled: datetime | None, ignore_cron: bool, until: datetime
) -> None:
    cadence = Cadence("0 0 * * *", None, IntervalUnit.DAY, partials=True, until_now=True)
    ranges = (Interval(at(1), filled),) if filled else ()

    end = cadence.filled_until(at(3, 10), ignore_cron=ignore_cron, filled=IntervalSet(ranges))

    assert end == until


def test_tables_of_an_earlier_release_are_kept(
    copied: Callable[[str], DbtCopy], warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kinds had no strategies of dbt, and snapshots no records of deletions in their tables."""
    root = copied("table").root
    make, read, merged = (
        kinds.snapshot_kind,
        models.read_schedule,
        IncrementalByUniqueKey.from_properties,
    )

    def earlier_key(given: dict[str, Any]) -> Kind:
        return merged({name: value for name, value in given.items() if name != "strategy"})

    def earlier_times(*given: Any) -> dict[str, Any]:
        names = ("interval_unit", "allow_partials", "until_now")
        return {key: value for key, value in read(*given).items() if key not in names}

    with monkeypatch.context() as patched:
        patched.setattr(
            kinds, "snapshot_kind", lambda *a: replace(make(*a), as_dbt=False, deleted_name="")
        )
        patched.setattr(models, "read_schedule", earlier_times)
        patched.setattr(IncrementalByUniqueKey, "from_properties", earlier_key)
        before = warehouse.apply(warehouse.plan(root, "prod", now=at(3, 10)))
    shutil.rmtree(root / ".vde")
    after = warehouse.plan(root, "prod", now=at(3, 11))

    assert not _built(after)
    tables = {model.name: model.table.id for model in before.models if model.table}
    assert {model.name: model.table.id for model in after.models if model.table} == tables
    log = next(model for model in after.models if model.name.name == "open_log__versions")
    assert log.in_place is not None
    assert [change.column for change in log.in_place.columns] == ["dbt_is_deleted"]
