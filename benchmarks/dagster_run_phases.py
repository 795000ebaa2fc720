"""Phases of a run's process in Dagster, from its start to its end.

    python -m benchmarks.dagster_run_phases [--models 40] [--times 3] [--profile FOLDER]

An approval, a run of `vde_plan_and_apply` and a backfill of one partition run as Dagster's
launchers start them, by `dagster api execute_run`: in a new process, and in a process that has
imported everything, like the copies of the ready process. The engine computes nothing, so that only
Dagster's and this package's time counts. Goals on an idle machine: 3 s to the first event of the
run, 1 s from the last line of its log to the end of the process. The table has seconds of CPU,
which other programs affect less than the clock; it shows the best of several runs. The time from
the click to the start of the process is measured by `benchmarks.dagster_launchpad`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository

from benchmarks.planning_scale import write_project
from vde_dagster.orchestration.dagster_private import run_arguments
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.instance import INSTANCE_CONFIG
from vde_dagster.orchestration.launcher import MODULES
from vde_dagster_tests.execution.fake_workspace import open_fake

FIRST, LAST = 3.0, 1.0
LOCATION = "vde_dagster.orchestration.location"
KINDS = ("approval", "plan and apply", "backfill")
PHASES = ("imports", "first event", "location", "first line", "last line", "last event", "end")
LEAF = """MODEL (
  name l9.leaf, start '2024-01-01', end '2024-01-10', cron '@daily',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day)
);
SELECT CAST('2024-01-01' AS DATE) AS day, '{number}' AS number
"""

WORKER = """
import atexit, cProfile, json, os, sys, time
began_cpu = time.process_time()
started, ready, profile, marks_file, modules, *words = json.loads(sys.argv[1])
if ready:
    from importlib import import_module
    for module in modules:
        import_module(module)
    import gc
    gc.collect()
    gc.freeze()
    started, began_cpu = time.time(), time.process_time()
marks = []
def mark(name):
    marks.append((name, time.time() - started, time.process_time() - began_cpu))
def end():
    mark("end")
    open(marks_file, "w").write(json.dumps(marks))
atexit.register(end)
profiler = cProfile.Profile() if profile else None
if profiler:
    profiler.enable()
import dagster._cli
import dagster as dg
import vde_dagster.orchestration.definitions as definitions
mark("imports")
build = definitions.vde_definitions
def loaded(*given, **options):
    found = build(*given, **options)
    mark("load")
    return found
definitions.vde_definitions = loaded
store = dg.DagsterInstance.handle_new_event
def handle(self, entry, **options):
    done = store(self, entry, **options)
    kind = entry.dagster_event.event_type_value if entry.dagster_event else "line"
    mark(kind)
    return done
dg.DagsterInstance.handle_new_event = handle
from unittest.mock import patch
from vde_dagster_tests.execution.fake_workspace import FakeSpark
class Engine(FakeSpark):
    def __init__(self, _, __, lakehouse, **___):
        super().__init__()
        self.attach(lakehouse)
with patch("vde_dagster.spark.engine.SparkEngine", Engine):
    from vde_dagster.orchestration.launcher import call
    try:
        call(words[words.index("api"):])
    finally:
        mark("returned")
        if profiler:
            profiler.disable()
            profiler.dump_stats(profile)
"""
ENDED = ("PIPELINE_SUCCESS", "PIPELINE_FAILURE")


class Place:
    """A published project whose model `l9.leaf` changes before each plan, and its instance."""

    def __init__(self, folder: Path, models: int) -> None:
        self.root, self.home = folder / "project", folder / "home"
        write_project(self.root, models)
        self._number = 0
        self.edit()
        with open_fake(self.root) as workspace:
            workspace.apply(workspace.plan("prod"))
        self.home.mkdir()
        (self.home / "dagster.yaml").write_text(INSTANCE_CONFIG.read_text())
        os.environ |= {"DAGSTER_HOME": str(self.home), "VDE_PROJECT": str(self.root)}
        self.instance = dg.DagsterInstance.from_config(str(self.home))

    def edit(self) -> None:
        """Change the rows of the model."""
        self._number += 1
        (self.root / "models" / "leaf.sql").write_text(LEAF.format(number=self._number))
        time.sleep(2.1)  # younger files are read again, another change could look the same

    def plan(self) -> str:
        """Plan a change of the model; return the plan."""
        self.edit()
        with open_fake(self.root) as workspace:
            found = workspace.plan("prod", author="someone")
            Reporter(workspace, self.instance).add_plan(found.id)
            return found.id

    def create(self, kind: str) -> dg.DagsterRun:
        """Create a run of a kind, as the webserver does."""
        repository = ReconstructableRepository(ModuleCodePointer(LOCATION, "defs"))
        sys.modules.pop(LOCATION, None)
        options: dict[str, Any] = {}
        if kind == "approval":
            name, key = "vde_apply_job", self.plan()
            options = {"tags": {"dagster/partition": key}}
        elif kind == "plan and apply":
            self.edit()
            name = "vde_plan_and_apply"
            config = {"ops": {"plan_and_apply": {"config": {"environment": "prod"}}}}
            options = {"run_config": config}
        else:
            name, asset = "__ASSET_JOB", dg.AssetKey(["l9", "leaf"])
        job = ReconstructableJob(repository, name)
        if kind == "backfill":
            nodes = job.get_definition().asset_layer
            partitions = nodes.get(asset).partitions_def
            assert partitions is not None
            last = partitions.get_last_partition_key()
            job = job.get_subset(asset_selection={asset})
            tags = {"dagster/partition": str(last)}
            options = {"tags": tags, "asset_selection": frozenset({asset})}
        created = self.instance.create_run_for_job(
            job.get_definition(), job_code_origin=job.get_python_origin(), **options
        )
        return created


Figures = dict[str, tuple[float, float]]
"""Clock and CPU seconds until the end of each phase."""


def measure(place: Place, kind: str, ready: bool, profile: Path | None) -> Figures:
    """Run a kind once; return clock and CPU seconds until the end of each phase."""
    run = place.create(kind)
    words = run_arguments(run, place.instance)
    marks_file = place.home / f"{run.run_id}.json"
    own = str(profile / f"{kind.replace(' ', '_')}-{ready}.prof") if profile else None
    # As on any machine that ran the package before: with compiled modules.
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(place.home.parent / "compiled")}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    # The worker's engine is one of the tests, which are not installed.
    environment["PYTHONPATH"] = str(Path(__file__).parent.parent)
    values = [time.time(), ready, own, str(marks_file), list(MODULES) if ready else [], *words]
    done = subprocess.run(
        [sys.executable, "-c", WORKER, json.dumps(values)],
        cwd=place.root,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    ended = place.instance.get_run_by_id(run.run_id)
    assert ended is not None
    assert ended.status is dg.DagsterRunStatus.SUCCESS, done.stderr[-3000:]
    marks = json.loads(marks_file.read_text())
    names = [name for name, *_ in marks]
    end = next(place for place, name in enumerate(names) if name in ENDED)
    lines = [mark for mark in marks[:end] if mark[0] == "line"]
    events = [mark for mark in marks if mark[0].isupper()]
    chosen = {
        "imports": marks[names.index("imports")],
        "first event": events[0],
        "location": marks[names.index("load")],
        "first line": lines[0],
        "last line": lines[-1],
        "last event": marks[end],
        "end": marks[-1],
    }
    return {name: (seconds, cpu) for name, (_, seconds, cpu) in chosen.items()}


def main() -> None:
    """Print the seconds of each phase."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", type=int, default=40)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--profile", type=Path, help="folder for cProfile's statistics")
    given = parser.parse_args()
    if given.profile:
        given.profile.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore", dg.BetaWarning)
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), given.models)
        measure(place, KINDS[0], False, None)  # compiles all modules
        print(f"{'CPU seconds after the start':40}" + "".join(f"{name:>12}" for name in PHASES))
        for kind in KINDS:
            for ready in (False, True):
                found = [measure(place, kind, ready, given.profile) for _ in range(given.times)]
                print_figures(f"{kind}, {'ready' if ready else 'new'} process", found)


def print_figures(name: str, found: list[Figures]) -> None:
    """Print the least CPU seconds until the end of each phase, and compare with the goals."""
    best = min(found, key=lambda one: one["end"][1])
    print(f"{name:40}" + "".join(f"{best[phase][1]:12.2f}" for phase in PHASES), flush=True)
    first = min(one["first event"] for one in found)
    last = min(
        tuple(end - line for line, end in zip(one["last line"], one["end"], strict=True))
        for one in found
    )
    for what, (seconds, cpu), goal in (
        ("first event", first, FIRST),
        ("last line to the end of the process", last, LAST),
    ):
        met = "met" if cpu <= goal else "MISSED"
        text = f"{seconds:.2f} s by the clock, {cpu:.2f} s of CPU"
        print(f"    {what}: {text}, goal {goal:.0f} s idle: {met}", flush=True)


if __name__ == "__main__":
    main()
