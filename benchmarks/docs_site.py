"""Building the documentation site of a generated project: seconds, and bytes by part.

    python -m benchmarks.docs_site [--models 1000] [--columns 20] [--runs 3] [--to FOLDER]

The project is that of `benchmarks/planning_scale.py`, published without rows and Spark.
The first build is without a cache, the others have one; each is a whole process of `vde`. Goals:
5 s with a cache, a shell of 60 KB, 1.5 KB a model of 20 columns, 2 MB for 1,000 models.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.planning_scale import PUBLISH, write_project

SHELL = "shell"
AS_OF = "2026-11-28T00:00:00"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--to", type=Path, help="where the site is kept")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "project"
        write_project(root, args.models, columns=args.columns)
        _call(["-c", PUBLISH, str(root), str(args.models)])
        shutil.rmtree(root / ".vde" / "cache", ignore_errors=True)
        site = args.to or root / "build" / "docs"
        build = ["-m", "vde_dagster.cli", "docs", "build", "--project", str(root)]
        build += ["--to", str(site), "--as-of", AS_OF]
        seconds, made = [], []
        for _ in range(args.runs + 1):
            seconds.append(_call(build))
            made.append(_read(site))
    sizes = _sizes(made[0])
    total = sum(sizes.values())
    each = (total - sizes[SHELL]) / args.models
    print(f"{args.models:,} models of {args.columns} columns; whole processes")
    wall, cpu = (statistics.median(found) for found in zip(*seconds[1:], strict=True))
    print(f"first build          {seconds[0][0]:8.2f} s, {seconds[0][1]:.2f} s of CPU")
    print(f"unchanged, median    {wall:8.2f} s, {cpu:.2f} s of CPU")
    print(f"equal bytes          {all(one == made[0] for one in made)}")
    for name, size in sizes.items():
        print(f"{name:20} {size / 1000:8.1f} KB")
    print(f"{'in all':20} {total / 1000:8.1f} KB; without the shell {each / 1000:.2f} KB a model")
    return 0


def _call(arguments: list[str]) -> tuple[float, float]:
    """Run a process; return its seconds of wall clock and of CPU."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL, env=_ENV)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - began, cpu


_ENV = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _read(site: Path) -> dict[str, bytes]:
    found = sorted(path for path in site.rglob("*") if path.is_file())
    return {path.relative_to(site).as_posix(): path.read_bytes() for path in found}


def _sizes(made: dict[str, bytes]) -> dict[str, int]:
    """Return bytes by part: the shell, then each kind of script."""
    sizes = {SHELL: 0}
    for name, text in made.items():
        part = Path(name).stem.partition("-")[0] if name.startswith("data/") else SHELL
        sizes[part] = sizes.get(part, 0) + len(text)
    return sizes


if __name__ == "__main__":
    raise SystemExit(main())
