"""What an editor waits for: `python -m benchmarks.editor_stdio [--models 40 1000] [--times 5]`.

`vde lsp` is started as an editor starts it and asked over stdio; the model that most others read is
edited. Each row is the median and the worst of some edits by the clock (with the 0.08 s in which
nobody may type before texts are looked at), and the server's seconds of CPU.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from benchmarks.planning_scale import publish_without_rows, write_project
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.dag import descendants
from vde_dagster_tests.editor.client import editor

_TICKS = os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Print a table for each number of models."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, nargs="+", default=[40, 1000])
    parser.add_argument("--times", type=int, default=5)
    said = parser.parse_args()
    for models in said.models:
        with tempfile.TemporaryDirectory() as folder:
            path, below = _project(Path(folder), models)
            print(f"{models:,} models, {below:,} of them below the one that is edited")
            print(f"  {'':44} {'median':>8} {'worst':>8} {'CPU':>8}")
            asyncio.run(_measure(Path(folder), path, said.times))
    return 0


def _project(root: Path, models: int) -> tuple[str, int]:
    """Write and publish a project; return the file of the model that most others read."""
    write_project(root, models)
    with Workspace.open(root) as workspace:
        publish_without_rows(workspace)
        known = workspace.project.models
        below = {name: len(descendants(known, [name])) - 1 for name in known}
        most = max(below, key=lambda name: below[name])
        return known[most].location.path.as_posix(), below[most]


async def _measure(root: Path, path: str, times: int) -> None:
    text = (root / path).read_text()
    async with editor(root) as client:
        server = client.client._server.pid

        async def row(title: str, *works: Callable[[], Awaitable[object]]) -> None:
            clocks, cpus = [], []
            for work in works:
                clock, cpu = time.perf_counter(), _cpu(server)
                await work()
                clocks.append(time.perf_counter() - clock)
                cpus.append(_cpu(server) - cpu)
            median, cpu = statistics.median(clocks), statistics.median(cpus)
            print(f"  {title:44} {median:7.3f}s {max(clocks):7.3f}s {cpu:7.2f}s", flush=True)

        async def first() -> None:
            await client.open(path)
            await client.lenses(path)

        def mistake(number: int) -> Callable[[], Awaitable[object]]:
            async def work() -> None:
                client.type(path, text.replace("\nFROM ", f",\n  nothing_{number} AS x\nFROM ", 1))
                await _until(lambda: any(f"_{number}" in one for one in client.said(path)))

            return work

        def lens(new: str) -> Callable[[], Awaitable[object]]:
            async def work() -> None:
                client.type(path, new)
                assert await client.lenses(path)

            return work

        added = [text.replace("\nFROM ", f",\n  {n} AS added\nFROM ", 1) for n in range(times)]
        rows = [f"{text.rstrip()}\nLIMIT {n + 3}\n" for n in range(times)]
        await row("first look and its lens", first)
        await row("a mistake is said at its place", *map(mistake, range(times)))
        await row("a column more: the lens", *map(lens, added))
        await row("other rows, all that follows anew: the lens", *map(lens, rows))
        await row("nothing changed: the lens", *[lambda: client.lenses(path)] * times)
        print(f"  memory at most {_peak(server):,.0f} MB")


async def _until(true: Callable[[], object]) -> None:
    while not true():
        await asyncio.sleep(0.002)


def _cpu(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _peak(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


if __name__ == "__main__":
    raise SystemExit(main())
