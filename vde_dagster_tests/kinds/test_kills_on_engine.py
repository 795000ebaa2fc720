"""The crash sample on a warm engine: whoever dies, another finishes, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from vde_dagster.spark.session.settings import WarmSettings
from vde_dagster.spark.session.warm import WarmEngine, join_engine, stop_engines
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.kinds.kills import Life, Operation
from vde_dagster_tests.kinds.test_kills import CASES

pytestmark = [pytest.mark.spark, pytest.mark.server]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WarmEngine]:
    folder = tmp_path_factory.mktemp("engine")
    warm = WarmSettings(folder / "engine", by_itself=True, idle_seconds=600)
    started = join_engine(replace(small_spark(folder), warm=warm), warm, start=True)
    assert started is not None
    yield started
    stop_engines(warm.folder)


@pytest.mark.turns(88)
@pytest.mark.parametrize(
    ("life", "operation"), CASES, ids=lambda value: getattr(value, "name", "").replace(" ", "_")
)
def test_whoever_is_killed_another_finishes_as_if_computed_from_scratch(
    life: Life, operation: Operation, engine: WarmEngine
) -> None:
    command = [sys.executable, "-m", "vde_dagster_tests.kinds.killed_on_engine"]
    ended = subprocess.run(
        [*command, life.name, operation.name],
        env={**os.environ, "VDE_SPARK__MASTER": engine.master},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
