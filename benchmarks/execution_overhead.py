"""What applying adds to running statements: `python -m benchmarks.execution_overhead`.

Projects of small FULL models are applied on an engine without Spark, whose own statements are
timed apart: the rest is bookkeeping. On Spark a small statement takes a few tenths of a second;
the goal of 1.2 times the bare statements leaves some tens of milliseconds a model.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

SIZES = (24, 200)
WIDTH = 8


class TimedSpark(FakeSpark):
    """Adds up the time that the engine itself takes."""

    def __init__(self) -> None:
        super().__init__()
        self.engine_seconds = 0.0

    def analyze(self, *arguments: Any) -> Any:
        """Time it."""
        return self._timed(lambda: super(TimedSpark, self).analyze(*arguments))

    def create_table(self, *arguments: Any, **options: Any) -> Any:
        """Time it."""
        return self._timed(lambda: super(TimedSpark, self).create_table(*arguments, **options))

    def fill(self, task: Any) -> Any:
        """Time it."""
        return self._timed(lambda: super(TimedSpark, self).fill(task))

    def _timed(self, work: Callable[[], Any]) -> Any:
        began = time.perf_counter()
        try:
            return work()
        finally:
            self.engine_seconds += time.perf_counter() - began


def project(root: Path, size: int) -> ProjectFolder:
    """Write layers of models, each of which reads two of the layer before."""
    files = {}
    for number in range(size):
        query = f"SELECT {number} AS id, 'x' AS name"
        if number >= WIDTH:
            first = f"db.m{number - WIDTH}"
            second = f"db.m{(number // WIDTH - 1) * WIDTH + (number + 1) % WIDTH}"
            query = (
                f"SELECT a.id + {number} AS id, b.name "
                f"FROM {first} AS a JOIN {second} AS b ON a.id = b.id"
            )
        files[f"models/m{number}.sql"] = f"MODEL (name db.m{number}, kind FULL);\n{query}"
    return ProjectFolder(root, files)


@contextmanager
def counted(store: Any) -> Any:
    """Count the writing transactions of a store."""
    counts: dict[str, int] = {}
    original = store.database.run_transaction

    def run(work: Any, *, name: str = "state", **rest: Any) -> Any:
        counts[name] = counts.get(name, 0) + 1
        return original(work, name=name, **rest)

    store.database.run_transaction = run
    try:
        yield counts
    finally:
        del store.database.run_transaction


def measure(size: int) -> dict[str, float]:
    """Return seconds for the first apply, those in the engine, and the transactions a model."""
    with tempfile.TemporaryDirectory() as folder:
        root = project(Path(folder) / "project", size).root
        engine = TimedSpark()
        workspace = open_fake(root, engine)
        began = time.perf_counter()
        plan = workspace.plan("prod")
        planned = time.perf_counter() - began
        with counted(workspace.store) as counts:
            began = time.perf_counter()
            workspace.apply(plan, concurrency=1)
            applied = time.perf_counter() - began
        workspace.close()
        return {
            "plan": planned,
            "apply": applied,
            "engine": engine.engine_seconds,
            "transactions": sum(n for name, n in counts.items() if not name.startswith("engine.")),
        }


def main() -> list[tuple[str, str]]:
    """Measure, print, and return (what, result) lines."""
    lines = []
    for size in SIZES:
        found = measure(size)
        cost = (found["apply"] - found["engine"]) / size * 1000
        lines.append(
            (
                f"apply of {size} new models, bookkeeping a model",
                f"{cost:.1f} ms in {found['transactions'] / size:.1f} transactions "
                f"(whole apply {found['apply']:.2f} s, plan {found['plan']:.2f} s)",
            )
        )
    for what, result in lines:
        print(f"{what}: {result}")
    return lines


if __name__ == "__main__":
    main()
    sys.exit(0)
