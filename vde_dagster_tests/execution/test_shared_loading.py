"""Several processes load and plan a large project with the same results as one process."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base import workers
from vde_dagster.base.failures import Problem
from vde_dagster.base.workers import Results, Workers
from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning import build_snapshots
from vde_dagster.project.loading import load
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.proof  # Worker processes, some of them killed.

WIDTH, LEVELS = 12, 4
MACROS = """
from vde_dagster import macro

@macro()
def one_more(evaluator, column):
    return f"{column} + 1"
"""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Make small projects count as large; return, per item of a worker, whether it did it."""
    monkeypatch.setattr(load, "_MANY_FILES", 10)
    monkeypatch.setattr(build_snapshots, "_FEW", 3)
    monkeypatch.setattr(build_snapshots, "_MANY", 10)
    done: list[bool] = []
    finish = Workers._finish_request

    def noted(self: Workers, results: Results) -> Results:
        done.extend(value is not None for value in results.values)
        return finish(self, results)

    monkeypatch.setattr(Workers, "_finish_request", noted)
    return done


def project(root: Path, processes: int) -> ProjectFolder:
    """Write a project of models in levels, with a macro, audits and a table of another system."""
    folder = ProjectFolder(root)
    folder.write("pyproject.toml", f"[tool.vde]\nname = 'p'\nload_processes = {processes}")
    folder.write("macros/more.py", MACROS)
    folder.write("models/raw.yaml", "- name: raw.orders\n  columns: {id: INT, day: DATE}")
    for level in range(LEVELS):
        for number in range(WIDTH):
            parent = f"l{level - 1}.m{(number * 5) % WIDTH}" if level else "raw.orders"
            other = f"l{level - 1}.m{number}" if level else "raw.orders"
            folder.write(
                f"models/l{level}_m{number:02}.sql",
                f"""
                MODEL (name l{level}.m{number}, kind FULL, audits (unique_values(columns := (id))));
                SELECT a.id, @one_more(a.id) AS next_{number}, b.day FROM {parent} AS a
                JOIN {other} AS b USING (id) WHERE a.id > {number} OR a.id = NULL;
                """,
            )
    return folder


def outcome(root: Path) -> tuple[list[tuple[str, str]], list[str]]:
    """Return a project's snapshots in order with the warnings, or its errors."""
    warnings: list[Problem] = []
    with Workspace.open(root) as workspace:
        try:
            models = workspace.project.models
            snapshots = workspace.snapshots_of(models, workspace.parsed, warnings)
        except ProjectError as error:
            return [], [f"{one.location} {one.message} ({one.hint})" for one in error.mistakes]
    texts = [f"{one.location} {one.message} ({one.hint})" for one in warnings]
    return [(str(name), snapshot.id) for name, snapshot in snapshots.items()], texts


def with_mistakes(folder: ProjectFolder) -> None:
    """Add errors of every stage of loading and planning, in files of several workers."""
    folder.write("models/l1_m03.sql", "MODEL (name l1.m3, kind NONE_SUCH); SELECT 1 AS id")
    folder.write("models/l3_m05.sql", "MODEL (name l3.m5); SELECT FROM WHERE")
    folder.write("models/l2_m07.sql", "MODEL (name l2.m7); SELECT @no_such_macro(1) AS id")
    folder.write("models/l3_m11.sql", "MODEL (name l3.m11); SELECT id FROM l9.missing")


def with_wrong_columns(folder: ProjectFolder) -> None:
    """Add errors that only planning finds, in models of several workers."""
    for name, column in (("l1_m08", "wrong"), ("l2_m02", "missing"), ("l3_m10", "absent")):
        text = f"MODEL (name {name.replace('_m0', '.m').replace('_', '.')}); SELECT "
        folder.write(f"models/{name}.sql", f"{text}x.{column}, x.id, x.day FROM l0.m1 AS x")


def with_waiting_files(folder: ProjectFolder) -> None:
    """Add models whose macros need the columns of models in other files."""
    for number in (1, 6):
        folder.write(
            f"models/l3_m{number:02}.sql",
            f"MODEL (name l3.m{number}); SELECT @STAR(l2.m{number}) FROM l2.m{number}",
        )
    text = "MODEL (name l2.m6); SELECT CAST(1 AS INT) AS id, DATE '2024-01-01' AS day"
    folder.write("models/l2_m06.sql", text)


@pytest.mark.parametrize("change", [None, with_mistakes, with_wrong_columns, with_waiting_files])
def test_two_processes_find_the_same_snapshots_and_errors_as_one(
    change: object, tmp_path: Path, answers: list[bool]
) -> None:
    found = []
    for processes in (1, 2):
        folder = project(tmp_path / "p", processes)
        if callable(change):
            change(folder)
        found.append(outcome(folder.root))
        assert any(answers) == (processes == 2)
        for cached in (folder.root / ".vde" / "cache").iterdir():
            cached.unlink()
    assert found[0] == found[1]
    snapshots, errors_or_warnings = found[0]
    assert len(snapshots) == (LEVELS * WIDTH + 1 if change in (None, with_waiting_files) else 0)
    assert errors_or_warnings


def test_results_of_workers_are_cached(tmp_path: Path, answers: list[bool]) -> None:
    folder = project(tmp_path, 2)
    first = outcome(folder.root)
    assert sum(answers) > WIDTH
    answers.clear()
    assert outcome(folder.root) == first
    assert answers == []


def test_each_process_reads_files_of_all_layers_and_so_builds_what_it_has_parsed(
    tmp_path: Path, answers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    send = Workers.send
    parts: list[list[str]] = []

    def noted(self: Workers, worker: int, function: object, argument: Any, items: Any) -> None:
        if function is load.read_files:
            parts.append([Path(path).name for path in items])
        send(self, worker, function, argument, items)  # type: ignore[arg-type]

    monkeypatch.setattr(Workers, "send", noted)
    outcome(project(tmp_path, 2).root)
    assert {name[:2] for name in parts[0]} >= {f"l{level}" for level in range(LEVELS)}


def test_a_project_is_loaded_although_its_workers_die(
    tmp_path: Path, answers: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = outcome(project(tmp_path / "alone", 1).root)
    send = Workers.send
    killed = []

    def send_and_kill(self: Workers, worker: int, *rest: object) -> None:
        send(self, worker, *rest)  # type: ignore[arg-type]
        process = self._workers[worker]._process
        process.kill()
        killed.append(process)

    monkeypatch.setattr(Workers, "send", send_and_kill)
    assert outcome(project(tmp_path / "killed", 2).root) == alone
    assert killed
    assert not any(answers)
    assert {process.poll() for process in killed} == {-signal.SIGKILL}


def test_no_more_processes_work_than_a_container_allows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "cpu.max"
    monkeypatch.setattr(workers, "_CPU_LIMIT", str(limit))
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(6)), raising=False)
    counts = {}
    for text in ("max 100000", "400000 100000", "50000 100000"):
        limit.write_text(text)
        counts[text] = workers.usable_cores(), Workers(0).count, Workers(3).count
    assert counts == {
        "max 100000": (6, 5, 2),
        "400000 100000": (4, 3, 2),
        "50000 100000": (1, 0, 2),
    }
