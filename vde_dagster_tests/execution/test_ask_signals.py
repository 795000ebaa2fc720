"""Signals are called with batches, in whatever form they were written."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.execution.ask_signals import Batch, signals_of
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.cadence import IntervalUnit
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
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
    assert signals_of("dev", NOW)(snapshot(tmp_path, code), days(1, 9)) == expected


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
    assert signals_of("dev", NOW)(model, missing) == days(1, 2) | days(6, 7)


def test_all_signals_have_to_agree(tmp_path: Path) -> None:
    code = "def ready(batch, skip: int):\n    return [one for one in batch if one[0].day % skip]"
    model = snapshot(tmp_path, code, "ready(skip := 2), ready(skip := 3)")
    assert signals_of("dev", NOW)(model, days(1, 9)) == days(1, 2) | days(5, 6) | days(7, 8)


@pytest.mark.parametrize("answer", ["None", "3", "[1, 2]", "[(batch[0][1], batch[0][0])]"])
def test_an_answer_that_is_none_is_told_with_the_signal(answer: str, tmp_path: Path) -> None:
    model = snapshot(tmp_path, f"def ready(batch):\n    return {answer}")
    with pytest.raises(ProjectError, match=r"signals/ready\.py.*a\.m: signal 'ready' failed"):
        signals_of("dev", NOW)(model, days(1, 9))
