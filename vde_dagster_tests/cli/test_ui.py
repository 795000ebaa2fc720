"""`vde ui`: Dagster on any project, with what it needs, and nothing left of it afterwards."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from vde_dagster.base.installing import how_to_install
from vde_dagster.cli.commands.project import new_project
from vde_dagster.errors import UsageError
from vde_dagster.orchestration import local_ui
from vde_dagster.orchestration.instance import workspace_file, workspace_text
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.orchestration.servers import REPOSITORY, Dagster, free_port, wait_for
from vde_dagster_tests.processes import is_running
from vde_dagster_tests.projects import ProjectFolder

SLOW = """
from pathlib import Path
from time import sleep

import dagster as dg

from vde_dagster import vde_definitions


@dg.asset(deps=[dg.AssetKey(["marts", "daily_revenue"])])
def report(context: dg.AssetExecutionContext) -> None:
    Path("began").touch()
    sleep(3600)


job = dg.define_asset_job("report_job", selection="report")
defs = dg.Definitions.merge(
    vde_definitions(Path(__file__).parent, assets=[report]), dg.Definitions(jobs=[job])
)
"""
LAUNCH = """
mutation { launchPipelineExecution(executionParams: {
  selector: {repositoryLocationName: "shop", repositoryName: "__repository__",
             pipelineName: "report_job"},
  runConfigData: {}, mode: "default"}) { __typename } }
"""
ASSETS = "{ assetNodes { assetKey { path } } }"
LOCATIONS = "{ workspaceOrError { ... on Workspace { locationEntries { name } } } }"


@contextmanager
def opened(folder: ProjectFolder) -> Iterator[tuple[subprocess.Popen[str], Dagster]]:
    """Open Dagster as a person does, who would see its address."""
    settings = folder.root / "pyproject.toml"
    # The sensor's plan would start a JVM beside what the test looks at.
    settings.write_text(settings.read_text() + "\n[tool.vde.dagster]\ncheck_queries = false\n")
    port = free_port()
    environment = {key: text for key, text in os.environ.items() if key != "DAGSTER_HOME"}
    process = subprocess.Popen(
        [sys.executable, "-m", "vde_dagster.cli", "ui", "--port", str(port)],
        env={**environment, "PYTHONPATH": str(REPOSITORY)},
        cwd=folder.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        assert process.stdout is not None
        said = [process.stdout.readline(), process.stdout.readline()]
        url = f"http://127.0.0.1:{port}"
        assert said == ["starting Dagster\n", f"Dagster is at {url} (Ctrl-C stops it)\n"]
        yield process, Dagster(url, folder.root / ".dagster_home")
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)


def loaded(dagster: Dagster) -> set[str]:
    nodes = dagster.ask(ASSETS)["assetNodes"]
    return {"/".join(node["assetKey"]["path"]) for node in nodes}


def started_by(process: int) -> set[int]:
    """Return the processes in the sessions of a process' children, but for those that ended."""
    found: dict[int, tuple[int, int]] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, _, session, *_ = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if state != "Z":
            found[int(stat.parent.name)] = (int(parent), int(session))
    sessions = {session for parent, session in found.values() if parent == process}
    return {number for number, (_, session) in found.items() if session in sessions}


@pytest.mark.turns(12, "plays and tours")
@pytest.mark.server
def test_ui_opens_a_project_and_ctrl_c_ends_all_of_it_a_run_included(
    template: ProjectFolder, vde: Vde
) -> None:
    template.write("definitions.py", SLOW)
    with opened(template) as (process, dagster):
        entries = dagster.ask(LOCATIONS)["workspaceOrError"]["locationEntries"]
        assert [entry["name"] for entry in entries] == ["shop"]
        assert {"raw/orders", "report"} <= loaded(dagster)

        again = vde("ui", "--project", template.root, "--port", free_port(), "--json")
        assert again.code == 2
        message = again.json["error"]["message"]
        assert message.startswith("Dagster already runs with the home")
        assert message.endswith(f": {dagster.url}")

        launched = dagster.ask(LAUNCH)["launchPipelineExecution"]["__typename"]
        assert launched == "LaunchRunSuccess"
        wait_for((template.root / "began").exists, "the run")
        started = started_by(process.pid)
        assert len(started) >= 5, "dev, webserver, daemon, code servers and the run"

        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        assert process.returncode == 130
        assert {number for number in started if is_running(number)} == set()


def load_from(root: Path) -> dict[str, dict[str, str]]:
    text = workspace_text(root)
    assert text is not None
    (target,) = yaml.safe_load(text)["load_from"]
    assert isinstance(target, dict)
    return target


def test_a_project_with_definitions_is_opened_by_them(template: ProjectFolder) -> None:
    assert load_from(template.root) == {
        "python_file": {
            "relative_path": str(template.root / "definitions.py"),
            "working_directory": str(template.root),
            "location_name": "shop",
        }
    }


def test_a_project_without_definitions_is_opened_by_itself(tmp_path: Path) -> None:
    new_project(tmp_path / "plain", dagster=False)
    assert load_from(tmp_path / "plain") == {
        "python_module": {
            "module_name": "vde_dagster.orchestration.location",
            "working_directory": str(tmp_path / "plain"),
            "location_name": "plain",
        }
    }


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("pyproject.toml", '[tool.dagster]\nmodule_name = "mine"'),
        ("pyproject.toml", '[tool.dg]\ndirectory_type = "project"'),
    ],
)
def test_what_the_project_says_of_its_code_locations_holds(
    file: str, text: str, template: ProjectFolder
) -> None:
    template.write(file, text)
    assert workspace_text(template.root) is None


def test_a_workspace_file_of_the_project_is_the_one(
    template: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    made = workspace_file(template.root)
    assert made == template.root / ".dagster_home" / "vde-workspace.yaml"
    own = template.write("workspace.yaml", "load_from: []")
    assert workspace_file(template.root) == own


def test_a_folder_without_models_is_refused_and_left_as_it_is(tmp_path: Path, vde: Vde) -> None:
    ended = vde("ui", "--project", tmp_path, "--json")
    assert ended.code == 2
    assert ended.json["error"]["message"] == (
        f"there are no models in {tmp_path} (searched in 'models')"
    )
    assert "vde init" in ended.json["error"]["hint"]
    assert not (tmp_path / ".dagster_home").exists()


def test_a_missing_folder_is_refused(tmp_path: Path, vde: Vde) -> None:
    ended = vde("ui", "--project", tmp_path / "nowhere", "--json")
    assert ended.code == 2
    assert "nowhere does not exist" in ended.json["error"]["message"]


def test_a_taken_port_is_named_with_what_to_do(template: ProjectFolder, vde: Vde) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = vde("ui", "--project", template.root, "--port", port)
    assert ended.code == 2
    assert f"the address 127.0.0.1:{port} is not available: Address already in use" in ended.err
    assert f"vde ui --port {port + 1}" in ended.err


def test_a_missing_webserver_is_one_message(
    template: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_ui, "find_spec", lambda name: None)
    ended = vde("ui", "--project", template.root, "--json")
    assert ended.code == 2
    assert "dagster-webserver, which is not installed" in ended.json["error"]["message"]
    assert ended.json["error"]["hint"] == how_to_install()
    assert not (template.root / ".dagster_home").exists()


@pytest.mark.proof
def test_dagster_that_does_not_start_says_why(
    template: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    template.write("workspace.yaml", "load_from: [{nonsense: 1}]")
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    with (
        pytest.raises(Exception, match="Dagster ended: ") as raised,
        local_ui.local_ui(template.root, host="127.0.0.1", port=free_port()),
    ):
        pass
    assert not isinstance(raised.value, UsageError)
    assert str(template.root / ".dagster_home" / "ui.log") in str(raised.value)
    assert "nonsense" in str(raised.value)
