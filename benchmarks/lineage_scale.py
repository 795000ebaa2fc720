"""How long column lineage takes of 1,000 models of 20 columns.

    python -m benchmarks.lineage_scale [--models 1000] [--runs 3]

Whole processes, seconds of CPU and of wall clock, the best of several. The project is the wide one
of `planning_scale`, in ten layers; asked for is a column of the model that most others are made of,
downwards and for what would change with it, and one of a model of the last layer upwards. Cold is
without the project's cache. Goals: 0.5 s warm, 5 s cold.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

from benchmarks.cli_startup import best
from benchmarks.planning_scale import WIDE, write_project
from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.snapshots.lineage import find_affected_parts, trace


def asked(root: Path) -> tuple[str, str, str]:
    """Return the column with the widest impact, that of the longest lineage, and both in words."""
    with Workspace.open(root) as workspace:
        snapshots = workspace.snapshots()
        sizes = {name: len(find_affected_parts(snapshots, name, "amount")) for name in snapshots}
        first: ModelName = max(sizes, key=lambda name: sizes[name])
        flows = {name: len(trace(snapshots, name, "amount")) for name in snapshots}
        last: ModelName = max(flows, key=lambda name: flows[name])
        columns = sum(len(snapshot.columns) for snapshot in snapshots.values())
    told = (
        f"{len(sizes):,} models, {columns:,} columns; one column reaches {sizes[first]:,} models, "
        f"one is made by {flows[last]:,} flows"
    )
    return f"{first}.amount", f"{last}.amount", told


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "wide"
        write_project(root, args.models, columns=WIDE)
        first, last, told = asked(root)
        time.sleep(2.1)  # Files younger than that are never trusted by their times.
        print(told)
        print(f"{'seconds':40} {'CPU':>6} {'wall':>6}")
        for name, call in {
            "--impact": ["lineage", first, "--impact"],
            "--down": ["lineage", first, "--down"],
            "of a column": ["lineage", last],
        }.items():
            found = []
            for _ in range(args.runs):
                shutil.rmtree(root / ".vde" / "cache", ignore_errors=True)
                found.append(best(call, root, 1))
            _print(f"{name}, cold", min(found))
            best(call, root, 1)
            _print(f"{name}, warm", best(call, root, args.runs))


def _print(name: str, times: tuple[float, float]) -> None:
    print(f"{name:40} {times[0]:6.2f} {times[1]:6.2f}", flush=True)


if __name__ == "__main__":
    main()
