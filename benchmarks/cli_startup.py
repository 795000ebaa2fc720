"""How long `vde` takes as a process, without a JVM: `python -m benchmarks.cli_startup`.

Best of several, since a loaded machine only ever adds. The project is the template's, planned and
not published; goals: help in 0.3 s, an unchanged plan in 1.0 s.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from vde_dagster.cli.new_project import new_project

REPEATS = 5


def best(arguments: list[str], root: Path) -> float:
    """Return the shortest duration of a call (seconds)."""
    command = [sys.executable, "-m", "vde_dagster.cli", *arguments]
    if arguments != ["--help"]:
        command += ["--project", str(root)]
    durations = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        durations.append(time.perf_counter() - began)
    return min(durations)


def main() -> None:
    """Print the table."""
    calls = {
        "vde --help": ["--help"],
        "vde info": ["info"],
        "vde environments": ["environments"],
        "vde plan prod (files unchanged since the last plan)": ["plan", "prod"],
    }
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        new_project(root)
        best(["plan", "prod"], root)
        for name, arguments in calls.items():
            print(f"{name:55} {best(arguments, root):6.2f} s")


if __name__ == "__main__":
    main()
