"""The example of a team: two people, two pull requests and a rollback, played as the docs say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.turns(12, "plays and tours")]

PLAY = Path(__file__).parents[2] / "examples" / "team" / "play.py"


def test_the_play_of_a_team_ends_as_it_says_and_leaves_nothing_running(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    done = subprocess.run(
        [sys.executable, str(PLAY), str(folder)],
        env={**os.environ, "VDE_SPARK__WARM_UP": "false"},
        capture_output=True,
        text=True,
        timeout=540,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The play is over" in done.stdout
    assert not list(folder.rglob("engine.json"))
    for person in ("ada", "ben", "ci"):
        assert (folder / person / ".git").is_dir()
