"""A kind in three modules goes the whole way, and no product code knows of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import dagster as dg
import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import AuditFailedError, ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.kinds import Kind
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.kinds.newest_rows import NewestRows
from vde_dagster_tests.kinds.own_kinds import forget_kinds, know_kinds
from vde_dagster_tests.orchestration.conftest import apply_all, version_of
from vde_dagster_tests.orchestration.test_preview import previews
from vde_dagster_tests.projects import ProjectFolder

NAME = ModelName("marts", "latest")
FILES = {
    "models/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../seeds/orders.csv'),
          columns (customer INT, amount INT, day DATE));
    """,
    "models/latest.sql": """
        MODEL (name marts.latest, start '2024-01-01', end '2024-01-04', cron '@daily',
          kind NEWEST_ROWS (row_key customer, newest_by day, keep 2, batch_size 1),
          audits (unique_combination_of_columns(columns := (customer, newest))));
        SELECT customer, day, amount FROM raw.orders WHERE day BETWEEN @start_date AND @end_date
    """,
    "models/reader.sql": """
        MODEL (name marts.reader, kind FULL);
        SELECT customer, amount FROM marts.latest WHERE newest = 1
    """,
    "seeds/orders.csv": """
        customer,amount,day
        1,10,2024-01-01
        1,11,2024-01-02
        1,12,2024-01-03
        2,20,2024-01-02
    """,
}
LATEST = [(1, date(2024, 1, 3), 12, 1), (1, date(2024, 1, 2), 11, 2), (2, date(2024, 1, 2), 20, 1)]


@pytest.fixture(autouse=True)
def kind() -> Iterator[None]:
    know_kinds()
    yield
    forget_kinds()


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


def rows(workspace: Workspace, query: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in workspace.query("prod", query).rows]


def latest(workspace: Workspace) -> list[tuple[object, ...]]:
    return rows(workspace, "SELECT * FROM marts.latest ORDER BY customer, newest")


def test_it_is_read_from_a_header_and_from_json(folder: ProjectFolder) -> None:
    kind = load_project(folder.root).models[NAME].kind
    assert kind == NewestRows(("customer",), "day", keep=2, batch_size=1)
    assert from_plain(Kind, to_plain(kind)) == kind


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("row_key customer, ", "", "kind NEWEST_ROWS requires 'row_key'"),
        ("keep 2", "keeps 2", "kind NEWEST_ROWS has no property 'keeps'"),
        ("keep 2", "keep many", "takes a whole number"),
    ],
)
def test_its_mistakes_are_told_like_those_of_others(
    folder: ProjectFolder, old: str, new: str, message: str
) -> None:
    folder.edit("models/latest.sql", old, new)
    with pytest.raises(ProjectError, match=message):
        load_project(folder.root)


def test_a_python_model_has_it_too(folder: ProjectFolder) -> None:
    folder.write(
        "models/latest.py",
        """
        from vde_dagster import model


        @model(
            "marts.python",
            kind={"name": "NEWEST_ROWS", "row_key": ["a", "b"], "newest_by": "day", "keep": 3},
            columns={"a": "INT", "b": "INT", "day": "DATE"},
        )
        def execute(context, start, end, execution_time):
            return None
        """,
    )
    model = load_project(folder.root).models[ModelName("marts", "python")]
    assert model.kind == NewestRows(("a", "b"), "day", keep=3)


def test_the_column_that_it_adds_has_a_version_and_a_query_may_not_have_it(
    folder: ProjectFolder,
) -> None:
    first = build_snapshots(load_project(folder.root).models, lambda name: None)[NAME]
    assert [(c.name, c.type) for c in first.columns][-1] == ("newest", "INT")
    folder.edit("models/latest.sql", "keep 2", "keep 3")
    second = build_snapshots(load_project(folder.root).models, lambda name: None)[NAME]
    assert first.columns[-1].version != second.columns[-1].version
    assert first.columns[:-1] == second.columns[:-1]
    folder.edit("models/latest.sql", "amount FROM", "amount AS newest FROM")
    with pytest.raises(ProjectError, match="returns a column 'newest', but its kind"):
        build_snapshots(load_project(folder.root).models, lambda name: None)


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_it_is_planned_filled_audited_published_and_rolled_back(folder: ProjectFolder) -> None:
    with Workspace.open(folder.root) as workspace:
        plan = workspace.plan("prod")
        planned = next(model for model in plan.models if model.name == NAME)
        assert [str(i)[:10] for i in planned.intervals] == ["2024-01-01"]
        workspace.apply(plan)
        assert latest(workspace) == LATEST
        assert rows(workspace, "SELECT * FROM marts.reader ORDER BY 1") == [(1, 12), (2, 20)]
        assert workspace.plan("prod").is_empty

        folder.edit("models/latest.sql", "keep 2", "keep 1")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert latest(workspace) == [row for row in LATEST if row[-1] == 1]
        workspace.environments.rollback("prod")
        assert latest(workspace) == LATEST

        # A blocking audit that fails keeps what is published as it was.
        folder.edit("models/latest.sql", "(customer, newest)", "(newest)")
        folder.edit("models/latest.sql", "keep 1", "keep 3")
        workspace.reload()
        with pytest.raises(AuditFailedError):
            workspace.apply(workspace.plan("prod"))
        assert latest(workspace) == LATEST


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_dagster_shows_its_partitions_and_its_newest_rows(folder: ProjectFolder) -> None:
    with dg.DagsterInstance.ephemeral() as instance:
        assert apply_all(folder, instance).success
        version = version_of(folder, str(NAME))
        filled = instance.get_materialized_partitions(dg.AssetKey(["marts", "latest"]))
        assert filled == {f"{version}|2024-01-0{day}" for day in (1, 2, 3, 4)}
        (_, shown) = previews(instance, "marts/latest")[-1]
        assert "| customer | day | amount | newest |" in shown
