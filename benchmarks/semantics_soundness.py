"""Random queries and edits, run on DuckDB: equal versions with unequal results are printed.

python benchmarks/semantics_soundness.py [--pairs 20000] [--seed 1]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter

from vde_dagster_tests.semantics.soundness import Checker, UnsoundError

PAIRS_PER_DATABASE = 1000


def main() -> int:
    """Run the check in rounds with new data each; returns the number of failures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--types", action="store_true", help="numbers of all types, not INT alone")
    parser.add_argument("--dense", type=int, default=2_000, help="queries of few words per seed")
    args = parser.parse_args()
    start, done, failures, seed = time.process_time(), 0, 0, args.seed
    queries = compared = dense_runs = dense_compared = 0
    opaque: Counter[str] = Counter()
    recognised: Counter[str] = Counter()
    tried: Counter[str] = Counter()
    while done < args.pairs:
        undeclared = ("b", "c", "g") if seed % 3 == 0 else ()
        checker = Checker(seed, undeclared=undeclared, other_types=args.types)
        try:
            checker.run(min(PAIRS_PER_DATABASE, args.pairs - done))
            dense_runs += 1
            dense_compared += Checker(seed, other_types=args.types).run_dense(args.dense).compared
        except UnsoundError as error:
            failures += 1
            print(f"seed {seed}: {error}")
        tally = checker.tally
        done += max(tally.pairs, 1)
        queries += tally.queries
        compared += tally.compared
        opaque += tally.opaque
        recognised += tally.recognised
        tried += tally.tried
        seed += 1
    seconds = time.process_time() - start
    print(f"seeds {args.seed}..{seed - 1}: {done} pairs, {queries} queries, {compared} compared")
    print(f"queries of few words: {dense_runs * args.dense}, {dense_compared} compared")
    print(f"unsound: {failures}; opaque: {sum(opaque.values())}; {seconds:.0f} s of CPU")
    for why, n in opaque.most_common(12):
        print(f"{n:7} {why}")
    print(f"{'edit':24} {'tried':>7} {'same version':>13}")
    for name, n in sorted(tried.items()):
        print(f"{name:24} {n:7} {recognised[name]:13}")
    return failures


if __name__ == "__main__":
    raise SystemExit(main())
