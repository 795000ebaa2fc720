"""Random projects, planned, filled on DuckDB, edited and compared with rebuilds from scratch.

    python -m benchmarks.planning_oracle [--projects 1000] [--seed 100000] [--examples 0]

Prints what was compared, every wrong skip with its seed and smallest project, and how many of the
edits that changed no data on these rows were recognised. Few rows make many changes of meaning
invisible, so the needless rebuilds printed are an upper bound.
"""

from __future__ import annotations

import argparse
import time

from vde_dagster_tests.planning.oracle import run_seed
from vde_dagster_tests.planning.oracle_world import Tally, WrongSkipError

KEEPS_MEANING = {
    *("comment", "copy", "description", "flip_comparison", "owner and tags", "partitioning"),
    *("remove", "rename", "reorder_columns", "rename_column", "revert", "swap_operands"),
    *("wrap_query", "audit", "drop_column"),
}
"""Edits that change no data by what they are, where no other model reads them by position."""


def main() -> int:
    """Run the oracle; returns the number of wrong skips."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=100_000)
    parser.add_argument("--examples", type=int, default=0)
    args = parser.parse_args()
    tally, wrong, began = Tally(), 0, time.process_time()
    for seed in range(args.seed, args.seed + args.projects):
        try:
            run_seed(seed, tally)
        except WrongSkipError as error:
            wrong += 1
            print(error)
    seconds = time.process_time() - began
    print(
        f"seeds {args.seed}..{args.seed + args.projects - 1}: {tally.projects} projects,", end=" "
    )
    print(f"{tally.plans} plans, {tally.compared} models compared, {tally.skipped} of them skipped")
    print(f"wrong skips: {wrong}; {seconds:.0f} s of CPU")
    print(
        f"rebuilds for changes: {tally.builds}, with other contents {tally.builds - tally.needless}"
    )
    print(f"{'edit (alone in its plan)':26} {'no data changed':>16} {'recognised':>11}")
    for name, count in sorted(tally.harmless.items()):
        mark = "*" if name in KEEPS_MEANING else " "
        print(f"{name:25}{mark} {count:16} {tally.recognised[name]:11}")
    kept = sum(tally.harmless[name] for name in KEEPS_MEANING)
    known = sum(tally.recognised[name] for name in KEEPS_MEANING)
    print(f"* keeps the meaning: {known} of {kept} recognised ({known / max(kept, 1):.0%})")
    for example in tally.examples[: args.examples]:
        print(f"  {example}")
    return wrong


if __name__ == "__main__":
    raise SystemExit(main())
