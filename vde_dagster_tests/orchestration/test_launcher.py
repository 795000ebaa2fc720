"""Runs of Dagster in copies of the ready process: they end, fail and are cancelled as others do."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import dagster as dg
import pytest
from dagster._core.code_pointer import FileCodePointer
from dagster._core.definitions.reconstruct import ReconstructableJob, ReconstructableRepository
from dagster._core.launcher import DefaultRunLauncher, LaunchRunContext, WorkerStatus

from vde_dagster.orchestration.launcher import PROCESS_TAG, WarmRunLauncher
from vde_dagster.spark.ready.protocol import SOCKET
from vde_dagster.spark.session.warm import WarmEngine
from vde_dagster_tests.processes import until

pytestmark = [pytest.mark.server, pytest.mark.dagster]

JOBS = """
import os
import time
from pathlib import Path

import dagster as dg


@dg.op
def tell(context: dg.OpExecutionContext) -> None:
    folder = Path(__file__).parent
    (folder / context.run_id).write_text(f"{os.getpid()} {os.getppid()}")
    while (folder / "wait").exists():
        time.sleep(0.05)
    if (folder / "fail").exists():
        raise ValueError("it was told to fail")


@dg.job(executor_def=dg.in_process_executor)
def told() -> None:
    tell()
"""
CONFIG = """
telemetry: {{enabled: false}}
run_launcher:
  module: vde_dagster.orchestration.launcher
  class: WarmRunLauncher
  config: {{project: {root}}}
"""


class Place:
    """A project with a job, an instance, and a ready process that believes in an engine."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file = root / "jobs_of_the_test.py"
        self.file.write_text(JOBS)
        self.folder = root / ".vde" / "engine"
        self.folder.mkdir(parents=True, mode=0o700)
        home = root / "home"
        home.mkdir()
        (home / "dagster.yaml").write_text(CONFIG.format(root=root))
        self.instance = dg.DagsterInstance.from_config(str(home))
        self._engine = WarmEngine(os.getpid(), os.getpid(), 1, "", "", 0.0)
        self._record = self._engine.write(self.folder)
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def launcher(self) -> WarmRunLauncher:
        """The instance's launcher."""
        found = self.instance.run_launcher
        assert isinstance(found, WarmRunLauncher)
        return found

    def start(self, *modules: str) -> subprocess.Popen[bytes]:
        """Start a ready process that has imported some modules."""
        words = [sys.executable, "-m", "vde_dagster.spark.ready.process", str(self.folder)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE)
        assert self.process.stdin is not None
        with self.process.stdin as file:
            file.write(json.dumps(modules).encode())
        until(lambda: (self.folder / SOCKET).exists())
        return self.process

    def launch(self) -> str:
        """Launch the job; return the run."""
        pointer = FileCodePointer(str(self.file), "told", str(self.root))
        job = ReconstructableJob(ReconstructableRepository(pointer), "told")
        definition = job.get_definition()
        run = self.instance.create_run_for_job(definition, job_code_origin=job.get_python_origin())
        self.instance.launch_run(run.run_id, workspace=None)
        return run.run_id

    def told(self, run: str) -> list[int]:
        """Wait for what the job says of its processes."""
        file = self.root / run
        until(lambda: file.exists() and bool(file.read_text()))
        return [int(word) for word in file.read_text().split()]

    def status(self, run: str) -> dg.DagsterRunStatus:
        """Wait for a run's end."""

        def found() -> dg.DagsterRun:
            run_now = self.instance.get_run_by_id(run)
            assert run_now is not None
            return run_now

        until(lambda: found().is_finished)
        return found().status

    def close(self) -> None:
        """End all."""
        self._record.close()
        self._engine.forget(self.folder)
        if self.process is not None:
            assert self.process.wait(60) == 0
        self.instance.dispose()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    place = Place(tmp_path_factory.mktemp("launcher"))
    place.start("vde_dagster.orchestration.launcher", "dagster._cli")
    yield place
    place.close()


def test_a_run_is_a_copy_of_the_ready_process(place: Place) -> None:
    run = place.launch()
    pid, parent = place.told(run)
    assert place.status(run) == dg.DagsterRunStatus.SUCCESS
    assert place.process is not None
    assert parent == place.process.pid
    found = place.instance.get_run_by_id(run)
    assert found is not None
    assert found.tags[PROCESS_TAG].split()[:2] == [run, str(pid)]


def test_a_run_that_two_daemons_take_from_the_queue_is_launched_once(place: Place) -> None:
    run = place.launch()
    found = place.instance.get_run_by_id(run)
    assert found is not None
    place.launcher.launch_run(LaunchRunContext(dagster_run=found, workspace=None))
    assert place.status(run) == dg.DagsterRunStatus.SUCCESS
    events = [one.dagster_event for one in place.instance.all_logs(run) if one.dagster_event]
    assert [one.event_type_value for one in events].count("PIPELINE_START") == 1
    assert any("Another daemon" in str(one.message) for one in events)


def test_a_step_that_fails_fails_the_run(place: Place) -> None:
    mark = place.root / "fail"
    mark.touch()
    try:
        run = place.launch()
        assert place.status(run) == dg.DagsterRunStatus.FAILURE
    finally:
        mark.unlink()
    said = [str(event) for event in place.instance.all_logs(run)]
    assert any("it was told to fail" in event for event in said)


@pytest.fixture
def waiting(place: Place) -> Iterator[str]:
    mark = place.root / "wait"
    mark.touch()
    run = place.launch()
    place.told(run)
    yield run
    mark.unlink(missing_ok=True)


def test_a_run_is_cancelled_from_another_process(place: Place, waiting: str) -> None:
    code = (
        "import sys, dagster as dg\n"
        "instance = dg.DagsterInstance.from_config(sys.argv[1])\n"
        "assert instance.run_launcher.terminate(sys.argv[2])\n"
    )
    home = str(place.root / "home")
    subprocess.run([sys.executable, "-c", code, home, waiting], check=True, timeout=60)
    assert place.status(waiting) == dg.DagsterRunStatus.CANCELED


def test_a_run_whose_process_is_killed_fails_at_once(place: Place, waiting: str) -> None:
    run = place.instance.get_run_by_id(waiting)
    assert run is not None
    assert place.launcher.check_run_worker_health(run).status == WorkerStatus.RUNNING
    os.kill(place.told(waiting)[0], signal.SIGKILL)
    assert place.status(waiting) == dg.DagsterRunStatus.FAILURE
    assert place.launcher.check_run_worker_health(run).status == WorkerStatus.FAILED
    assert not place.launcher.terminate(waiting)


def test_a_retry_that_has_the_tags_of_the_run_before_is_not_that_run(place: Place) -> None:
    run = place.launch()
    assert place.status(run) == dg.DagsterRunStatus.SUCCESS
    found = place.instance.get_run_by_id(run)
    assert found is not None
    own = f"{run} {os.getpid()} 0"
    retry = found._replace(run_id="another", tags={**found.tags, PROCESS_TAG: own})
    assert place.launcher.check_run_worker_health(retry).status == WorkerStatus.RUNNING


def test_without_a_ready_process_that_has_what_runs_need_dagster_launches_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    launched: list[str] = []

    def launch(_: DefaultRunLauncher, context: LaunchRunContext) -> None:
        launched.append(context.dagster_run.run_id)

    monkeypatch.setattr(DefaultRunLauncher, "launch_run", launch)
    place = Place(tmp_path)
    try:
        alone = place.launch()
        process = place.start("json")
        lacking = place.launch()
        assert launched == [alone, lacking]
        assert process.wait(60) == 0, "one that lacks modules makes room for one that has them"
    finally:
        place.close()
