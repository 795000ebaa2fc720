"""A real webserver and daemon on a project, driven over GraphQL and HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import dagster as dg

from vde_dagster.orchestration.instance import INSTANCE_CONFIG

T = TypeVar("T")
REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 600.0
_MODULE = "vde_dagster.orchestration.location"

PLAN_PARTITIONS = """
{ assetNodeOrError(assetKey: {path: ["vde", "plan"]}) { ... on AssetNode { partitionKeys } } }
"""
BACKFILLS = """
{ partitionBackfillsOrError { ... on PartitionBackfills { results { status } } } }
"""
MATERIALIZED = """
query M($path: [String!]!) {
  assetNodeOrError(assetKey: {path: $path}) {
    ... on AssetNode {
      partitionStats { numMaterialized numPartitions numFailed }
      partitionKeys
      assetMaterializations(limit: 50) { partition metadataEntries { label
        ... on MarkdownMetadataEntry { mdStr } } }
    }
  }
}
"""
LAUNCH = """
mutation Launch($location: String!, $job: String!, $assets: [AssetKeyInput!], $partition: String!) {
  launchPipelineExecution(executionParams: {
    selector: {repositoryLocationName: $location, repositoryName: "__repository__",
               pipelineName: $job, assetSelection: $assets},
    runConfigData: {},
    mode: "default",
    executionMetadata: {tags: [{key: "dagster/partition", value: $partition}]}
  }) {
    __typename
    ... on LaunchRunSuccess { run { runId } }
    ... on PythonError { message }
    ... on RunConfigValidationInvalid { errors { message } }
  }
}
"""
RETRIES = """
query Retries($run: String!) {
  runsOrError(filter: {tags: [{key: "dagster/parent_run_id", value: $run}]}) {
    ... on Runs { results { runId } }
  }
}
"""
RUN = "query R($id: ID!) { runOrError(runId: $id) { ... on Run { status } } }"
LOGS = """
query L($id: ID!) { logsForRun(runId: $id) { ... on EventConnection { events {
  __typename ... on MessageEvent { message } } } } }
"""
BACKFILL = """
mutation Backfill($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
RELOAD = """
mutation Reload($name: String!) {
  reloadRepositoryLocation(repositoryLocationName: $name) { __typename
    ... on PythonError { message } }
}
"""
ASSETS = "{ assetNodes { assetKey { path } } }"
TICKS = """
query Ticks($location: String!, $sensor: String!) {
  sensorOrError(sensorSelector: {repositoryLocationName: $location,
                                 repositoryName: "__repository__", sensorName: $sensor}) {
    ... on Sensor { sensorState { ticks(limit: 50) { skipReason } } }
  }
}
"""


@dataclass
class Programs:
    """Dagster's programs on one instance, each in a session of its own.

    Args:
        home: The instance's folder, where each program has a log.
        folder: Their working directory.
        environment: Their variables.
        commands: Arguments of `python -m` by the program's name.
        sessions: Sessions of all programs that were started; what they start belongs to one.
    """

    home: Path
    folder: Path
    environment: dict[str, str]
    commands: dict[str, list[str]]
    sessions: set[int] = field(default_factory=set)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, name: str) -> None:
        """Start a program."""
        with (self.home / f"{name}.log").open("a") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *self.commands[name]],
                env=self.environment,
                cwd=self.folder,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.running[name] = process
        self.sessions.add(process.pid)

    def kill(self, name: str) -> None:
        """Kill a program's process, and leave alone what it started."""
        process = self.running.pop(name)
        process.kill()
        process.wait(30)

    def end(self) -> None:
        """End all programs, and what they and killed ones started."""
        for process in self.running.values():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in self.running.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(30)
        for session in self.sessions:
            with suppress(ProcessLookupError):
                os.killpg(session, signal.SIGKILL)
        for process in self.running.values():
            process.wait(30)


@dataclass
class Dagster:
    """A running webserver with its daemon.

    Args:
        url: Where the webserver listens.
        home: The instance's folder.
        location: The code location's name.
        programs: Starts and ends both.
    """

    url: str
    home: Path
    location: str = "vde"
    programs: Programs | None = None

    def ask(self, query: str, **variables: Any) -> Any:
        """Run a GraphQL query."""
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(
            f"{self.url}/graphql", body, {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:
            result = json.load(answer)
        assert not result.get("errors"), result["errors"]
        return result["data"]

    def plans(self) -> list[str]:
        """Return the plans that have a partition."""
        node = self.ask(PLAN_PARTITIONS)["assetNodeOrError"]
        return list(node.get("partitionKeys", []))

    def asset(self, path: str) -> Any:
        """Return an asset's partitions and its latest events."""
        return self.ask(MATERIALIZED, path=path.split("/"))["assetNodeOrError"]

    def filled(self, path: str) -> set[str]:
        """Return the partitions of an asset that have an event."""
        return {event["partition"] for event in self.asset(path)["assetMaterializations"]}

    def assets(self) -> set[str]:
        """Return the keys of the assets that the webserver shows."""
        return {"/".join(node["assetKey"]["path"]) for node in self.ask(ASSETS)["assetNodes"]}

    def ticks(self, sensor: str) -> list[str]:
        """Return what the latest ticks of a sensor said when they asked for no run."""
        found = self.ask(TICKS, location=self.location, sensor=sensor)["sensorOrError"]
        return [tick["skipReason"] or "" for tick in found["sensorState"]["ticks"]]

    def launch(self, job: str, partition: str) -> str:
        """Launch a job for a partition and return the run."""
        return self._launch(job, partition, None)

    def backfills(self) -> list[str]:
        """Return how far the backfills are."""
        found = self.ask(BACKFILLS)["partitionBackfillsOrError"]["results"]
        return [str(backfill["status"]) for backfill in found]

    def materialize(self, asset: str, partition: str) -> str:
        """Fill a partition of an asset, as its page does, and return the run."""
        return self._launch("__ASSET_JOB", partition, [{"path": asset.split("/")}])

    def backfill(self, asset: str, first: str, last: str) -> str:
        """Launch a backfill of a range of an asset, as its page does, and return its id."""
        ranges = [{"start": first, "end": last}]
        chosen = {"assetKey": {"path": asset.split("/")}, "partitions": {"ranges": ranges}}
        found = self.ask(BACKFILL, parameters={"partitionsByAssets": [chosen]})
        return str(found["launchPartitionBackfill"]["backfillId"])

    def reload(self) -> None:
        """Reload the code location, as its button does."""
        done = self.ask(RELOAD, name=self.location)["reloadRepositoryLocation"]
        assert done["__typename"] == "WorkspaceLocationEntry", done

    def lines(self, run: str, text: str) -> list[str]:
        """Return the lines of a run's log that contain a text."""
        events = self.ask(LOGS, id=run)["logsForRun"]["events"]
        return [line for event in events if text in (line := event.get("message") or "")]

    def _launch(self, job: str, partition: str, assets: list[Any] | None) -> str:
        done = self.ask(
            LAUNCH, location=self.location, job=job, partition=partition, assets=assets
        )["launchPipelineExecution"]
        assert done["__typename"] == "LaunchRunSuccess", done
        return str(done["run"]["runId"])

    def end(self, run: str) -> str:
        """Wait until a run has ended, and return how."""
        return wait_for(
            lambda: self._status(run) if self._status(run) in ENDED else None, f"run {run}"
        )

    def succeed(self, run: str) -> None:
        """Wait until a run ended well."""
        status = self.end(run)
        if status != "SUCCESS":
            events = self.ask(LOGS, id=run)["logsForRun"]["events"]
            raise AssertionError("\n".join(event.get("message", "") for event in events))

    def spark_workers(self) -> set[int]:
        """Return the processes of runs that use Spark: those whose child is a JVM."""
        own = self.programs.sessions if self.programs else set()
        # A JVM that is started by a stored command has a session of its own.
        return {
            parent
            for name, parent, _ in map(_process, Path("/proc").glob("[0-9]*/stat"))
            if name == "java" and _process(Path("/proc", str(parent), "stat"))[2] in own
        }

    def kill_spark_worker(self) -> None:
        """Kill the process of the one run that uses Spark."""
        workers = self.spark_workers()
        assert len(workers) == 1, workers
        os.kill(workers.pop(), signal.SIGKILL)

    def wait_for_daemon(self, since: float) -> None:
        """Wait until the daemon, which looks once a minute, has loaded the location after a time.

        It says so when the server that it used before has ended, 20 seconds later.

        Args:
            since: Seconds since 1970.
        """

        def look() -> bool:
            lines = (self.home / "daemon.log").read_text().splitlines()
            found = (line for line in lines if "No heartbeat received in 20 seconds" in line)
            at = [re.search(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)", line) for line in found]
            known = [datetime.fromisoformat(f"{one[1]}+00:00").timestamp() for one in at if one]
            return bool(known) and max(known) > since + 25

        wait_for(look, "the daemon's next look at the code location")

    def retry_of(self, run: str) -> str:
        """Wait for the run that Dagster starts in place of one, and return it."""

        def look() -> list[str]:
            found = self.ask(RETRIES, run=run)["runsOrError"]["results"]
            return [str(one["runId"]) for one in found]

        (retry,) = wait_for(look, f"a retry of {run}")
        return retry

    def _status(self, run: str) -> str:
        return str(self.ask(RUN, id=run)["runOrError"]["status"])


ENDED = ("SUCCESS", "FAILURE", "CANCELED")


def wait_for(look: Callable[[], T | None], what: str, seconds: float = SECONDS) -> T:
    """Look again and again until there is something."""
    deadline = time.monotonic() + seconds
    last: Exception | None = None
    while time.monotonic() < deadline:
        try:
            found = look()
            if found:
                return found
        except (OSError, KeyError) as error:
            last = error
        time.sleep(0.5)
    raise AssertionError(f"waited {seconds:.0f} s for {what}: {last}")


def _process(stat: Path) -> tuple[str, int, int]:
    """Return a process' name, parent and session; see proc(5)."""
    try:
        name, rest = stat.read_text().split("(", 1)[1].rsplit(")", 1)
    except OSError:  # it has ended
        return "", 0, 0
    _, parent, _, session, *_ = rest.split()
    return name, int(parent), int(session)


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def open_home(home: Path) -> dg.DagsterInstance:
    """Open the instance of a folder with a `dagster.yaml`."""
    with patch.dict(os.environ, {"DAGSTER_HOME": str(home)}):
        return dg.DagsterInstance.from_config(str(home))


@contextmanager
def running_dagster(
    project: Path,
    home: Path,
    location: str = "vde",
    *,
    module: str = _MODULE,
    config: str = "",
    daemons: int = 1,
) -> Iterator[Dagster]:
    """Run a webserver and a daemon with this repository's own instance files.

    Args:
        project: The project's folder.
        home: An empty folder for the instance.
        location: The code location's name.
        module: The code location's module.
        config: Text of `dagster.yaml`; the package's by default.
        daemons: Number of daemons.
    """
    home.mkdir(parents=True, exist_ok=True)
    (home / "dagster.yaml").write_text(config or INSTANCE_CONFIG.read_text())
    # Two processes that create the same SQLite files at once disturb each other.
    open_home(home).dispose()
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(home),
        "VDE_PROJECT": str(project),
        "VDE_DAGSTER_URL": url,
        "PYTHONPATH": os.pathsep.join(filter(None, [str(REPOSITORY), os.getenv("PYTHONPATH")])),
    }
    text = (REPOSITORY / "workspace.yaml").read_text()
    for own, other in (("location_name: vde", location), ("module_name: " + _MODULE, module)):
        assert own in text
        text = text.replace(own, f"{own.partition(' ')[0]} {other}")
    file = home / "workspace.yaml"
    file.write_text(text)
    workspace = ["-w", str(file)]
    commands = {
        "webserver": ["dagster_webserver", "-h", "127.0.0.1", "-p", str(port), *workspace],
    }
    for number in range(daemons):
        name = f"daemon_{number}" if number else "daemon"
        commands[name] = ["dagster._daemon", "run", *workspace]
    programs = Programs(home, project, environment, commands)
    try:
        for name in commands:
            programs.start(name)
        server = Dagster(url, home, location, programs)
        wait_for(lambda: server.ask("{ version }"), "the webserver")
        yield server
    finally:
        programs.end()
