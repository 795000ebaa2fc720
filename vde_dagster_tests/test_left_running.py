"""Processes that tests leave running are named with the tests; helpers of Python are not."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys

import pytest

from vde_dagster_tests import conftest
from vde_dagster_tests.processes import end_processes, is_running


@pytest.fixture(autouse=True)
def _own_mark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Find the processes of this test alone, whatever other workers start."""
    mark = f"vde-tests-left-running-{os.getpid()}"  # Another checkout may run its tests, too.
    monkeypatch.setenv("VDE_TESTS", mark)
    monkeypatch.setattr(conftest, "MARK", mark)


def test_a_process_that_is_left_running_is_named_with_its_test() -> None:
    left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    try:
        (found,) = conftest._left_running()
    finally:
        end_processes(left.pid)
        left.wait()
    name = "vde_dagster_tests/test_left_running.py::" + (
        "test_a_process_that_is_left_running_is_named_with_its_test"
    )
    assert f"started by {name}: " in found
    assert "time.sleep(600)" in found
    assert not is_running(left.pid)


def test_helpers_that_end_with_the_tests_are_not_left_running() -> None:
    with multiprocessing.get_context("forkserver").Pool(1) as pool:
        pool.apply(abs, (-1,))
        # The helpers of the pool run on, too, until this process ends.
        (worker,) = conftest._left_running()
    assert "forkserver" in worker
