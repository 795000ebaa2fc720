"""The same project loaded and planned by SQLMesh and by this package, in turns, as whole processes.

    python -m benchmarks.planning_beside_sqlmesh ENVIRONMENT [--models 1000] [--runs 1]

ENVIRONMENT is a folder with SQLMesh in it; where there is none, the newest SQLMesh is installed
into it. The project is that of `planning_scale`: ten layers of views, full and incremental models.
SQLMesh has DuckDB as its engine and state, and publishes without computing rows, as this package
does here. The edit appends a column to the model that most others read.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.planning_scale import OPEN, PUBLISH, write_project

CONFIG = """
gateways:
  local:
    connection: {type: duckdb, database: warehouse.db}
default_gateway: local
model_defaults: {dialect: spark, start: 2024-01-01}
disable_anonymized_analytics: true
"""
THEIRS = "from sqlmesh import Context; c = Context(paths='.')\n"
THEIR_PLAN = THEIRS + "plan = c.plan_builder({}, skip_tests=True).build()\n"
THEIR_STEPS = {
    "cold": THEIRS + "print(len(c.models))",
    "warm": THEIRS + "print(len(c.models))",
    "publish": THEIRS + "c.plan('prod', skip_tests=True, no_prompts=True, auto_apply=True, "
    "empty_backfill=True)",
    "unchanged": THEIR_PLAN.format("'prod'") + "print(len(plan.missing_intervals))",
    "edited": THEIR_PLAN.format("'prod'") + "print(len(plan.missing_intervals))",
    "second": THEIR_PLAN.format("'dev', include_unmodified=True") + "print(len(c.models))",
}
OUR_STEPS = {
    "cold": OPEN + "print(len(ws.snapshots()))",
    "warm": OPEN + "print(len(ws.snapshots()))",
    "publish": PUBLISH,
    "unchanged": OPEN + "print(len(ws.plan('prod').builds))",
    "edited": OPEN + "print(len(ws.plan('prod').builds))",
    "second": OPEN + "print(len(ws.plan('dev').views.created))",
}
TITLES = {
    "cold": "load, no cache",
    "warm": "load, unchanged",
    "unchanged": "plan without a change",
    "edited": "plan with one edit",
    "second": "plan of a second environment",
}


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("environment", type=Path, nargs="?")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=1)
    said = parser.parse_args()
    if said.environment is None:
        print("give a folder for SQLMesh's environment; nothing was compared")
        return 0
    theirs = _environment(said.environment)
    with tempfile.TemporaryDirectory() as folder:
        sides = [
            Side(Path(folder) / "sqlmesh", theirs, THEIR_STEPS, ".cache", said.models),
            Side(Path(folder) / "ours", Path(sys.executable), OUR_STEPS, ".vde", said.models),
        ]
        (sides[0].root / "config.yaml").write_text(CONFIG)
        print(f"{said.models:,} models; seconds of CPU (median of {said.runs}), whole processes")
        print(f"{'':30} {'SQLMesh':>9} {'here':>7} {'ratio':>6} {'MB':>9}")
        for step in OUR_STEPS:
            runs = 1 if step == "publish" else said.runs
            found = [[side.run(step) for side in sides] for _ in range(runs)]
            if step in TITLES:
                there, here = (statistics.median(pair[n][0] for pair in found) for n in (0, 1))
                sizes = "/".join(f"{max(pair[n][1] for pair in found):.0f}" for n in (0, 1))
                ratio = f"{there / here:.0f}x"
                print(f"{TITLES[step]:30} {there:9.1f} {here:7.1f} {ratio:>6} {sizes:>9}")
            if step == "edited":
                counts = [pair[2] for pair in found[-1]]
                print(f"{'models that the edit computes':30} {counts[0]:>9} {counts[1]:>7}")
            sys.stdout.flush()
    return 0


class Side:
    """One of the two, with a copy of the project of its own."""

    def __init__(
        self, root: Path, python: Path, steps: dict[str, str], cache: str, models: int
    ) -> None:
        self.root, self.python, self.steps, self.cache = root, python, steps, cache
        self.models = models
        self.file = write_project(root, models)

    def run(self, step: str) -> tuple[float, float, str]:
        """Run a step; return its seconds of CPU, its peak MB and the last word that it printed."""
        if step == "cold":
            shutil.rmtree(self.root / self.cache, ignore_errors=True)
        published = self.file.read_text()
        if step == "edited":
            self.file.write_text(published.replace("\nFROM ", ",\n  7 AS added\nFROM ", 1))
            time.sleep(2.1)  # Files younger than that are never trusted by their times.
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.root / "compiled")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                [str(self.python), "-c", self.steps[step], ".", str(self.models)],
                cwd=self.root,
                stdout=output,
                env=environment,
            )
            _, status, usage = os.wait4(process.pid, 0)
            output.seek(0)
            words = output.read().split()
        if status:
            raise SystemExit(f"a step failed:\n{self.steps[step]}")
        self.file.write_text(published)
        return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, words[-1] if words else ""


def _environment(folder: Path) -> Path:
    """Make an environment with the newest SQLMesh, where there is none yet; return its Python."""
    python = folder.absolute() / "bin" / "python"
    if not python.exists():
        uv = [sys.executable, "-m", "uv"]
        subprocess.run([*uv, "venv", str(folder), "-p", sys.executable], check=True)
        subprocess.run([*uv, "pip", "install", "-p", str(python), "sqlmesh"], check=True)
    return python


if __name__ == "__main__":
    raise SystemExit(main())
