"""The example of a team: a script plays two people, a pull request, and a push nobody saw."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TEAM = Path(__file__).parents[2] / "examples" / "team"


@pytest.mark.spark
def test_the_script_goes_from_ten_models_to_production(tmp_path: Path) -> None:
    assert len(list(TEAM.glob("models/*/*.sql"))) == 10
    before = {path: path.read_bytes() for path in TEAM.rglob("*") if path.is_file()}
    done = subprocess.run(
        ["sh", str(TEAM / "play.sh")],
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "TMPDIR": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "2 models computed, 6 reused" in done.stdout
    assert "| `marts.customers` | name | 4 (before 4) | 0 | 0 | 4 of 4 |" in done.stdout
    assert "was published to prod as version 2, nothing computed" in done.stdout
    assert "nobody saw it" in done.stderr
    assert len(re.findall(r"^== .* \(\d+ s\)$", done.stdout, re.MULTILINE)) == 4
    assert list(tmp_path.iterdir()) == []
    assert {path: path.read_bytes() for path in TEAM.rglob("*") if path.is_file()} == before
