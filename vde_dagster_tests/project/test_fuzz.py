"""Spoilt files of every kind: a load works or says what is wrong, in bounded time and length.

`benchmarks/fuzz_project_files.py` does the same with ten thousand.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MUTANTS = 100


@pytest.mark.proof
@pytest.mark.turns(3)
@pytest.mark.parametrize("part", range(3))
def test_spoilt_files_are_loaded_or_refused(part: int) -> None:
    """Other seeds every day; `VDE_FUZZ_SEED` repeats one."""
    today = datetime.date.today().toordinal() * 1_000 + part * MUTANTS
    seed = int(os.environ.get("VDE_FUZZ_SEED") or today)
    print(f"VDE_FUZZ_SEED={seed}")
    command = [sys.executable, "-m", "vde_dagster_tests.project.fuzz", "--json"]
    done = subprocess.run(
        [*command, "--seed", str(seed), "--count", str(MUTANTS)],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(outcomes) == MUTANTS, done.stderr
    wrong = [one for one in outcomes if one["result"] not in ("loaded", "refused")]
    assert not wrong, (seed, wrong)
    assert {one["result"] for one in outcomes} == {"loaded", "refused"}
