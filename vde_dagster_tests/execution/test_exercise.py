"""The project that a warm engine builds to make itself fast: it has the usual forms, by itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.execution.exercise import write_exercise
from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.session.warm_up import exercise_environment

pytestmark = pytest.mark.long


def test_its_models_are_of_the_usual_kinds_and_have_no_mistakes(tmp_path: Path) -> None:
    root = tmp_path / "own"
    write_exercise(root)
    with Workspace.open(root) as workspace:
        plan = workspace.plan("prod")
    kinds = {snapshot.model.kind.name for snapshot in plan.snapshots.values()}
    assert kinds == {"FULL", "VIEW", "INCREMENTAL_BY_TIME_RANGE", "INCREMENTAL_BY_UNIQUE_KEY"}
    assert len(plan.builds) == 15
    assert any(snapshot.model.audits for snapshot in plan.snapshots.values())


@pytest.mark.proof
def test_it_knows_nothing_of_the_state_that_variables_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    others = tmp_path / "others.db"
    monkeypatch.setenv("VDE_STATE_URL", f"sqlite:///{others}")
    own = tmp_path / "own"
    write_exercise(own)
    asked = "import sys; from pathlib import Path; "
    asked += "from vde_dagster.execution.workspace import Workspace; "
    asked += "print(Workspace.open(Path(sys.argv[1])).settings.resolved_state_url)"
    said = [
        subprocess.run(
            [sys.executable, "-c", asked, str(own)],
            env=env, check=True, capture_output=True, text=True,
        ).stdout.strip()
        for env in (dict(os.environ), exercise_environment())
    ]  # fmt: skip
    assert said[0].endswith("others.db")
    assert str(own) in said[1]
