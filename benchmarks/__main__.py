"""Benchmarks, each in a process of its own, then one table.

    python -m benchmarks [NAME …] [--quick] [--without-spark] [--minutes 60]

A benchmark is a module `<topic>_<name>.py` beside this file whose `main()` prints its figures, with
a line in `sizes.py`. Those that need data from outside are named in the table and not run; one that
takes more than the minutes is ended, and the table says so. `--quick` runs small sizes of all, to
see that they work: their figures mean nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.sizes import SIZES, Size

FOLDER = Path(__file__).parent


def main(arguments: list[str] | None = None) -> int:
    """Run the named benchmarks, or all; return 1 when one of them failed, 2 for a wrong call."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="all by default")
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that they work")
    parser.add_argument("--without-spark", action="store_true", help="leave out what starts a JVM")
    parser.add_argument("--minutes", type=float, default=60.0, help="the most for one of them")
    said = parser.parse_args(arguments)
    found = benchmarks()
    unknown = sorted(set(said.names) - set(found))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    ended: list[tuple[str, float, str]] = []
    for name in said.names or found:
        size = SIZES.get(name, Size())
        left_out = _left_out(size, quick=said.quick, without_spark=said.without_spark)
        if left_out:
            ended.append((name, 0.0, left_out))
            continue
        given = (size.quick if said.quick else size.usual).split()
        print(f"== {' '.join([name, *given])}", flush=True)
        began = time.perf_counter()
        result = _run(name, given, said.minutes * 60)
        ended.append((name, time.perf_counter() - began, result))
        print()
    width = max(len(name) for name, _, _ in ended)
    print(f"{'benchmark':{width}} {'seconds':>8}  result")
    for name, seconds, result in ended:
        print(f"{name:{width}} {seconds:8.1f}  {result}")
    return int(any(result.startswith("failed") for _, _, result in ended))


def benchmarks() -> list[str]:
    """Return the names of all benchmarks."""
    return sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("_"))


def _left_out(size: Size, *, quick: bool, without_spark: bool) -> str:
    """Say why a benchmark is not run; nothing when it is."""
    if size.needs:
        return f"not run: needs {size.needs}"
    if without_spark and size.spark and not (quick and "--without-spark" in size.quick):
        return "not run: starts a JVM"
    return ""


def _run(name: str, arguments: list[str], seconds: float) -> str:
    """Run a benchmark with all that it starts for a time at most, and say how it ended."""
    # An installed package has its bytecode; a machine that forbids writing it would time compiling.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", f"benchmarks.{name}", *arguments]
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # Of a shell's background job, whose children would ignore the interrupt of `_end`, too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(command, cwd=FOLDER.parent, env=environment, start_new_session=True)
    try:
        code = process.wait(seconds)
    except subprocess.TimeoutExpired:
        _end(process)
        return f"ended after {seconds / 60:g} minutes"
    except BaseException:
        _end(process)
        raise
    return "done" if code == 0 else f"failed ({code})"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started, which is its session."""
    for sent in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, sent)
            process.wait(10)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


if __name__ == "__main__":
    sys.exit(main())
