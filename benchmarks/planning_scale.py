"""A project of 1,000 models or more, in whole processes: loading, planning, a second environment.

    python -m benchmarks.planning_scale [--models 1000] [--runs 3] [--profile STEP]

Ten layers; after the first, 40 % views, 30 % full and 30 % incremental models of eight to ten
columns over one or two parents each, with joins, unions, common table expressions and windows; the
first lines are of models with twenty columns. No Spark runs: the published state is written to the
state store as an apply would leave it. Processes set the garbage collector as `vde` does. First
loads are measured in one process and with all cores, where CPU seconds include all processes.

Goals, in seconds of CPU with all imports: 6 cold, 0.5 for an unchanged project, 1.2 for a plan with
one edit; 200 MB at most. Of 10,000 models: 5 for a plan without a change, 6 with one edit, 8 for a
second environment.

A larger project is measured in turns with those of 100 and 1,000 models. The last column compares
what each further model costs beyond 1,000 with what it costs up to there: 1.0 is linear growth.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.state.fills.fills import FillRecord

CORE = ("id", "event_date", "grp", "amount", "qty")
LAYERS = 10
WIDE = 20
REFERENCES = (100, 1000)

IMPORT = "import vde_dagster.execution.workspace"
OPEN = """
import sys
from pathlib import Path
from vde_dagster.execution.workspace import Workspace
from vde_dagster.sql.trees import collect_rarely
collect_rarely()
ws = Workspace.open(Path(sys.argv[1]))
"""
LOAD = OPEN + "assert len(ws.project.models) == int(sys.argv[2])"
SNAPSHOTS = LOAD + "\nassert len(ws.snapshots()) == int(sys.argv[2])"
UNCHANGED = OPEN + "assert ws.plan('prod').is_empty"
EDITED = (
    OPEN
    + """
plan = ws.plan("prod")
print(len([m for m in plan.models if m.change.value != "unchanged"]), len(plan.builds))
"""
)
SECOND = (
    OPEN
    + """
plan = ws.plan("dev")
assert not plan.builds and len(plan.views.created) == int(sys.argv[2])
"""
)
PUBLISH = (
    OPEN + "from benchmarks.planning_scale import publish_without_rows\npublish_without_rows(ws)"
)

STEPS = {
    "imports": ("imports alone", IMPORT),
    "wide": (f"load and versions, {WIDE} columns", SNAPSHOTS),
    "wide shared": (f"the same, {WIDE} columns, all cores", SNAPSHOTS),
    "cold": ("load and versions, no cache", SNAPSHOTS),
    "cold shared": ("the same, no cache, all cores", SNAPSHOTS),
    "load": ("load, unchanged", LOAD),
    "warm": ("load and versions, unchanged", SNAPSHOTS),
    "unchanged": ("plan without a change", UNCHANGED),
    "edited": ("plan with one edit", EDITED),
    "second": ("plan of a second environment", SECOND),
}


def publish_without_rows(workspace: Workspace) -> None:
    """Publish production as if all of its tables had been filled."""
    plan, store = workspace.plan("prod"), workspace.store
    tables = [(model.table, model.intervals) for model in plan.models if model.table is not None]
    with store.database.transaction() as connection:
        store.snapshots.save(plan.snapshots.values(), connection)
    store.tables.ensure_all(table for table, _ in tables)
    for table, _ in tables:
        types = [(column.name, column.type or "STRING") for column in table.columns]
        store.tables.mark_created(table, types)
    environment = Environment("prod", 0, plan.entries, plan.id, plan.created_at, "bench", plan.id)
    with store.database.transaction() as connection:
        for table, intervals in tables:
            for interval in intervals:
                record = FillRecord(table.id, interval, plan.id, None, 1)
                store.fills.record(record, connection)
        store.environments.write_version(connection, environment, 0)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=1000)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--profile", choices=list(STEPS))
    args = parser.parse_args()
    sizes = [*REFERENCES, args.models] if args.models > max(REFERENCES) else [args.models]
    print(f"seconds of CPU (median of {args.runs}), whole processes; wall and MB of the largest")
    counts = " ".join(f"{size:>8,}" for size in sizes)
    growth = "  growth" if len(sizes) > 1 else ""
    print(f"{'models':32} {counts} {'wall s':>7} {'MB':>5}{growth}")
    with tempfile.TemporaryDirectory() as folder:
        benches = [Bench(Path(folder) / str(size), size) for size in sizes]
        for step in STEPS:
            figures: list[list[Figures]] = [[] for _ in benches]
            for bench in benches:
                bench.prepare(step)
                if args.profile == step:
                    _profile(bench.root, bench.models, STEPS[step][1])
            for run in range(args.runs + 1):
                for bench, found in zip(benches, figures, strict=True):
                    found.append(bench.run(step, run))
            _print(STEPS[step][0], [_median(found[1:]) for found in figures], sizes)
    return 0


Figures = tuple[float, float, float]
"""Seconds of CPU, seconds of wall clock, peak MB of one process."""


class Bench:
    """A project that steps are measured on, in the order of `STEPS`.

    Args:
        root: An empty folder.
        models: How many models it has.
    """

    def __init__(self, root: Path, models: int) -> None:
        self.root = root
        self.models = models
        self.wide = root / "wide"
        write_project(self.wide, models, columns=WIDE)
        self.edited = write_project(root, models)
        self.published = self.edited.read_text()

    def prepare(self, step: str) -> None:
        """Do what comes before the runs of a step."""
        if step == "unchanged":
            _measure(self.root, self.models, PUBLISH)

    def run(self, step: str, number: int) -> Figures:
        """Measure one run of a step."""
        root = self.wide if step.startswith("wide") else self.root
        if step.startswith(("wide", "cold")):
            shutil.rmtree(root / ".vde", ignore_errors=True)
        if step == "edited":
            column = f",\n  {number} AS n{number}\nFROM "
            self.edited.write_text(self.published.replace("\nFROM ", column, 1))
            time.sleep(2.1)  # Files younger than that are never trusted by their times.
        found = _measure(root, self.models, STEPS[step][1], alone=step in ("wide", "cold"))
        if step == "edited":
            self.edited.write_text(self.published)
        return found


def _median(figures: list[Figures]) -> Figures:
    cpu, wall, size = (statistics.median(values) for values in zip(*figures, strict=True))
    return cpu, wall, size


def _print(title: str, medians: list[Figures], sizes: list[int]) -> None:
    _, wall, size = medians[-1]
    seconds = [cpu for cpu, _, _ in medians]
    line = f"{title:32} {' '.join(f'{cpu:8.2f}' for cpu in seconds)} {wall:7.2f} {size:5.0f}"
    if len(sizes) > 1:
        up_to, beyond = (
            (after - before) / (larger - smaller)
            for (before, after), (smaller, larger) in zip(
                pairwise(seconds), pairwise(sizes), strict=True
            )
        )
        line += f" {beyond / up_to:7.1f}" if up_to > 1e-5 else f" {'-':>7}"
    print(line, flush=True)


def _measure(root: Path, models: int, code: str, *, alone: bool = False) -> Figures:
    """Run a process; return its seconds of CPU, seconds of wall clock and peak MB."""
    began = time.perf_counter()
    # Compiled modules are cached, as they are where the package is installed.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(root / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    if alone:
        environment["VDE_LOAD_PROCESSES"] = "1"
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(root), str(models)],
        stdout=subprocess.DEVNULL,
        env=environment,
    )
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"a step failed:\n{code}")
    wall = time.perf_counter() - began
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


def _profile(root: Path, models: int, code: str) -> None:
    script = root / "step.py"
    script.write_text(code)
    command = [sys.executable, "-m", "cProfile", "-s", "cumtime", str(script), str(root)]
    done = subprocess.run([*command, str(models)], capture_output=True, text=True, check=True)
    print("\n".join(done.stdout.splitlines()[:70]))


def write_project(root: Path, count: int, seed: int = 7, columns: int = 0) -> Path:
    """Write the project's files; return that of the model which most others read.

    Args:
        root: The project's folder.
        count: How many models.
        seed: Of the choices.
        columns: How many columns a model has; at least those that its shape gives it.
    """
    extra = [f"e{number}" for number in range(columns - len(CORE) - 3)]
    rng = random.Random(seed)
    per_layer = max(1, count // LAYERS)
    layers: list[list[str]] = []
    children: dict[str, set[str]] = {}
    files: dict[str, Path] = {}
    (root / "models").mkdir(parents=True, exist_ok=True)
    for number in range(count):
        layer = min(number // per_layer, LAYERS - 1)
        if layer == len(layers):
            layers.append([])
        name = f"l{layer}.m_{number:05d}"
        kind = "FULL"
        parents: list[str] = []
        if layer:
            first = rng.choice(layers[layer - 1])
            others = [n for near in layers[max(0, layer - 3) : layer] for n in near if n != first]
            parents = [first] if rng.random() < 0.2 or not others else [first, rng.choice(others)]
            roll = rng.random()
            kind = "VIEW" if roll < 0.4 else "FULL" if roll < 0.7 else "TIME"
        for parent in parents:
            children.setdefault(parent, set()).add(name)
        files[name] = root / "models" / f"{name}.sql"
        files[name].write_text(_model(name, number, kind, parents, rng, extra))
        layers[layer].append(name)
    return files[max(layers[1], key=lambda n: len(_descendants(n, children)))]


def _descendants(name: str, children: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    rest = [name]
    while rest:
        new = children.get(rest.pop(), set()) - found
        found |= new
        rest += new
    return found


def _model(
    name: str, number: int, kind: str, parents: list[str], rng: random.Random, extra: list[str]
) -> str:
    written = "INCREMENTAL_BY_TIME_RANGE (time_column event_date)" if kind == "TIME" else kind
    header = f"MODEL (\n  name {name},\n  kind {written},\n  start '2024-01-01'\n);\n\n"
    core = ",\n  ".join(f"x.{column} AS {column}" for column in CORE)
    if not parents:
        rows = ", ".join(
            f"({i}, CAST('2024-01-0{i % 3 + 1}' AS DATE), 'g{i % 4}', {i * 1.5 + number}D, {i})"
            for i in range(6)
        )
        core += "".join(f",\n  x.amount + {i} AS {column}" for i, column in enumerate(extra))
        return (
            f"{header}SELECT\n  {core},\n  x.amount * x.qty AS gross,\n  {number} AS source\n"
            f"FROM (VALUES {rows}) AS x(id, event_date, grp, amount, qty)\n"
        )
    a, b = parents[0], parents[-1]
    n = number % 7 + 1
    days = " AND x.event_date BETWEEN @start_date AND @end_date" if kind == "TIME" else ""
    shape = rng.choice(["join", "union", "window"])
    if shape == "join":
        core += "".join(f",\n  COALESCE(x.{column}, 0) + {n} AS {column}" for column in extra)
        grouped = f"SELECT id, event_date, MAX(amount) AS amount FROM {b} GROUP BY id, event_date"
        return (
            f"{header}WITH y AS (\n  {grouped}\n)\nSELECT\n  {core},\n"
            f"  COALESCE(y.amount, 0) + {n} AS other,\n  x.amount * {n} AS scaled,\n"
            f"  CASE WHEN x.amount > COALESCE(y.amount, 0) THEN 'up' ELSE 'down' END AS way\n"
            f"FROM {a} AS x\nLEFT JOIN y ON x.id = y.id AND x.event_date = y.event_date\n"
            f"WHERE x.amount > -{n}{days}\n"
        )
    if shape == "union":
        columns = ", ".join([*CORE, *extra])
        sums = "".join(f"  SUM(x.{column}) AS {column},\n" for column in extra)
        return (
            f"{header}WITH x AS (\n  SELECT {columns} FROM {a} WHERE qty >= 0\n  UNION ALL\n"
            f"  SELECT {columns} FROM {b} WHERE qty > {n}\n)\nSELECT\n  x.id AS id,\n"
            f"  x.event_date AS event_date,\n  x.grp AS grp,\n{sums}  SUM(x.amount) AS amount,\n"
            f"  CAST(SUM(x.qty) AS INT) AS qty,\n  COUNT(*) AS row_count,\n"
            f"  MIN(x.amount) AS least,\n  MAX(x.amount) + {n} AS most\nFROM x\n"
            f"WHERE x.amount < 1000{days}\nGROUP BY x.id, x.event_date, x.grp\n"
            f"HAVING COUNT(*) < {n + 9}\n"
        )
    core += "".join(
        f",\n  CASE WHEN x.qty > {n} THEN x.{column} ELSE 0 END AS {column}" for column in extra
    )
    return (
        f"{header}SELECT\n  {core},\n"
        f"  ROW_NUMBER() OVER (PARTITION BY x.event_date ORDER BY x.amount, x.id) AS place,\n"
        f"  SUM(x.amount) OVER (PARTITION BY x.event_date, x.grp) AS of_group,\n"
        f"  x.amount / {n} AS ratio,\n  CONCAT(x.grp, '_{n}') AS tag\n"
        f"FROM {a} AS x\nWHERE x.qty > -{n}{days}\n"
    )


if __name__ == "__main__":
    raise SystemExit(main())
