"""Changes in place on real Spark and Iceberg: previewed on a branch, deployed, taken back."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.reasons import describe_column_change
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.projects import Prepared, ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]

DAILY = ModelName("m", "daily")
FIRST = datetime(2024, 1, 4, 12, tzinfo=timezone.utc)
LATER = FIRST + timedelta(days=1)
FILES = {
    "models/daily.sql": """
        MODEL (name m.daily, start '2024-01-01',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, forward_only true));
        SELECT day, id, v FROM m.rows WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/rows.sql": """
        MODEL (name m.rows, kind VIEW);
        SELECT CAST(d AS DATE) AS day, i AS id, i * 10 AS v, concat('s', i) AS s
        FROM VALUES ('2024-01-01', 1), ('2024-01-02', 2), ('2024-01-03', 3), ('2024-01-04', 4)
          AS t(d, i)
    """,
    "models/total.sql": """
        MODEL (name m.total, kind FULL);
        SELECT sum(v) AS total FROM m.daily
    """,
}


def plan(
    workspace: Workspace, environment: str = "prod", now: datetime = FIRST, **said: Any
) -> Plan:
    workspace.reload()
    return workspace.plan(environment, PlanOptions(now=now, **said))


def apply(
    workspace: Workspace, environment: str = "prod", now: datetime = FIRST, **said: Any
) -> Plan:
    return workspace.apply(plan(workspace, environment, now, **said)).plan


@pytest.fixture
def folder(prepared: Prepared, spark_engine: SparkEngine) -> ProjectFolder:
    """The project, published to production."""
    return prepared(published)


def published(root: Path) -> None:
    with Workspace.open(ProjectFolder(root, FILES).root) as workspace:
        apply(workspace)


def rows(
    workspace: Workspace, columns: str = "id, v", environment: str = "prod"
) -> list[tuple[Any, ...]]:
    query = f"SELECT {columns} FROM m.daily ORDER BY id"
    return list(workspace.query(environment, query).rows)


def shown(workspace: Workspace, environment: str = "prod") -> PhysicalTable:
    current = workspace.store.environments.get(environment)
    assert current is not None
    table_id = current.entries[DAILY].table_id
    assert table_id is not None
    return workspace.store.tables.get(table_id)


def test_a_change_is_previewed_beside_production_and_deployed_in_place(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(folder)
    before = shown(workspace)
    folder.edit("models/daily.sql", "id, v FROM", "id, v + 1 AS v, s FROM")

    previewed = apply(workspace, "dev")
    assert [str(model.name) for model in previewed.builds] == ["m.daily"]
    assert rows(workspace, "id, v, s", "dev") == [(1, 10, None), (2, 20, None), (3, 31, "s3")]
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30)]
    assert shown(workspace, "dev").ref == before.ref
    assert workspace.queries.read("dev", "m.daily", ["s"]).column("s").to_pylist().count(None) == 2

    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30), (4, 40)], "production fills meanwhile"
    workspace.apply(workspace.plans.due("dev", PlanOptions(now=LATER)))
    assert rows(workspace, "id, v, s", "dev")[2:] == [(3, 31, "s3"), (4, 41, "s4")]

    deployed = apply(workspace, now=LATER)
    assert [model.in_place.deploys for model in deployed.models if model.in_place] == [True]
    assert not deployed.builds
    assert shown(workspace).id == before.id
    assert rows(workspace, "id, v, s") == [
        (1, 10, None),
        (2, 20, None),
        (3, 30, None),
        (4, 40, None),
    ]
    assert plan(workspace, now=LATER).is_empty

    apply(workspace, "dev", now=LATER)
    assert shown(workspace, "dev").id == before.id, "what is deployed needs no preview"
    assert workspace.query("prod", "SELECT total FROM m.total").rows[0] == (100,)


def test_rows_from_an_instant_on_are_computed_again_at_the_deployment(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(folder)
    folder.edit("models/daily.sql", "id, v FROM", "id, v + 1 AS v, s FROM")
    since = datetime(2024, 1, 2, tzinfo=timezone.utc)
    apply(workspace, effective_from=since)
    assert rows(workspace, "id, v, s") == [(1, 10, None), (2, 21, "s2"), (3, 31, "s3")]


def test_production_is_rolled_back_over_a_deployment_and_goes_on(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(folder)
    folder.edit("models/daily.sql", "id, v FROM", "v + 1 AS v, id AS number, id FROM")
    folder.edit("models/daily.sql", "number, id FROM", "number, s FROM")
    refused = pytest.raises(ProjectError, match="column id INT is no longer shown")
    with refused:
        plan(workspace)
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30)]
    apply(workspace, allow_destructive=("m.daily",))
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    query = "SELECT v, number, s FROM m.daily ORDER BY v"
    assert workspace.query("prod", query).rows[2:] == ((30, None, None), (41, 4, "s4"))

    (told,) = workspace.environments.rollback("prod", 1, definitions_only=True).reverted
    assert (told.name, told.again, told.gone) == (DAILY, ("id",), ("number", "s"))
    assert list(told.filled) == [Interval(FIRST.replace(hour=0), LATER.replace(hour=0))]
    assert rows(workspace) == [(None, 41), (1, 10), (2, 20), (3, 30)]
    later = LATER + timedelta(days=1)
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=later)))
    assert rows(workspace) == [(None, 41), (1, 10), (2, 20), (3, 30)]
    again = plan(workspace, now=later, allow_destructive=("m.daily",))
    workspace.apply(again)
    assert workspace.query("prod", query).rows[3] == (41, 4, "s4")


def test_types_widen_with_the_deployment_and_not_before(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(folder)
    folder.edit("models/daily.sql", "id, v FROM", "id, CAST(v AS BIGINT) * 1000000000 AS v FROM")
    with pytest.raises(ExecutionError):
        apply(workspace, "dev")
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30)]
    widened = plan(workspace)
    (change,) = [model.in_place for model in widened.models if model.in_place]
    assert [describe_column_change(c) for c in change.columns] == [
        "column v widens from INT to BIGINT"
    ]
    workspace.apply(widened)
    types = dict(workspace.query("prod", "SELECT * FROM m.daily").columns)
    assert types["v"].upper() == "BIGINT"
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30), (4, 40_000_000_000)]
    workspace.environments.rollback("prod", 1, definitions_only=True)
    assert rows(workspace)[:1] == [(1, 10)], "the version before reads the wider column"
    workspace.environments.rollback("prod", 1)
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30)]
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30), (4, 40)]


def test_environments_that_share_a_table_keep_their_types_when_production_widens_it(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    folder.write(
        "models/seen.sql",
        "MODEL (name m.seen, kind VIEW); SELECT id, v, array(v) AS vs, v + 1 AS w FROM m.daily",
    )
    folder.write(
        "models/big.sql", "MODEL (name m.big, kind FULL); SELECT v * 1000000000 AS b FROM m.daily"
    )
    folder.write("models/id.sql", "MODEL (name m.id, kind FULL); SELECT id FROM m.daily")
    folder.edit("models/big.sql", "v * 1000000000", "v")
    workspace = open_workspace(folder)
    apply(workspace)
    apply(workspace, "qa")
    folder.edit("models/big.sql", "SELECT v", "SELECT v * 1000000000")
    folder.edit("models/daily.sql", "id, v FROM", "id, CAST(v AS BIGINT) AS v, s FROM")
    preview = "SELECT v FROM m.daily ORDER BY v"
    apply(workspace, "dev")
    bigger = [(10_000_000_000,), (20_000_000_000,), (30_000_000_000,)]
    assert list(workspace.query("dev", "SELECT b FROM m.big ORDER BY b").rows) == bigger
    assert dict(workspace.query("dev", preview).columns)["v"].upper() == "BIGINT"
    deployed = apply(workspace)

    assert [str(one.name) for one in deployed.builds] == ["m.big", "m.total"]
    assert list(workspace.query("prod", "SELECT b FROM m.big ORDER BY b").rows) == bigger
    types = [type_.upper() for _, type_ in workspace.query("prod", "SELECT * FROM m.seen").columns]
    assert types == ["INT", "BIGINT", "ARRAY<BIGINT>", "BIGINT"]
    assert dict(workspace.query("prod", preview).columns)["v"].upper() == "BIGINT"
    for environment in ("qa", "dev"):
        assert rows(workspace, environment=environment) == [(1, 10), (2, 20), (3, 30)]
    assert dict(workspace.query("qa", preview).columns)["v"].upper() == "INT"
    seen = workspace.query("qa", "SELECT * FROM m.seen WHERE v > 20")
    assert list(seen.rows) == [(3, 30, [30], 31)]
    assert [type_.upper() for _, type_ in seen.columns] == ["INT", "INT", "ARRAY<INT>", "INT"]
    workspace.apply(workspace.plans.due("qa", PlanOptions(now=LATER)))
    assert workspace.query("qa", "SELECT total FROM m.total").rows[0] == (60,)

    apply(workspace, "qa", LATER)
    assert dict(workspace.query("qa", preview).columns)["v"].upper() == "BIGINT"
    types = [type_.upper() for _, type_ in workspace.query("qa", "SELECT * FROM m.seen").columns]
    assert types == ["INT", "BIGINT", "ARRAY<BIGINT>", "BIGINT"]


def test_two_environments_preview_one_table_and_leave_no_branch(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(folder)
    folder.edit("models/daily.sql", "id, v FROM", "id, v, s FROM")
    apply(workspace, "dev")
    folder.edit("models/daily.sql", "id, v, s FROM", "id, v, length(s) AS s FROM")
    apply(workspace, "other")
    assert rows(workspace, "id, s", "dev")[2] == (3, "s3")
    assert rows(workspace, "id, s", "other")[2] == (3, 2)
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30)]
    table = shown(workspace)
    assert len(_previews(workspace, table)) == 2


def test_what_reads_a_preview_is_made_again_for_production(
    folder: ProjectFolder, open_workspace: Open
) -> None:
    folder.edit(
        "models/daily.sql",
        "INCREMENTAL_BY_TIME_RANGE (time_column day,",
        "INCREMENTAL_BY_UNIQUE_KEY (unique_key id,",
    )
    workspace = open_workspace(folder)
    apply(workspace)
    folder.edit("models/daily.sql", "id, v FROM", "id, v + 1 AS v, s FROM")
    folder.edit("models/total.sql", "sum(v) AS total", "sum(v) AS total, count(s) AS named")
    apply(workspace, "dev")
    query = "SELECT total, named FROM m.total"
    assert workspace.query("dev", query).rows == ((61, 1),)

    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    assert rows(workspace) == [(1, 10), (2, 20), (3, 30), (4, 40)]
    deployed = apply(workspace, now=LATER, effective_from=LATER.replace(day=4, hour=0))
    assert [str(model.name) for model in deployed.builds] == ["m.daily", "m.total"]
    assert workspace.query("prod", query).rows == ((101, 1),), "rows that are there stay"
    later = LATER + timedelta(days=1)
    workspace.apply(workspace.plans.due("prod", PlanOptions(now=later)))
    apply(workspace, "dev", now=later)
    assert workspace.query("dev", query).rows == workspace.query("prod", query).rows


def _previews(workspace: Workspace, table: PhysicalTable) -> list[str]:
    refs = workspace.lakehouse.table_metadata(table.ref)["refs"]
    return [name for name in refs if name.startswith("vde_preview_")]


def test_a_model_that_reads_itself_gets_a_new_column_in_place(
    tmp_path: Path, open_workspace: Open, spark_engine: SparkEngine
) -> None:
    """Its query names the column before the table has it."""
    kept = """
        MODEL (name m.kept, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id, forward_only true, batch_size 100));
        SELECT r.id, r.v FROM m.rows AS r WHERE r.day < @end_ds
          AND (r.id > (SELECT max(k.id) FROM m.kept AS k) OR NOT EXISTS (SELECT 1 FROM m.kept))
    """
    folder = ProjectFolder(tmp_path / "p", {**FILES, "models/kept.sql": kept})
    workspace = open_workspace(folder)
    apply(workspace)
    query = "SELECT * FROM m.kept ORDER BY id"
    before = list(workspace.query("prod", query).rows)

    folder.edit("models/kept.sql", "r.v FROM", "r.v, r.v * 2 AS w FROM")
    apply(workspace)
    assert list(workspace.query("prod", query).rows) == [(*row, None) for row in before]
    assert plan(workspace).is_empty

    workspace.apply(workspace.plans.due("prod", PlanOptions(now=LATER)))
    added = list(workspace.query("prod", query).rows)[len(before) :]
    assert added
    assert all(w == 2 * v for _, v, w in added)
