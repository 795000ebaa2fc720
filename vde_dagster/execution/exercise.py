"""Warm-up of a new engine: a small generated project is built and changed.

The JVM loads, checks and interprets code that runs for the first time, which takes most of the time
of the first models. So while the engine is idle, `python -m vde_dagster.execution.exercise` builds
typical models on it, as an apply does. The command reads its request as JSON from standard input,
because other users can see command lines.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.settings import SessionSettings

_PARTS = 3
"""Number of models of each form; Spark runs several in parallel, as in a user's project."""

_MODELS = Path(__file__).with_name("exercise_models")
_QUERY = "SELECT name, sum(price), max(place) FROM out.shown_0 GROUP BY name ORDER BY name"


def exercise(folder: Path, master: str, rounds: int) -> None:
    """Build, change and query a small project on a Spark server several times, then delete it."""
    try:
        for number in range(rounds):
            root = folder / f"round_{number}"
            write_exercise(root)
            _build_project(root, master)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_exercise(root: Path) -> None:
    (root / "models").mkdir(mode=0o700, parents=True)
    (root / "pyproject.toml").write_text("[tool.vde]\nname = 'exercise'\n")
    for name, text in _exercise_models():
        (root / "models" / f"{name}.sql").write_text(text)


def _exercise_models() -> Iterator[tuple[str, str]]:
    for part in range(_PARTS):
        rows = ", ".join(
            f"({n}, DATE '2024-01-0{n % 3 + 1}', 'n{n % 4}', {n * 1.5 + part}D, {n})"
            for n in range(12)
        )
        for file in _MODELS.glob("*.sql"):
            other = (part + 1) % _PARTS
            text = file.read_text("utf-8").format(part=part, other=other, rows=rows)
            yield f"{file.stem}_{part}", text


def _build_project(root: Path, master: str) -> None:
    own = Workspace.open(root)
    settings = replace(SessionSettings.from_settings(own.settings), master=master, warm=None)
    engine = SparkEngine(settings, root, own.lakehouse)
    try:
        with Workspace.open(root, engine=engine) as workspace:
            workspace.apply(workspace.plan("prod"))
        for file in (root / "models").glob("ranked_*.sql"):
            file.write_text(file.read_text().replace("SELECT id,", "SELECT id AS more, id,", 1))
        with Workspace.open(root, engine=engine) as workspace:
            workspace.apply(workspace.plan("dev"))
            workspace.queries.run("dev", _QUERY)
    finally:
        engine.close()


if __name__ == "__main__":
    os.nice(10)  # Work of users has priority.
    request = json.load(sys.stdin)
    exercise(Path(request["folder"]), request["master"], request["rounds"])
