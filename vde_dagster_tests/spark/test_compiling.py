"""Small fills run in Spark's interpreter, and nothing else does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.compiling import Compiling
from vde_dagster_tests.projects import ProjectFolder

WHOLE_STAGE, FACTORY = "spark.sql.codegen.wholeStage", "spark.sql.codegen.factoryMode"
ON = {WHOLE_STAGE: "true", FACTORY: "FALLBACK"}
OFF = {WHOLE_STAGE: "false", FACTORY: "NO_CODEGEN"}


class Session:
    """A session that only has a configuration."""

    def __init__(self) -> None:
        self.conf: Any = self
        self.values = dict(ON)
        self.has_ended = False

    def get(self, name: str) -> str:
        return self.values[name]

    def set(self, name: str, value: str) -> None:
        if self.has_ended:
            raise ConnectionError("its JVM has ended")
        self.values[name] = value


def test_a_session_compiles_unless_all_its_users_are_small() -> None:
    compiling, session, other = Compiling({}), Session(), Session()
    with compiling.using(session, small=True):  # type: ignore[arg-type]
        assert (session.values, other.values) == (OFF, ON)
        with compiling.using(session, small=False):  # type: ignore[arg-type]
            assert session.values == ON
            with compiling.using(session, small=True):  # type: ignore[arg-type]
                assert session.values == ON
        assert session.values == OFF
    assert session.values == ON


def test_a_small_user_leaves_the_configuration_as_it_was() -> None:
    compiling, session = Compiling({}), Session()
    session.values[FACTORY] = "CODEGEN_ONLY"
    with compiling.using(session, small=True):  # type: ignore[arg-type]
        assert session.values == OFF
    assert session.values == {**ON, FACTORY: "CODEGEN_ONLY"}


@pytest.mark.parametrize("name", [WHOLE_STAGE, FACTORY])
def test_a_projects_own_setting_stays(name: str) -> None:
    compiling, session = Compiling({name: "x"}), Session()
    with compiling.using(session, small=True):  # type: ignore[arg-type]
        assert session.values == ON


def test_the_error_of_work_whose_jvm_ends_is_kept() -> None:
    compiling, session = Compiling({}), Session()

    def work() -> None:
        with compiling.using(session, small=True):  # type: ignore[arg-type]
            session.has_ended = True
            raise ValueError("the fill failed")

    with pytest.raises(ValueError, match="the fill failed"):
        work()


def test_a_user_whose_jvm_has_ended_is_counted_no_longer() -> None:
    compiling, session = Compiling({}), Session()
    session.has_ended = True
    with (
        pytest.raises(ConnectionError),
        compiling.using(session, small=True),  # type: ignore[arg-type]
    ):
        pass
    session.has_ended = False
    with compiling.using(session, small=False):  # type: ignore[arg-type]
        pass
    assert session.values == ON


@pytest.mark.spark
def test_spark_interprets_a_query_of_a_small_user_with_the_same_rows(
    spark_engine: SparkEngine,
) -> None:
    compiling, session = Compiling({}), spark_engine.session
    query = "SELECT id % 3 AS k, count(*) AS n, sum(id * 1.5) AS s FROM range(100) GROUP BY 1"

    def run() -> tuple[bool, list[Any]]:
        frame = session.sql(query)
        rows = sorted(frame.collect())
        return "*(" in frame._jdf.queryExecution().executedPlan().toString(), rows

    compiled, rows = run()
    with compiling.using(session, small=True):
        interpreted, same = run()
    assert (compiled, interpreted) == (True, False)
    assert rows == same
    assert run()[0]


@pytest.mark.spark
def test_an_apply_interprets_the_fills_that_read_few_rows(
    spark_engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = ProjectFolder(
        tmp_path,
        {
            "models/few.sql": "MODEL (name m.few, kind FULL); SELECT 1 AS x",
            "models/many.sql": "MODEL (name m.many, kind FULL); SELECT id FROM range(30000)",
            "models/both.sql": "MODEL (name m.both, kind FULL); SELECT x, id FROM m.few, m.many",
            "models/again.sql": "MODEL (name m.again, kind FULL); SELECT x + 1 AS y FROM m.few",
        },
    )
    fill, small = SparkEngine.fill, dict[str, bool]()

    def watched(engine: SparkEngine, task: FillTask) -> FillResult:
        small[task.snapshot.name.name] = task.is_small
        return fill(engine, task)

    monkeypatch.setattr(SparkEngine, "fill", watched)
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert workspace.query("prod", "SELECT count(*), sum(x) FROM m.both").rows == (
            (30000, 30000),
        )
    assert small == {"few": True, "many": False, "both": False, "again": True}
