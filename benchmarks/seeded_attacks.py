"""Attacks with seeds, each kind for a time: what they do and what has to hold is beside the tests.

    python -m benchmarks.seeded_attacks [--kinds folders …] [--seconds 300] [--first 1]

A seed that fails is printed with all that it did, and can be given again as `--first SEED`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from vde_dagster_tests.execution import damage_search, folder_search
from vde_dagster_tests.state import clock_search, stop_search

Attack = Callable[[Path, int], Counter[str]]
ATTACKS: dict[str, Attack] = {
    "clocks": clock_search.attack,
    "damaged_files": damage_search.attack,
    "folders": folder_search.attack,
    "stops": stop_search.attack_both,
}


def main() -> int:
    """Run each kind's seeds until its time is over; return 1 when one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="*", choices=ATTACKS, default=list(ATTACKS))
    parser.add_argument("--seconds", type=float, default=300.0, help="for each kind")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    said = parser.parse_args()
    return int(sum(_run(kind, said.first, said.seconds) for kind in said.kinds) > 0)


def _run(kind: str, first: int, seconds: float) -> int:
    """Run one kind, print what it met, and return how many seeds failed."""
    began, counts, failed = time.monotonic(), Counter[str](), 0
    for seed in count(first):
        if time.monotonic() - began > seconds:
            break
        with tempfile.TemporaryDirectory() as folder:
            try:
                counts.update(ATTACKS[kind](Path(folder), seed))
            except Exception:
                failed += 1
                print(f"FAILED {kind}, seed {seed}\n{traceback.format_exc(limit=-3)}", flush=True)
        counts["seeds"] += 1
    met = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
    print(f"{kind} from seed {first}: {met}; {failed} seeds failed", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
