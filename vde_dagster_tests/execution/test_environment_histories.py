"""No history of environments that share tables shows rows of two times, or other rows later."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.execution.environment_histories import play

BOTH = ("full", "dev_only")


@pytest.mark.parametrize("seed", range(3))
def test_versions_read_what_they_showed(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path, seed, 6)["versions"]


@pytest.mark.turns(5)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(100, 110))
def test_long_histories_keep_their_versions(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path, seed, 20)["versions"]


@pytest.mark.turns(4)
@pytest.mark.proof
@pytest.mark.parametrize("seed", range(200, 208))
def test_histories_with_tables_in_production_keep_their_versions(tmp_path: Path, seed: int) -> None:
    assert play(tmp_path, seed, 20, modes=BOTH)["versions"]
