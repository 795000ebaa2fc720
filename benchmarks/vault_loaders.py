"""A hub whose sources load at the same time: keys a second.

    python -m benchmarks.vault_loaders [--keys 100000] [--loaders 1 2 4]

Each loader has a source of its own, half of whose keys the next one has, too. They load in as many
environments, whose applies begin at one instant; then production shows what they loaded, and the
figures count only where no key is there twice and none is missing.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.projects import ProjectFolder

HEADER = """
    MODEL (name vault.hub, start '2024-01-01', end '2024-01-01',
      kind HUB (key hk, loaders BY_SOURCE));
"""
SELECT = "SELECT @HASH_KEY(CAST(id AS INT)) AS hk, id, ldts, '{0}' AS rsrc FROM {1} WHERE {2}"
DUE = "ldts BETWEEN @start_date AND @end_date"


def _project(root: Path, loaders: int, keys: int) -> ProjectFolder:
    files = {
        f"models/s{n}.sql": f"MODEL (name src.s{n}, kind VIEW); SELECT DATE '2024-01-01' AS ldts, "
        f"EXPLODE(SEQUENCE({n * keys // 2}, {n * keys // 2 + keys - 1})) AS id"
        for n in range(loaders)
    }
    selects = [SELECT.format(f"s{n}", f"src.s{n}", DUE) for n in range(loaders)]
    return ProjectFolder(root, {**files, "models/hub.sql": HEADER + " UNION ALL ".join(selects)})


def load_at_once(root: Path, loaders: int, keys: int) -> float:
    """Load as many sources at once; return the seconds that it took, of a hub that is right."""
    _project(root, loaders, keys)
    barrier = Barrier(loaders + 1)

    def load(number: int) -> None:
        with Workspace.open(root) as workspace:
            plan = workspace.plan(f"load_{number}", select=(f"vault.hub__s{number}",))
            barrier.wait()
            workspace.apply(plan)

    with ThreadPoolExecutor(loaders) as pool:
        running = [pool.submit(load, number) for number in range(loaders)]
        barrier.wait()
        began = time.perf_counter()
        for one in running:
            one.result()
        seconds = time.perf_counter() - began
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
        query = "SELECT COUNT(*), COUNT(DISTINCT hk) FROM vault.hub"
        (row,) = workspace.query("prod", query).rows
    wanted = keys + (loaders - 1) * (keys - keys // 2)
    assert tuple(row) == (wanted, wanted), f"{row} keys, not {wanted}"
    return seconds


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=100_000, help="of each source")
    parser.add_argument("--loaders", type=int, nargs="+", default=[1, 2, 4])
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        load_at_once(Path(folder) / "warm", 1, 100)
        for loaders in said.loaders:
            seconds = load_at_once(Path(folder) / str(loaders), loaders, said.keys)
            rate = loaders * said.keys / seconds
            print(f"{loaders} loaders: {seconds:6.1f} s, {rate:10,.0f} keys a second", flush=True)
        engine.close()


if __name__ == "__main__":
    main()
