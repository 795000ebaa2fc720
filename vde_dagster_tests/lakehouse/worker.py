"""A process that plans and applies again and again: `python -m … URL WAREHOUSE NAME ENV ROUNDS`."""

from __future__ import annotations

import json
import random
import sys
import time
from pathlib import Path

from vde_dagster.errors import ConflictError
from vde_dagster.state.db.effects import SystemClock
from vde_dagster_tests.lakehouse.protocol import Job, World
from vde_dagster_tests.state.builders import days

PATIENCE_SECONDS = 200.0


def main(url: str, warehouse: str, name: str, environment: str, rounds: int) -> None:
    """Publish a number of times, planning anew whenever somebody else was faster."""
    process = World(url, Path(warehouse), SystemClock()).process(name=name)
    deadline = time.monotonic() + PATIENCE_SECONDS
    published: list[int] = []
    conflicts = 0
    while len(published) < rounds:
        assert time.monotonic() < deadline, f"{name} starved after {published}"
        current = process.store.environments.get(environment)
        base = current.version if current else 0
        # Everybody needs `shared`; `own` differs, so that every publication changes a view.
        models = (("shared", "1"), ("own", f"{name}-{len(published)}"))
        job = Job(f"{name}-{base}-{conflicts}", environment, base, models, days(0, 1, 2))
        try:
            published.append(process.apply(job).version)
        except ConflictError:
            conflicts += 1
            time.sleep(random.uniform(0.01, 0.1))
    print(json.dumps({"published": published, "conflicts": conflicts}))


if __name__ == "__main__":
    main(*sys.argv[1:5], int(sys.argv[5]))
