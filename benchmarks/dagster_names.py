"""Random projects of legal names, owners, tags, groups and descriptions, planned and loaded.

The target: Dagster loads every project that plans. A failure prints the project and its seed.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from vde_dagster_tests.orchestration.test_legal_names import PROJECTS, check_project


def main() -> None:
    """Print the number of projects and models that were loaded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--projects", type=int, default=200)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}")
    sizes: list[int] = []

    @seed(options.seed)
    @settings(
        max_examples=options.projects,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
    )
    @given(PROJECTS)
    def search(project: tuple[list[Any], list[str], list[str]]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            check_project(Path(folder) / "project", project)
        sizes.append(len(project[0]))

    search()
    print(f"{len(sizes)} projects with {sum(sizes)} models planned and loaded")


if __name__ == "__main__":
    main()
