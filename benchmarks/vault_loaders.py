"""A hub whose sources load at the same time: keys a second, what a few new keys and a read cost.

    python -m benchmarks.vault_loaders [--keys 100000] [--loaders 1 2 4 8] [--processes 1 2]
      [--known 300000] [--new 20]

Each loader has a source of its own, half of whose keys the next one has, too. They load in as many
environments, whose applies begin at one instant, by threads of one process or by processes with a
JVM each; then production shows what they loaded, and the figures count only where no key is there
twice and none is missing. The hub's view is then read beside a table of the same rows. Last, a day
with a few new keys is loaded into a source that has many.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from statistics import median
from threading import Barrier

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import SMALL_SPARK, small_spark
from vde_dagster_tests.projects import ProjectFolder

HEADER = """
    MODEL (name vault.hub, start '2024-01-01', {0}
      kind HUB (key hk, loaders BY_SOURCE));
"""
ONE_DAY = HEADER.format("end '2024-01-01',")
SELECT = "SELECT @HASH_KEY(CAST(id AS INT)) AS hk, id, ldts, '{0}' AS rsrc FROM {1} WHERE {2}"
DUE = "ldts BETWEEN @start_date AND @end_date"
WHOLE = (
    "MODEL (name vault.whole, kind FULL (refresh whole)); SELECT hk, id, ldts, rsrc FROM vault.hub"
)


def _keys(first: int, count: int, day: str = "2024-01-01") -> str:
    last = first + count - 1
    return f"SELECT DATE '{day}' AS ldts, EXPLODE(SEQUENCE({first}, {last})) AS id"


def _project(root: Path, loaders: int, keys: int) -> ProjectFolder:
    files = {
        f"models/s{n}.sql": f"MODEL (name src.s{n}, kind VIEW); {_keys(n * keys // 2, keys)}"
        for n in range(loaders)
    }
    selects = [SELECT.format(f"s{n}", f"src.s{n}", DUE) for n in range(loaders)]
    hub = {"models/hub.sql": ONE_DAY + " UNION ALL ".join(selects), "models/whole.sql": WHOLE}
    return ProjectFolder(root, {**files, **hub})


def _check(root: Path, loaders: int, keys: int) -> None:
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))
        query = "SELECT COUNT(*), COUNT(DISTINCT hk) FROM vault.hub"
        (row,) = workspace.query("prod", query).rows
    wanted = keys + (loaders - 1) * (keys - keys // 2)
    assert tuple(row) == (wanted, wanted), f"{row} keys, not {wanted}"


def by_threads(root: Path, loaders: int, keys: int) -> float:
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
    _check(root, loaders, keys)
    return seconds


def by_processes(root: Path, loaders: int, keys: int) -> float:
    """Do the same by processes that have started their JVM; each one's first work is in it."""
    folder = _project(root, loaders, keys)
    config = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
    folder.write(
        "pyproject.toml",
        f'[tool.vde.spark]\nmaster = "local[1]"\n[tool.vde.spark.config]\n{config}',
    )
    ready = [root / f"ready_{number}" for number in range(loaders)]
    running = []
    for number in range(loaders):
        files = [ready[number], *(one for one in ready if one != ready[number])]
        named = [str(root), f"load_{number}", f"vault.hub__s{number}", *map(str, files)]
        command = [sys.executable, "-m", "vde_dagster_tests.vault.loader", *named]
        running.append(subprocess.Popen(command, cwd=Path(__file__).parents[1]))
    try:
        while not all(one.exists() for one in ready):
            assert all(one.poll() is None for one in running), "a loader did not start"
            time.sleep(0.05)
        began = time.perf_counter()
        assert [one.wait(500) for one in running] == [0] * loaders
        seconds = time.perf_counter() - began
    finally:
        for one in running:
            one.kill()
    _check(root, loaders, keys)
    return seconds


def read_costs(root: Path, rounds: int = 3) -> tuple[float, float]:
    """Return the median seconds of a query of the hub's view, and of a table of its rows."""
    found = []
    with Workspace.open(root) as workspace:
        for name in ("hub", "whole"):
            seconds = []
            for _ in range(rounds + 1):
                began = time.perf_counter()
                workspace.query("prod", f"SELECT COUNT(*), MAX(hk), MAX(rsrc) FROM vault.{name}")
                seconds.append(time.perf_counter() - began)
            found.append(median(seconds[1:]))
    return found[0], found[1]


def a_few_new(root: Path, known: int, new: int) -> tuple[float, float]:
    """Load many keys on one day and a few on the next; return the seconds of either."""
    view = f"{_keys(0, known)} UNION ALL {_keys(known, new, '2024-01-02')}"
    hub = HEADER.format("") + SELECT.format("s0", "src.s0", DUE)
    files = {"models/s0.sql": f"MODEL (name src.s0, kind VIEW); {view}", "models/hub.sql": hub}
    ProjectFolder(root, files)
    seconds: list[float] = []
    with Workspace.open(root) as workspace:
        for day in (2, 3):
            now = datetime(2024, 1, day, 12, tzinfo=timezone.utc)
            plans = workspace.plans
            plan = plans.due("prod", now=now) if seconds else workspace.plan("prod", now=now)
            began = time.perf_counter()
            workspace.apply(plan)
            seconds.append(time.perf_counter() - began)
        (row,) = workspace.query("prod", "SELECT COUNT(*), COUNT(DISTINCT hk) FROM vault.hub").rows
    assert tuple(row) == (known + new, known + new), row
    return seconds[0], seconds[1]


def _print_rates(
    load: Callable[[Path, int, int], float], counts: Sequence[int], keys: int, folder: Path
) -> None:
    for loaders in counts:
        root = folder / f"{load.__name__}_{loaders}"
        before = os.getloadavg()[0]
        seconds = load(root, loaders, keys)
        rate = loaders * keys / seconds
        view, table = read_costs(root)
        print(
            f"{loaders} loaders {load.__name__.replace('_', ' ')}: {seconds:6.1f} s, "
            f"{rate:8,.0f} keys a second; read of the view {view:.2f} s, of a table {table:.2f} s; "
            f"load before {before:.1f}",
            flush=True,
        )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=100_000, help="of each source")
    parser.add_argument("--loaders", type=int, nargs="*", default=[1, 2, 4, 8], help="threads")
    parser.add_argument("--processes", type=int, nargs="*", default=[1, 2], help="2 GB each")
    parser.add_argument("--known", type=int, default=300_000, help="keys of one source, 0 for none")
    parser.add_argument("--new", type=int, default=20, help="keys that it gets")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as named:
        folder = Path(named)
        engine = SparkEngine(small_spark(folder))
        by_threads(folder / "warm", 1, 100)
        _print_rates(by_threads, said.loaders, said.keys, folder)
        if said.known:
            before = os.getloadavg()[0]
            first, second = a_few_new(folder / "few", said.known, said.new)
            print(
                f"{said.known:,} keys: {first:.1f} s; {said.new} new ones into them: {second:.1f} "
                f"s; load before {before:.1f}",
                flush=True,
            )
        _print_rates(by_processes, said.processes, said.keys, folder)
        engine.close()


if __name__ == "__main__":
    main()
