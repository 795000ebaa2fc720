"""Processes that are stopped at random moments lose nothing, and hold nobody up on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.state.stop_search import attack


@pytest.mark.proof
@pytest.mark.turns(2)
@pytest.mark.parametrize("seed", range(2))
def test_stopped_and_killed_processes_lose_nothing(tmp_path: Path, url: str, seed: int) -> None:
    shared = url if url.startswith("postgresql") else None
    assert attack(tmp_path, seed, shared, seconds=4)["stopped"]
