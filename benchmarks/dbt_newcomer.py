"""A dbt project's way into Dagster, as somebody new goes it: pip install, vde init --dbt, vde ui.

    python -m benchmarks.dbt_newcomer PROJECT [--adapter dbt-duckdb]

Builds the wheel of this checkout and copies the project. Then, with an empty HOME and an
environment of its own, it installs the wheel with the extra dbt and the project's adapter, and
calls `vde init --dbt .` and `vde ui`. Prints the seconds of each, of `vde ui` those until its
GraphQL lists an asset for each of dbt's nodes, and of the first publication of `prod`, which is
the job `vde_plan_and_apply`, launched as a click in Dagster launches it. Exits with 1 where one
fails. Packages and Spark's jars come from where pip and Maven get them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

_ASSETS = """{ assetNodes { assetKey { path } }
  repositoriesOrError { ... on RepositoryConnection { nodes { name location { name } } } } }"""
_LAUNCH = """mutation($selector: JobOrPipelineSelector!, $config: RunConfigData) {
  launchPipelineExecution(
    executionParams: {selector: $selector, mode: "default", runConfigData: $config}
  ) { __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }"""
_STATUS = """query($id: ID!) { runOrError(runId: $id) {
  ... on Run { status assetMaterializations { assetKey { path } } } } }"""
_JOB = "vde_plan_and_apply"
_CONFIG = {"ops": {"plan_and_apply": {"config": {"environment": "prod"}}}}
_MOST = 900.0
"""Seconds after which `vde ui`, or the run, has failed."""


def main() -> int:
    """Go the way once; returns 1 where a step fails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", nargs="?", type=Path)
    parser.add_argument("--adapter", default="dbt-duckdb")
    said = parser.parse_args()
    if said.project is None:
        print("give the folder of a dbt project with data and profiles.yml; nothing was run")
        return 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return _Newcomer(Path(folder)).goes(said.project, said.adapter)


class _Newcomer:
    """Somebody with an empty home."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._root = folder, folder / "project"
        self._bin = folder / "venv" / "bin"
        (folder / "home").mkdir()
        kept = ("LANG", "JAVA_HOME", "HTTPS_PROXY", "https_proxy", "PIP_INDEX_URL", "PIP_CERT")
        self._environment = {name: os.environ[name] for name in kept if name in os.environ}
        path = f"{self._bin}{os.pathsep}{os.environ['PATH']}"
        self._environment |= {"HOME": str(folder / "home"), "PATH": path}

    def goes(self, project: Path, adapter: str) -> int:
        ignored = shutil.ignore_patterns(".git", ".vde", ".dagster_home", "target", "*.duckdb")
        shutil.copytree(project, self._root, ignore=ignored, symlinks=True)
        here = Path(__file__).parents[1]
        wheels = self._folder / "wheels"
        source = self._folder / "source"
        shutil.copytree(
            here / "vde_dagster",
            source / "vde_dagster",
            ignore=shutil.ignore_patterns("__pycache__"),
        )
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(here / name, source)
        pip = [sys.executable, "-m", "uv", "build", "--quiet", "--wheel"]
        subprocess.run([*pip, "--out-dir", str(wheels), str(source)], check=True)
        subprocess.run([sys.executable, "-m", "venv", str(self._bin.parent)], check=True)
        wheel = next(wheels.glob("*.whl"))
        print(f"{'step':38} {'seconds':>8}")
        install = ["pip", "install", "--quiet", "--no-cache-dir", f"{wheel}[dbt]", adapter]
        return int(
            not (
                self._calls("pip install vde-dagster[dbt] " + adapter, *install)
                and self._calls("vde init --dbt .", "vde", "init", "--dbt", ".")
                and self._opens()
            )
        )

    def _calls(self, name: str, command: str, *arguments: str) -> bool:
        began = time.monotonic()
        done = subprocess.run(
            [str(self._bin / command), *arguments],
            cwd=self._root,
            env=self._environment,
            capture_output=True,
            text=True,
        )
        print(f"{name:38} {time.monotonic() - began:8.1f}", flush=True)
        if done.returncode:
            print(f"{done.stdout}\n{done.stderr}"[-3000:])
        return done.returncode == 0

    def _opens(self) -> bool:
        """Call `vde ui`, wait for its assets, and let it publish `prod`."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        log, began = self._folder / "ui.log", time.monotonic()
        with log.open("w") as file:
            process = subprocess.Popen(
                [str(self._bin / "vde"), "ui", "--port", str(port)],
                cwd=self._root,
                env=self._environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            dagster = _Dagster(f"http://127.0.0.1:{port}/graphql")
            shown = dagster.assets(process)
            print(f"{f'vde ui, until {len(shown)} assets are listed':38}", end=" ")
            print(f"{time.monotonic() - began:8.1f}", flush=True)
            launched = time.monotonic()
            status, materialized = dagster.publishes()
            print(f"{f'its run publishes {materialized} assets: {status.lower()}':38}", end=" ")
            print(f"{time.monotonic() - launched:8.1f}", flush=True)
            if status == "SUCCESS":
                return True
        except TimeoutError as error:
            print(error)
        finally:
            os.killpg(process.pid, signal.SIGINT)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
        print(log.read_text()[-3000:])
        return False


class _Dagster:
    """Dagster's webserver, asked by GraphQL."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._place: dict[str, Any] = {}

    def assets(self, process: subprocess.Popen[bytes]) -> list[str]:
        """Wait for the assets of a code location; those of plans and environments do not count.

        Raises:
            TimeoutError: There are none in time, or the process ended.
        """
        end = time.monotonic() + _MOST
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.2)
            try:
                told = self._ask(_ASSETS)
            except OSError:
                continue
            keys = ["/".join(one["assetKey"]["path"]) for one in told["assetNodes"]]
            found = [key for key in keys if not key.startswith("vde/")]
            if found:
                self._place = told["repositoriesOrError"]["nodes"][0]
                return found
        raise TimeoutError("Dagster lists no assets")

    def publishes(self) -> tuple[str, int]:
        """Launch the job that plans and applies; return how it ended, and how many assets it made.

        Raises:
            TimeoutError: It was refused, or did not end in time.
        """
        selector = {
            "repositoryName": self._place["name"],
            "repositoryLocationName": self._place["location"]["name"],
            "jobName": _JOB,
        }
        told = self._ask(_LAUNCH, selector=selector, config=_CONFIG)["launchPipelineExecution"]
        if "run" not in told:
            raise TimeoutError(f"Dagster launches no run: {told}")
        end = time.monotonic() + _MOST
        while time.monotonic() < end:
            time.sleep(0.5)
            run = self._ask(_STATUS, id=told["run"]["runId"])["runOrError"]
            if run["status"] in ("SUCCESS", "FAILURE", "CANCELED"):
                made = {"/".join(m["assetKey"]["path"]) for m in run["assetMaterializations"]}
                return run["status"], len([key for key in made if not key.startswith("vde/")])
        raise TimeoutError("the run does not end")

    def _ask(self, query: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": query, "variables": variables}).encode()
        request = urllib.request.Request(self._url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found: dict[str, Any] = json.load(answer)["data"]
        return found


if __name__ == "__main__":
    raise SystemExit(main())
