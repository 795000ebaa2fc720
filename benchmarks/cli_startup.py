"""How long `vde` takes as a process, without a JVM: `python -m benchmarks.cli_startup`.

    python -m benchmarks.cli_startup [--models 1000] [--runs 5]

Seconds of CPU and of wall clock, the best of several, since a loaded machine only ever adds. The
small project is the template's, planned and not published; goals: help in 0.3 s, an unchanged plan
in 1.0 s. The large one is that of `planning_scale`, published without Spark. What works on one of
its models has the goal of half a second of CPU with a warm cache; plan, run, apply and diff look at
all of them. On a machine with other work a second of CPU does less: compare commits in turns.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.planning_scale import PUBLISH, write_project
from vde_dagster.cli.commands.project import new_project

SMALL = {
    "vde --help": ["--help"],
    "vde info": ["info"],
    "vde environments": ["environments"],
    "vde plan prod (files unchanged since the last plan)": ["plan", "prod"],
}

LARGE = {
    "vde history prod": ["history", "prod"],
    "vde plan prod": ["plan", "prod"],
    "vde run prod": ["run", "prod"],
    "vde apply prod (nothing changed)": ["apply", "prod"],
    "vde check-intervals prod MODEL": ["check-intervals", "prod", "{model}"],
    "vde create-external-models --dry-run": ["create-external-models", "--dry-run"],
    "vde dag MODEL": ["dag", "{model}"],
    "vde diff prod": ["diff", "prod"],
    "vde diff prod prod": ["diff", "prod", "prod"],
    "vde lineage MODEL": ["lineage", "{model}"],
    "vde lint MODEL": ["lint", "{model}", "--rule", "all"],
    "vde render MODEL": ["render", "{model}"],
    "vde table-name MODEL": ["table-name", "{model}"],
    "vde format MODEL": ["format", "{model}"],
    "vde clean": ["clean"],
}
"""The last one takes the cache away; the one before lays a file out, once.

What runs queries (audit, evaluate, table-diff) has a JVM.
"""


def best(arguments: list[str], root: Path, runs: int) -> tuple[float, float]:
    """Return the least CPU time and the shortest duration of a call (seconds)."""
    command = [sys.executable, "-m", "vde_dagster.cli", *arguments]
    if arguments != ["--help"]:
        command += ["--project", str(root)]
    found = [_measured(command, _environment(root)) for _ in range(runs)]
    return min(cpu for cpu, _ in found), min(wall for _, wall in found)


def _measured(command: list[str], environment: dict[str, str]) -> tuple[float, float]:
    began = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"failed: {' '.join(command)}")
    return usage.ru_utime + usage.ru_stime, time.perf_counter() - began


def _print(name: str, times: tuple[float, float]) -> None:
    print(f"{name:55} {times[0]:6.2f} {times[1]:6.2f}", flush=True)


def _environment(root: Path) -> dict[str, str]:
    """Return an environment in which compiled modules are kept, as where vde is installed."""
    kept = {key: text for key, text in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(root.parent / "compiled")}


def published_project(root: Path, models: int) -> str:
    """Write a generated project, publish it without Spark, and return a model of many parents."""
    read_most = write_project(root, models)
    code = [sys.executable, "-c", PUBLISH, str(root), str(models)]
    subprocess.run(code, check=True, env=_environment(root))
    time.sleep(2.1)  # Files younger than that are never trusted by their times.
    return read_most.stem


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder) / "project", Path(folder) / "large"
        new_project(small)
        print(f"{'seconds':55} {'CPU':>6} {'wall':>6}")
        best(["plan", "prod"], small, 1)
        for name, arguments in SMALL.items():
            _print(name, best(arguments, small, args.runs))
        print(f"of {args.models:,} models, with a warm cache")
        model = published_project(large, args.models)
        for name, arguments in LARGE.items():
            call = [text.format(model=model) for text in arguments]
            best(call, large, 1)
            _print(name, best(call, large, args.runs))


if __name__ == "__main__":
    main()
