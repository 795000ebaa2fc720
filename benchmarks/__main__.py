"""`python -m benchmarks [NAME …]`: every benchmark, each in a process of its own, then one table.

A benchmark is a module `<topic>_<name>.py` beside this file whose `main()` prints its figures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all; return 1 when one of them failed."""
    found = sorted(path.stem for path in FOLDER.glob("*_*.py") if not path.stem.startswith("_"))
    unknown = sorted(set(names) - set(found))
    if unknown:
        print(f"unknown: {', '.join(unknown)}; there are {', '.join(found)}", file=sys.stderr)
        return 2
    # An installed package has its bytecode; a machine that forbids writing it would time compiling.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    ended: list[tuple[str, float, int]] = []
    for name in names or found:
        print(f"== {name}", flush=True)
        began = time.perf_counter()
        command = [sys.executable, "-m", f"benchmarks.{name}"]
        done = subprocess.run(command, cwd=FOLDER.parent, env=environment)
        ended.append((name, time.perf_counter() - began, done.returncode))
        print()
    width = max(len(name) for name, _, _ in ended)
    print(f"{'benchmark':{width}} {'seconds':>8}  result")
    for name, seconds, code in ended:
        print(f"{name:{width}} {seconds:8.1f}  {'done' if code == 0 else f'failed ({code})'}")
    return int(any(code for _, _, code in ended))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
