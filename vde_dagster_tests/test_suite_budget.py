"""Limits of fast tests: processes and databases are counted, seconds are printed only."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from vde_dagster_tests.suite_budget import DATABASES, PROCESSES, SuiteBudget, require_fast


@pytest.mark.parametrize(("processes", "databases"), [(PROCESSES + 1, 0), (0, DATABASES + 1)])
def test_a_fast_test_beyond_a_limit_fails_with_both_counts(processes: int, databases: int) -> None:
    require_fast(PROCESSES, DATABASES)
    with pytest.raises(pytest.fail.Exception) as failed:
        require_fast(processes, databases)
    assert f"started {processes} processes (limit {PROCESSES})" in str(failed.value)
    assert f"opened {databases} databases (limit {DATABASES})" in str(failed.value)


def test_processes_and_files_of_databases_are_counted(
    request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    budget = request.config.pluginmanager.get_plugin("vde-budget")
    assert isinstance(budget, SuiteBudget)
    before = budget.begun, budget.opened
    for name in (":memory:", "", str(tmp_path / "a.db")):
        sqlite3.connect(name).close()
    child = os.posix_spawn("/bin/sh", ["sh", "-c", ":"], {})
    os.waitpid(child, 0)
    assert (budget.begun, budget.opened) == (before[0] + 1, before[1] + 1)
