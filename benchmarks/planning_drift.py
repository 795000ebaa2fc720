"""Planning times of this tree next to those of the previous release, so that drift is seen.

    python -m benchmarks.planning_drift [--against REF] [--models 1000] [--runs 3] [--rounds 2]

The other tree is a Git worktree of REF in a temporary folder: the newest tag that HEAD contains, or
the parent commit where there is none. Both trees run their own `planning_scale`, in turns, and the
best round of each step counts, because other work on the machine only ever adds. The ratio above
1.1 is marked; no figure makes the benchmark fail.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent.parent
_LINE = re.compile(r"(?P<step>\S.*?)  +(?P<seconds>\d+\.\d+) ")
_MARKED = 1.1


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", default=None, metavar="REF")
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    args = parser.parse_args()
    reference = args.against or previous_release()
    size = ["--models", str(args.models), "--runs", str(args.runs)]
    with worktree(reference) as before:
        rounds = [(_measure(before, size), _measure(HERE, size)) for _ in range(args.rounds)]
    earlier, now = (_best([pair[side] for pair in rounds]) for side in (0, 1))
    print(f"seconds of CPU, {args.models:,} models, the best of {args.rounds} rounds")
    print(f"{'step':32} {reference[:12]:>12} {'this tree':>10} {'ratio':>6}")
    for step, seconds in now.items():
        if step in earlier:
            ratio = seconds / earlier[step]
            mark = "  slower" if ratio > _MARKED else ""
            print(f"{step:32} {earlier[step]:12.2f} {seconds:10.2f} {ratio:6.2f}{mark}")
    return 0


def previous_release() -> str:
    """Return the newest tag that HEAD contains, or its parent where there is no tag."""
    command = ["git", "describe", "--tags", "--abbrev=0", "HEAD^"]
    found = subprocess.run(command, cwd=HERE, capture_output=True, text=True)
    return found.stdout.strip() if found.returncode == 0 else "HEAD^"


@contextmanager
def worktree(reference: str) -> Iterator[Path]:
    """Check a commit out into a temporary folder, and remove it afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        tree = Path(folder) / "tree"
        _git("worktree", "add", "--quiet", "--detach", str(tree), reference)
        try:
            yield tree
        finally:
            _git("worktree", "remove", "--force", str(tree))


def _git(*arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=HERE, check=True)


def _measure(tree: Path, size: list[str]) -> dict[str, float]:
    """Run a tree's own benchmark; return the seconds of CPU per step."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.planning_scale", *size],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return read_steps(done.stdout)


def read_steps(output: str) -> dict[str, float]:
    """Return the seconds of CPU per step from the table that `planning_scale` prints.

    >>> read_steps("models          1,000  wall s\\nload, unchanged     0.27    0.31    45")
    {'load, unchanged': 0.27}
    """
    found = (_LINE.match(line) for line in output.splitlines())
    return {line["step"]: float(line["seconds"]) for line in found if line is not None}


def _best(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {step: min(one[step] for one in rounds if step in one) for step in rounds[0]}


if __name__ == "__main__":
    raise SystemExit(main())
