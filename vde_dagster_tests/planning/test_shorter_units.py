"""What was filled of a day in part does not count where an hour is the unit, whoever filled it.

The parent is filled day by day, too, and goes on filling the day that goes on: what its reader has
of such a day is made of parts of it. So by the next day the reader is filled from its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster_tests.planning.simulate import Warehouse
from vde_dagster_tests.projects import ProjectFolder

BY_DAY, BY_HOUR = "interval_unit day, allow_partials true", "interval_unit hour"
SAYS = Reason(ReasonCode.PARTS, ("day",), detail="hour")


def at(day: int, hour: int, minute: int = 30) -> datetime:
    return datetime(2024, 3, day, hour, minute, tzinfo=timezone.utc)


TODAY = IntervalSet((Interval(at(2, 0, 0), at(3, 0, 0)),))


class Project:
    """A parent by the day, and a reader whose unit changes."""

    def __init__(self, root: Path) -> None:
        self.folder = ProjectFolder(root)
        self.warehouse = Warehouse({"lake.events": [("at", "TIMESTAMP"), ("n", "INT")]})
        self._write("days", BY_DAY, "lake.events")
        self.write(BY_DAY)

    def write(self, unit: str, value: str = "s.n", more: str = "") -> None:
        self._write("hours", unit, "m.days", value, more)

    def _write(self, name: str, unit: str, source: str, value: str = "s.n", more: str = "") -> None:
        self.folder.write(
            f"models/{name}.sql",
            f"MODEL (name m.{name}, start '2024-03-01', cron '@hourly', {unit}, kind "
            f"INCREMENTAL_BY_TIME_RANGE (time_column at{more}));\n"
            f"SELECT s.at, {value} AS n, '{name}' AS who FROM {source} AS s "
            "WHERE s.at BETWEEN @start_ts AND @end_ts",
        )

    def plan(self, environment: str, now: datetime) -> PlannedModel:
        plan = self.warehouse.plan(self.folder.root, environment, now=now)
        return hours(self.warehouse.apply(plan))

    def run(self, environment: str, now: datetime) -> PlannedModel:
        return hours(self.warehouse.apply(self.warehouse.plan_run(environment, now=now)))


def hours(plan: Plan) -> PlannedModel:
    return next(model for model in plan.models if model.name == ModelName("m", "hours"))


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "p")


def test_environment_that_shares_a_table_by_a_shorter_unit_fills_again_what_another_fills_in_part(
    project: Project,
) -> None:
    by_day = project.plan("first", at(2, 10))
    project.write(BY_HOUR)
    by_hour = project.plan("second", at(2, 10, 40))
    assert by_day.table is not None
    assert by_hour.table is not None
    assert by_day.table.id == by_hour.table.id
    assert SAYS in by_hour.reasons
    # The first one fills parts of the day, before and after the second one could.
    project.run("first", at(2, 11))
    assert not project.run("second", at(2, 12)).intervals
    project.run("first", at(2, 13))
    again = project.run("second", at(3, 0))
    assert again.intervals == TODAY
    assert not project.run("second", at(3, 0, 40)).intervals


def test_readers_of_a_table_that_another_environment_fills_in_part_wait(project: Project) -> None:
    project.plan("prod", at(2, 10))
    project.write(BY_HOUR)
    project.folder.write(
        "models/reader.sql",
        "MODEL (name m.reader, start '2024-03-01', cron '@hourly', kind "
        "INCREMENTAL_BY_TIME_RANGE (time_column at));\n"
        "SELECT s.at, s.n FROM m.hours AS s WHERE s.at BETWEEN @start_ts AND @end_ts",
    )
    plan = project.warehouse.plan(project.folder.root, "dev", now=at(2, 10, 40))
    reader = next(model for model in plan.models if model.name.name == "reader")
    assert reader.intervals == IntervalSet((Interval(at(1, 0, 0), at(2, 0, 0)),))


def test_definitions_that_are_rolled_back_to_a_shorter_unit_fill_the_part_again(
    project: Project,
) -> None:
    project.write(BY_HOUR)
    project.plan("prod", at(1, 10))
    earlier = project.warehouse.environments["prod"]
    project.write(BY_DAY)
    project.plan("prod", at(1, 11))
    project.run("prod", at(2, 10))
    project.warehouse.environments["prod"] = replace(earlier, version=9)
    assert not project.run("prod", at(2, 11)).intervals
    assert project.run("prod", at(3, 0)).intervals == TODAY


def test_a_preview_by_a_shorter_unit_does_not_inherit_a_part(project: Project) -> None:
    forward = ", forward_only true"
    project.write(BY_DAY, more=forward)
    project.plan("prod", at(1, 0))
    project.run("prod", at(2, 10))
    project.write(BY_HOUR, "s.n + 1", forward)
    preview = project.plan("dev", at(2, 10, 40))
    assert preview.table is not None
    table = project.warehouse.tables[preview.table.id]
    assert table.preview is not None
    assert table.preview.inherited == IntervalSet((Interval(at(1, 0, 0), at(2, 0, 0)),))
    project.run("prod", at(3, 0, 10))
    assert project.run("dev", at(3, 0)).intervals == TODAY


def test_a_plan_by_a_shorter_unit_says_that_the_part_is_filled_again(project: Project) -> None:
    project.plan("prod", at(2, 10))
    project.write(BY_HOUR)
    assert SAYS in project.plan("prod", at(2, 10, 40)).reasons
    filled = project.run("prod", at(3, 0))
    assert (filled.intervals, filled.reasons) == (TODAY, (SAYS,))
    assert not project.run("prod", at(3, 1)).reasons
