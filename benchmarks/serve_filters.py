"""Random filters of `vde serve` on tables of every type and partitioning, compared with DuckDB.

python -m benchmarks.serve_filters [--count 10000] [--seed 1]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from vde_dagster_tests.serve.filter_search import search


def main() -> None:
    """Print how many filters let other rows through, or failed, and which."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        wrong = search(Path(folder), said.seed, said.count, 100)
    print(f"{said.count} filters of seed {said.seed}: {len(wrong)} differ or fail")
    for one in wrong[:20]:
        print(one)


if __name__ == "__main__":
    main()
