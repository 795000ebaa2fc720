"""Unit tests that run with a plan: which, when, and what a failed one stops."""

from __future__ import annotations

import contextlib
import shutil
from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.errors import UnitTestFailedError, VdeError
from vde_dagster.execution.events import Event, ModelStarted, UnitTestFinished
from vde_dagster.execution.unit_testing.run_test import with_frozen_time
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import PlanKind
from vde_dagster_tests.execution.answering import FILES, AnsweringSpark
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def engine() -> AnsweringSpark:
    return AnsweringSpark()


def finished(workspace: Workspace, environment: str = "prod") -> list[tuple[str, bool]]:
    """Plan, apply, and return each test that was considered, with whether it was remembered."""
    events: list[Event] = []
    workspace.apply(workspace.plan(environment), on_event=events.append)
    return [
        (event.result.test.name, event.remembered)
        for event in events
        if isinstance(event, UnitTestFinished)
    ]


def test_tests_run_before_anything_is_filled(folder: ProjectFolder, engine: AnsweringSpark) -> None:
    events: list[Event] = []
    with open_fake(folder.root, engine) as workspace:
        workspace.apply(workspace.plan("prod"), on_event=events.append)
    kinds = [type(event) for event in events]
    assert kinds.count(UnitTestFinished) == 1
    assert kinds.index(UnitTestFinished) < kinds.index(ModelStarted)
    (sql,) = engine.tested
    assert "21" in sql


def test_a_test_runs_after_the_settings_of_its_model(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    """Its query has the temporary view that it reads; other statements do not run."""
    folder.write(
        "models/double.sql",
        """
        MODEL (name db.double, kind FULL);
        SET spark.sql.ansi.enabled = false;
        CREATE TEMPORARY VIEW some AS SELECT * FROM db.raw;
        INSERT INTO db.log SELECT count(*) FROM some;
        SELECT n * 2 AS n FROM some
        """,
    )
    with open_fake(folder.root, engine) as workspace:
        workspace.apply(workspace.plan("prod"))
    assert engine.before == ["SET spark.sql.ansi.enabled = false"]
    assert "some" in engine.tested[0]


def test_a_failed_test_computes_and_publishes_nothing(folder: ProjectFolder) -> None:
    wrong = AnsweringSpark(right=False)
    with open_fake(folder.root, wrong) as workspace:
        plan = workspace.plan("prod")
        before = wrong.statements
        with pytest.raises(UnitTestFailedError) as raised:
            workspace.apply(plan)
        assert "test_doubles of db.double: rows missing: 1, unexpected: 1" in str(raised.value)
        assert wrong.statements == before
        assert workspace.store.environments.get("prod") is None
        record = workspace.store.plans.record(plan.id)
        assert record is not None
        assert record.status == "failed"

        wrong.right = True
        assert workspace.apply(plan).published


def test_every_failed_test_is_named(folder: ProjectFolder) -> None:
    with open_fake(folder.root, AnsweringSpark()) as workspace:
        plan_id = workspace.plan("prod").id
    # Written after the plan was made, which would have refused it.
    folder.write(
        "tests/more.yaml",
        """
        test_without_input:
          model: db.double
          outputs:
            query: {rows: [{n: 42}]}
        """,
    )
    with (
        open_fake(folder.root, AnsweringSpark(right=False)) as workspace,
        pytest.raises(UnitTestFailedError) as raised,
    ):
        workspace.apply(workspace.store.plans.load(plan_id))
    assert "test_doubles of db.double" in str(raised.value)
    assert "test_without_input of db.double: " in str(raised.value)
    assert "has no rows for db.raw" in str(raised.value)


def test_what_passed_is_not_run_again_in_another_environment(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace, "dev") == [("test_doubles", False)]
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace, "prod") == [("test_doubles", True)]
        assert finished(workspace, "qa") == [], "it shows what production shows"
    assert len(engine.tested) == 1


@pytest.mark.parametrize(
    ("path", "old", "new", "remembered"),
    [
        ("models/double.sql", "n * 2", "n + n", False),
        ("models/double.sql", "kind FULL", "kind FULL, description 'Twice'", True),
        # What a parent computes does not matter to a test, the types of its columns do.
        ("models/raw.sql", "SELECT 1 AS n", "SELECT 1 + 1 AS n", True),
        ("models/raw.sql", "SELECT 1 AS n", "SELECT CAST(1 AS BIGINT) AS n", False),
    ],
)
def test_what_changed_is_tested_again(
    folder: ProjectFolder,
    engine: AnsweringSpark,
    path: str,
    old: str,
    new: str,
    remembered: bool,
) -> None:
    with open_fake(folder.root, engine) as workspace:
        finished(workspace)
    folder.edit(path, old, new)
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace) == [("test_doubles", remembered)]


def test_a_changed_test_runs_again_and_a_moved_one_does_not(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    with open_fake(folder.root, engine) as workspace:
        finished(workspace, "dev")
    folder.edit("tests/test_double.yaml", "test_doubles:", "# moved down\n\ntest_doubles:")
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace, "qa") == [("test_doubles", True)]
    folder.edit("tests/test_double.yaml", "n: 21", "n: 22")
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace, "prod") == [("test_doubles", False)]


def test_a_failed_test_is_never_remembered(folder: ProjectFolder) -> None:
    wrong = AnsweringSpark(right=False)
    with open_fake(folder.root, wrong) as workspace:
        plan = workspace.plan("prod")
        for _ in range(2):
            with pytest.raises(UnitTestFailedError):
                workspace.apply(plan)
    assert len(wrong.tested) == 2


def test_an_unreadable_memory_means_that_tests_run(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    with open_fake(folder.root, engine) as workspace:
        finished(workspace, "dev")
    (folder.root / ".vde/cache/unit_tests").write_text("[")
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace, "prod") == [("test_doubles", False)]


def test_models_that_a_plan_leaves_alone_are_not_tested(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    with open_fake(folder.root, engine) as workspace:
        finished(workspace)
    folder.edit("models/view.sql", "SELECT n", "SELECT n AS m")
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace) == []


def test_a_scheduled_run_tests_nothing(folder: ProjectFolder) -> None:
    wrong = AnsweringSpark(right=False)
    with open_fake(folder.root, wrong) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=True), skip_tests=True)
        run = workspace.plans.due("prod")
        assert run.kind is PlanKind.RUN
        assert run.builds
        assert workspace.apply(run).published
    assert wrong.tested == []


@pytest.mark.proof
def test_a_stored_plan_is_not_held_up_by_what_the_files_say_since(folder: ProjectFolder) -> None:
    wrong = AnsweringSpark(right=False)
    with open_fake(folder.root, wrong) as workspace:
        plan = workspace.plan("prod")
    folder.edit("models/double.sql", "n * 2", "n * 3")
    folder.write("models/broken.sql", "MODEL (name")
    with open_fake(folder.root, wrong) as workspace:
        assert workspace.apply(workspace.store.plans.load(plan.id)).published
    assert wrong.tested == []


@pytest.mark.proof
def test_a_stored_plan_runs_the_tests_that_fit_beside_broken_files(folder: ProjectFolder) -> None:
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod")
    folder.write("models/broken.sql", "MODEL (name")
    shutil.rmtree(folder.root / ".vde/cache")
    wrong = AnsweringSpark(right=False)
    with open_fake(folder.root, wrong) as workspace, pytest.raises(UnitTestFailedError):
        workspace.apply(workspace.store.plans.load(plan.id))


VARIABLES = """
test_limit:
  model: db.limited
  inputs:
    raw.t: {rows: [{n: 1}]}
  outputs:
    query: {rows: [{n: 1}]}
  vars: {LIMIT: 7, execution_time: 2024-02-03 04:05:06}
"""


def test_variables_and_the_time_of_a_test_hold_in_it(folder: ProjectFolder) -> None:
    query = "SELECT n, now() AS now FROM raw.t WHERE n < @limit AND d = CURRENT_DATE"
    (folder.root / "models/limited.sql").write_text(f"MODEL (name db.limited, kind FULL); {query}")
    (folder.root / "tests/test_limited.yaml").write_text(VARIABLES)
    (folder.root / "pyproject.toml").write_text("[tool.vde.variables]\nlimit = 5\n")
    engine = AnsweringSpark()
    with open_fake(folder.root, engine) as workspace:
        plan = workspace.plan("prod")
        with contextlib.suppress(VdeError):  # There is no table raw.t to fill from.
            workspace.apply(plan)
    sql = next(sql for sql in engine.tested if " < " in sql)
    assert "n < 7 AND d = DATE '2024-02-03'" in sql
    assert "TIMESTAMP '2024-02-03 04:05:06+00:00' AS now" in sql


@pytest.mark.parametrize(
    ("sql", "frozen"),
    [
        ("SELECT current_date() FROM t", "SELECT DATE '2024-02-03' FROM t"),
        ("SELECT a AS current_date, t.now FROM t", "SELECT a AS current_date, t.now FROM t"),
        ("SELECT 'now()', unix_timestamp()", "SELECT 'now()', 1706933106L"),
        ("SELECT unix_timestamp(ts), now FROM t", "SELECT unix_timestamp(ts), now FROM t"),
        ("SELECT LOCALTIMESTAMP", "SELECT TIMESTAMP_NTZ '2024-02-03 04:05:06'"),
    ],
)
def test_what_asks_for_the_time(sql: str, frozen: str) -> None:
    now = datetime(2024, 2, 3, 4, 5, 6, tzinfo=timezone.utc)

    assert with_frozen_time(sql, now) == frozen


def test_a_model_that_reads_itself_begins_with_none_of_its_rows(
    folder: ProjectFolder, engine: AnsweringSpark
) -> None:
    folder.write(
        "models/double.sql",
        """
        MODEL (name db.double, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key n), columns (n INT));
        SELECT n * 2 AS n FROM db.raw WHERE n NOT IN (SELECT n FROM db.double)
        """,
    )
    with open_fake(folder.root, engine) as workspace:
        assert finished(workspace) == [("test_doubles", False)]
    (sql,) = engine.tested
    assert "(SELECT n FROM (SELECT CAST(NULL AS INT) AS `n` WHERE FALSE)" in sql
