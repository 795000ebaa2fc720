"""Ten thousand projects with a spoilt file each: how many load, are refused, and anything else.

    python benchmarks/fuzz_project_files.py [--seed 1] [--count 10000] [--file PART]

See `vde_dagster_tests/project/fuzz.py`; it fails when a load ends otherwise than in versions or in
this package's errors, takes too long, or says more than a screen.
"""

from __future__ import annotations

import sys

from vde_dagster_tests.project import fuzz


def main() -> int:
    """Print what is wrong, and how many outcomes there were of each sort."""
    if "--count" not in sys.argv:
        sys.argv += ["--count", "10000"]
    return fuzz.main()


if __name__ == "__main__":
    sys.exit(main())
