"""Signals are called with batches, in whatever form they were written."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.plans.signals import Batch, signal_caller
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.intervals.cadence import IntervalUnit
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

NOW = datetime(2024, 3, 10, 12, tzinfo=timezone.utc)


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


def days(first: int, last: int) -> IntervalSet:
    return IntervalSet((Interval(utc(f"2024-03-{first:02}"), utc(f"2024-03-{last:02}")),))


def snapshot(tmp_path: Path, signal: str, call: str = "ready()") -> Snapshot:
    folder = ProjectFolder(
        tmp_path / "project",
        {
            "models/m.sql": f"""
                MODEL (name a.m, start '2024-03-01', signals ({call}),
                  kind INCREMENTAL_BY_TIME_RANGE (time_column day));
                SELECT day FROM lake.days
            """,
            "signals/ready.py": f"from vde_dagster import signal\n\n@signal()\n{signal}\n",
        },
    )
    project = load_project(folder.root)
    built = build_snapshots(project.models, lambda name: (("day", "DATE"),))
    return next(found for name, found in built.items() if str(name) == "a.m")


def test_a_batch_that_begins_within_a_unit_has_the_rest_of_it_first() -> None:
    batch = Batch(IntervalUnit.DAY, Interval(utc("2024-01-01T12:00"), utc("2024-01-03T12:00")))
    ends = ["2024-01-01T12:00", "2024-01-02", "2024-01-03", "2024-01-03T12:00"]
    assert list(batch) == [*pairwise(map(utc, ends))]


def test_a_range_of_a_thousand_million_intervals_is_no_list() -> None:
    batch = Batch(IntervalUnit.FIVE_MINUTE, Interval(utc("0001-01-01"), utc("9999-01-01")))
    assert len(batch) == (batch.interval.end - batch.interval.start).total_seconds() // 300
    assert batch[0] == (utc("0001-01-01"), utc("0001-01-01T00:05:00"))
    assert batch[-1] == (utc("9998-12-31T23:55:00"), utc("9999-01-01"))
    assert batch[1:3] == [batch[1], batch[2]]


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("def ready(batch):\n    return True", days(1, 9)),
        ("def ready(batch):\n    return False", IntervalSet()),
        ("def ready(batch):\n    return []", IntervalSet()),
        ("def ready(batch):\n    return batch[:2]", days(1, 3)),
        ("def ready(batch):\n    return [batch[0], *batch[3:5]]", days(1, 2) | days(4, 6)),
        ("def ready(batch):\n    return [(batch[0][0], batch[-1][1])]", days(1, 9)),
        # Naive instants are UTC, and what lies outside of the batch is not asked for.
        (
            "def ready(batch):\n    from datetime import datetime\n"
            "    return [(datetime(2024, 2, 1), datetime(2024, 3, 4, 12))]",
            days(1, 4),
        ),
        (
            "def ready(batch, execution_time, environment, model):\n"
            "    return (execution_time.hour, environment, model) == (12, 'dev', 'a.m')",
            days(1, 9),
        ),
    ],
)
def test_a_signal_returns_whether_or_which(
    code: str, expected: IntervalSet, tmp_path: Path
) -> None:
    assert signal_caller("dev", NOW)(snapshot(tmp_path, code), days(1, 9)) == expected


def test_ranges_with_gaps_are_asked_about_one_by_one_and_arguments_keep_their_types(
    tmp_path: Path,
) -> None:
    code = (
        "def ready(batch, most, text='', flag=False, share=0.0, none=1):\n"
        '    assert (text, flag, share, none) == ("it\'s", True, 0.5, None)\n'
        "    return batch[:most]"
    )
    call = "ready(most := 1, text := 'it''s', flag := true, share := 0.5, none := null)"
    model = snapshot(tmp_path, code, call)
    missing = days(1, 4) | days(6, 9)
    assert signal_caller("dev", NOW)(model, missing) == days(1, 2) | days(6, 7)


def test_all_signals_have_to_agree(tmp_path: Path) -> None:
    code = "def ready(batch, skip: int):\n    return [one for one in batch if one[0].day % skip]"
    model = snapshot(tmp_path, code, "ready(skip := 2), ready(skip := 3)")
    assert signal_caller("dev", NOW)(model, days(1, 9)) == days(1, 2) | days(5, 6) | days(7, 8)


@pytest.mark.parametrize("answer", ["None", "3", "[1, 2]", "[(batch[0][1], batch[0][0])]"])
def test_an_answer_that_is_none_is_told_with_the_signal(answer: str, tmp_path: Path) -> None:
    model = snapshot(tmp_path, f"def ready(batch):\n    return {answer}")
    with pytest.raises(ProjectError, match=r"signals/ready\.py.*a\.m: signal 'ready' failed"):
        signal_caller("dev", NOW)(model, days(1, 9))


WITH_CONTEXT = {
    "pyproject.toml": "[tool.vde.variables]\nMost = 3\n",
    "models/parent.sql": "MODEL (name a.parent, kind FULL); SELECT 1 AS n",
    "models/child.sql": """
        MODEL (name a.child, start '2024-03-01', signals (ready()),
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST('2024-03-01' AS DATE) AS day, 1 AS n
    """,
}


def with_signal(tmp_path: Path, body: str) -> ProjectFolder:
    text = f"from sqlmesh import signal, ExecutionContext\n\n@signal()\n{body}\n"
    return ProjectFolder(tmp_path / "project", {**WITH_CONTEXT, "signals/ready.py": text})


class Rows(FakeSpark):
    """An engine that answers queries, and keeps them."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def query(self, sql: str, limit: int | None = None) -> Any:
        self.asked.append(sql)
        return (("n", "INT"),), [(1,), (2,)][:limit]


def planned(workspace: Workspace, environment: str = "prod") -> IntervalSet:
    plan = workspace.plan(environment, now=NOW, save=False)
    return next(m.intervals for m in plan.models if str(m.name) == "a.child")


def test_a_context_that_asks_for_no_rows_starts_no_engine(tmp_path: Path) -> None:
    folder = with_signal(
        tmp_path,
        "def ready(batch, context: ExecutionContext):\n"
        "    assert (context.environment, str(context.model)) == ('dev', 'a.child')\n"
        "    assert context.execution_time.day == 10\n"
        "    return batch[:context.var('most') - context.var('least', 1)]",
    )
    with Workspace.open(folder.root) as workspace:
        assert planned(workspace, "dev") == days(1, 3)
        assert workspace.started_engine is None


def test_a_signal_queries_what_the_environment_shows(tmp_path: Path) -> None:
    folder = with_signal(
        tmp_path,
        "def ready(batch, context):\n"
        "    rows = context.engine_adapter.fetchdf('SELECT n FROM a.parent')\n"
        "    assert list(rows.columns) == ['n'] and context.fetchall('SELECT n FROM a.parent')\n"
        "    return batch[: len(rows) + context.fetchone('SELECT n FROM a.parent')[0]]",
    )
    engine = Rows()
    with open_fake(folder.root, engine) as workspace:
        # Nothing is published yet: the query runs as it was written.
        assert planned(workspace) == days(1, 4)
        assert set(engine.asked) == {"SELECT n FROM a.parent"}
        workspace.apply(workspace.plan("prod", now=NOW))
    # A new environment's signals see production, its own once it exists.
    for number, shown in ((2, "`a`.`parent`"), (3, "`a__dev`.`parent`")):
        engine.asked.clear()
        folder.edit("models/child.sql", f"{number - 1} AS n", f"{number} AS n")
        with open_fake(folder.root, engine) as workspace:
            assert planned(workspace, "dev") == days(1, 4)
            assert len(engine.asked) == 3
            assert all(shown in query for query in engine.asked)
            workspace.apply(workspace.plan("dev", now=NOW))


def test_names_of_tables_are_those_of_the_environment_and_a_mistake_is_the_signals(
    tmp_path: Path,
) -> None:
    folder = with_signal(
        tmp_path,
        "def ready(batch, context):\n    raise ValueError(context.resolve_table('a.parent'))",
    )
    nothing = pytest.raises(ProjectError, match=r"a\.parent is not published in environment 'prod'")
    with open_fake(folder.root) as workspace, nothing:
        planned(workspace)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW, select=("a.parent",)))
    shown = pytest.raises(ProjectError, match=r"ready\.py.*ValueError: `lakehouse`\.`a`\.`parent`")
    with open_fake(folder.root) as workspace, shown:
        planned(workspace)


def test_what_was_ready_when_the_plan_was_made_is_filled_however_late(tmp_path: Path) -> None:
    folder = with_signal(
        tmp_path,
        "def ready(batch, execution_time):\n"
        "    from pathlib import Path\n"
        f"    return batch[: int(Path({str(tmp_path / 'ready')!r}).read_text())]",
    )
    (tmp_path / "ready").write_text("2")
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
        for later in ("0", "5"):
            (tmp_path / "ready").write_text(later)
        environment = workspace.apply(plan).environment
        assert environment is not None
        entry = next(e for name, e in environment.entries.items() if str(name) == "a.child")
        assert workspace.store.tables.get(str(entry.table_id)).intervals == days(1, 3)
        run = workspace.plans.due("prod", now=NOW)
        assert run.builds[0].intervals == days(3, 8)
