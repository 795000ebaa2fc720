"""What Dagster shows follows every change; a pending edit leaves production's lineage alone."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import dagster as dg
import pytest
from dagster._core.remote_origin import InProcessCodeLocationOrigin
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from vde_dagster.base.names import ModelName
from vde_dagster.cli.app import call
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration import vde_definitions
from vde_dagster.orchestration.events.publication import environment_event
from vde_dagster.orchestration.instance import URL_VARIABLE
from vde_dagster.orchestration.location_refresh import ATTEMPTS, refresh
from vde_dagster.orchestration.names import SHORT, Names
from vde_dagster.orchestration.pages.plan_page import plan_metadata
from vde_dagster.reports.markdown import MAX_LINE, MAX_NAME, break_line, short_name
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.orchestration.conftest import load_catalog, told_of
from vde_dagster_tests.projects import ProjectFolder

BASE, TOP = ModelName("db", "base"), ModelName("db", "top")
FILES = {
    "models/base.sql": "MODEL (name db.base, kind FULL); SELECT 1 AS n",
    "models/top.sql": "MODEL (name db.top, kind FULL); SELECT max(n) AS n FROM db.base",
}
LOADED = {
    "__typename": "WorkspaceLocationEntry",
    "locationOrLoadError": {"__typename": "RepositoryLocation"},
}
LOG = logging.getLogger(__name__)


class Webserver:
    """Answers as Dagster's webserver does, and remembers which locations it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: dict[str, Any] = LOADED
        self.meanwhile: Callable[[], object] = lambda: None

    @contextmanager
    def running(self) -> Iterator[str]:
        """Listen, and yield the address."""
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                own.asked.append(body["variables"]["name"])
                own.meanwhile()
                said = json.dumps({"data": {"reloadRepositoryLocation": own.answer}}).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *_: Any) -> None: ...

        with HTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = Thread(target=server.serve_forever, args=(0.01,))
            thread.start()
            yield f"http://127.0.0.1:{server.server_port}"
            server.shutdown()
            thread.join()


@pytest.fixture
def webserver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Webserver]:
    found = Webserver()
    with found.running() as url:
        monkeypatch.setenv(URL_VARIABLE, url)
        yield found


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.fixture
def workspace(folder: ProjectFolder) -> Iterator[Workspace]:
    with open_fake(folder.root) as opened:
        yield opened


def tick(folder: ProjectFolder, instance: dg.DagsterInstance, location: str, cursor: Any) -> Any:
    """Let the sensor of a location look once, as the daemon does."""
    definitions = vde_definitions(folder.root)
    origin = InProcessCodeLocationOrigin(
        LoadableTargetOrigin(module_name="x"), location_name=location
    )
    context = dg.SensorEvaluationContext(
        instance_ref=None,
        last_tick_completion_time=None,
        last_run_key=None,
        cursor=cursor,
        log_key=None,
        repository_name="__repository__",
        repository_def=definitions.get_repository_def(),
        instance=instance,
        sensor_name="vde_code_changes",
        resources={},
        definitions=None,
        last_sensor_start_time=None,
        code_location_origin=origin,
    )
    with context:
        return definitions.resolve_sensor_def("vde_code_changes")(context)


def test_every_change_and_its_undoing_load_the_sensors_own_location_again(
    folder: ProjectFolder, instance: dg.DagsterInstance, webserver: Webserver
) -> None:
    first = tick(folder, instance, "sales_team", None)
    assert webserver.asked == ["sales_team"]
    tick(folder, instance, "sales_team", first.cursor)
    assert webserver.asked == ["sales_team"], "nothing changed"

    text = (folder.root / "models/top.sql").read_text()
    folder.edit("models/top.sql", "max(n)", "min(n)")
    edited = tick(folder, instance, "sales_team", first.cursor)
    assert webserver.asked == ["sales_team"] * 2
    (folder.root / "models/top.sql").write_text(text)
    tick(folder, instance, "sales_team", edited.cursor)
    assert webserver.asked == ["sales_team"] * 3


def test_what_is_edited_during_a_load_and_undone_after_it_is_loaded_again(
    folder: ProjectFolder, instance: dg.DagsterInstance, webserver: Webserver
) -> None:
    text = (folder.root / "models/top.sql").read_text()
    webserver.meanwhile = lambda: folder.edit("models/top.sql", "max(n)", "min(n)")
    first = tick(folder, instance, "sales_team", None)
    webserver.meanwhile = lambda: None
    (folder.root / "models/top.sql").write_text(text)
    for _ in range(2):
        tick(folder, instance, "sales_team", first.cursor)
    assert webserver.asked == ["sales_team"] * 2


def test_what_the_command_line_published_loads_the_location_again(
    folder: ProjectFolder,
    instance: dg.DagsterInstance,
    webserver: Webserver,
    workspace: Workspace,
) -> None:
    first = tick(folder, instance, "sales_team", None)
    workspace.apply(workspace.plan("dev"))
    tick(folder, instance, "sales_team", first.cursor)
    assert webserver.asked == ["sales_team"] * 2


def test_a_mistake_in_a_file_fails_the_tick_and_is_shown_on_the_models_page_at_once(
    folder: ProjectFolder, instance: dg.DagsterInstance, webserver: Webserver
) -> None:
    first = tick(folder, instance, "sales_team", None)
    folder.edit("models/top.sql", "SELECT", "SELCT")
    for _ in range(2):
        with pytest.raises(dg.Failure, match=r"models/top\.sql"):
            tick(folder, instance, "sales_team", first.cursor)
    assert webserver.asked == ["sales_team"] * 2


def test_a_load_that_fails_says_what_to_press_and_is_tried_a_few_times(
    folder: ProjectFolder, instance: dg.DagsterInstance, webserver: Webserver
) -> None:
    error = {"__typename": "PythonError", "message": "ValueError: wrong\n"}
    webserver.answer = {"__typename": "WorkspaceLocationEntry", "locationOrLoadError": error}
    first = tick(folder, instance, "sales_team", None)
    cursor, said = first.cursor, []
    for _ in range(ATTEMPTS + 1):
        found = tick(folder, instance, "sales_team", cursor)
        said.append(found.skip_message)
    told = [text for text in said if "Press Reload" in text]
    assert len(told) == ATTEMPTS - 1, "at the first the webserver may not be up yet"
    assert "'sales_team': ValueError: wrong." in told[0]
    assert "Code locations" in told[0]
    assert len(webserver.asked) == ATTEMPTS


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"__typename": "RepositoryLocationNotFound"}, "RepositoryLocationNotFound"),
        ({"__typename": "ReloadNotSupported"}, "ReloadNotSupported"),
        ({"__typename": "PythonError", "message": "no such thing"}, "no such thing"),
    ],
)
def test_an_answer_that_is_no_load_is_a_warning(
    answer: dict[str, Any],
    told: str,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    webserver: Webserver,
) -> None:
    webserver.answer = answer
    assert refresh(instance, LOG, "sales_team", workspace) is None, "Dagster may just begin"
    assert told in str(refresh(instance, LOG, "sales_team", workspace))


def test_no_webserver_is_a_warning_with_the_variable_that_names_one(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setenv(URL_VARIABLE, "http://127.0.0.1:9")
    assert refresh(instance, LOG, "sales_team", workspace) is None, "Dagster may just begin"
    warning = refresh(instance, LOG, "sales_team", workspace)
    assert URL_VARIABLE in str(warning)
    assert caplog.messages == [warning]


def listed(folder: ProjectFolder, name: ModelName) -> dict[str, tuple[str, ...]]:
    """Return the versions that are partitions of a model, each with who shows it."""
    catalog = load_catalog(folder)
    partitions = catalog.partitions[name]
    assert partitions is not None
    model = catalog.live.models[name]
    labels = {version.key: version.labels for version in model.versions}
    return {key: labels[key] for key in partitions.get_partition_keys()}


def test_a_pending_edit_is_a_partition_of_nothing_until_somebody_approves_it(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    (new,) = listed(folder, TOP)
    assert listed(folder, TOP) == {new: ("working copy",)}, "a new model is missing"
    workspace.apply(workspace.plan("prod"))
    assert listed(folder, TOP) == {new: ("prod", "working copy")}

    folder.edit("models/top.sql", "max(n)", "min(n)")
    with open_fake(folder.root) as edited:
        plan = edited.plan("prod")
        assert listed(folder, TOP) == {new: ("prod",)}
        model = load_catalog(folder).live.models[TOP]
        assert model.current is not None
        assert model.current.labels == ("working copy",), "the code version is the file's"

        # Approved: from its beginning on what it builds is listed.
        edited.store.plans.set_status(plan.id, "applying")
        assert listed(folder, TOP) == {
            new: ("prod",),
            model.current.key: ("prod (being built)", "working copy"),
        }
        edited.apply(edited.store.plans.load(plan.id))
    assert listed(folder, TOP) == {model.current.key: ("prod", "working copy")}
    assert listed(folder, BASE).popitem()[1] == ("prod", "working copy")


DAYS = """
    MODEL (name db.m, cron '@daily', start '2024-01-01', end '2024-01-05',
      kind INCREMENTAL_BY_TIME_RANGE (time_column at));
    SELECT CAST('2024-01-01' AS TIMESTAMP) AS at, 1 AS n
"""
WHOLE = "MODEL (name db.m, kind FULL); SELECT CAST('2024-01-01' AS TIMESTAMP) AS at, 1 AS n"
EMBEDDED = WHOLE.replace("FULL", "EMBEDDED")


@pytest.mark.parametrize(
    ("published", "edited"),
    [
        (WHOLE, DAYS),
        (WHOLE, EMBEDDED),
        (DAYS, WHOLE),
        (DAYS, DAYS.replace("@daily", "@hourly")),
        (DAYS, DAYS.replace("start '2024", "start '2023")),
        (DAYS, DAYS.replace("start '2024-01-01", "start '2024-01-03")),
        (DAYS, DAYS.replace("end '2024-01-05", "end '2024-01-03")),
    ],
)
def test_a_pending_edit_of_kind_or_times_leaves_published_partitions_as_they_are(
    tmp_path: Path, published: str, edited: str
) -> None:
    folder, name = (
        ProjectFolder(tmp_path / "one", {"models/m.sql": published}),
        ModelName("db", "m"),
    )

    def keys() -> list[str] | None:
        partitions = load_catalog(folder).partitions[name]
        return None if partitions is None else [*partitions.get_partition_keys()]

    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        before = keys()
        folder.write("models/m.sql", edited)
        assert keys() == before
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert keys() != before
        workspace.environments.rollback("prod")
        assert keys() == before, "the files are an edit again"


def test_a_version_of_a_failed_apply_is_listed_once_it_has_a_table(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit("models/top.sql", "max(n)", "raise_error('no')")
    with open_fake(folder.root) as edited:
        plan = edited.plan("prod")
        edited.store.plans.set_status(plan.id, "failed", "a unit test failed")
        assert list(listed(folder, TOP).values()) == [("prod",)]


def test_a_development_environment_lists_its_versions_beside_productions(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit("models/top.sql", "max(n)", "min(n)")
    with open_fake(folder.root) as edited:
        edited.apply(edited.plan("dev"))
    assert sorted(listed(folder, TOP).values()) == [("dev", "working copy"), ("prod",)]
    assert list(listed(folder, BASE).values()) == [("prod", "dev", "working copy")]


def test_one_short_hash_names_a_version_everywhere_with_who_shows_it(
    folder: ProjectFolder,
    workspace: Workspace,
    instance: dg.DagsterInstance,
    capsys: pytest.CaptureFixture[str],
) -> None:
    workspace.apply(workspace.plan("prod"))
    (old,) = listed(folder, TOP)
    folder.edit("models/top.sql", "max(n)", "min(n)")
    with open_fake(folder.root) as edited:
        plan = edited.plan("dev")
        planned = next(model for model in plan.models if model.name == TOP)
        new = plan.version_of(planned)
        assert new is not None
        assert planned.table is not None
        assert f"__{new}_" in planned.table.ref.name
        page = plan_metadata(edited.store, plan)
        shown = {record.data["model"]: record.data for record in page["versions"].records}
        assert shown["db.top"] == {"model": "db.top", "from": "", "version": new}
        edited.apply(plan)
        entry = edited.store.environments.all()[0].entries[TOP]
        environment = next(e for e in edited.store.environments.all() if e.name == "dev")
        assert entry.snapshot_id[:12] != new, "the snapshot's own hash is for the state store"
        event = environment_event(told_of(edited, instance), environment)
        views = {record.data["view"]: record.data for record in event.metadata["vde/views"].records}
        assert views["db__dev.top"]["version"] == new
    assert set(listed(folder, TOP)) == {old, new}
    spec = load_catalog(folder).specs[TOP]
    assert spec.metadata["vde/version"] == new
    assert spec.metadata["vde/versions"].value.splitlines()[2:] == [
        f"| `{new}` | dev, working copy |",
        f"| `{old}` | prod |",
    ]
    assert call(["info", "--project", str(folder.root), "--json"]) == 0
    (top,) = [m for m in json.loads(capsys.readouterr().out)["models"] if m["name"] == "db.top"]
    assert top["versions"] == [
        {"version": new, "shown_by": ["dev", "working copy"]},
        {"version": old, "shown_by": ["prod"]},
    ]
    assert call(["info", "--project", str(folder.root)]) == 0
    lines = capsys.readouterr().out.splitlines()
    (line,) = [line for line in lines if new in line]
    assert "db.top" in line
    assert "dev, working copy" in line


def test_a_version_of_an_environment_says_what_changed_since_the_one_before(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("prod"))
    (old,) = listed(folder, TOP)
    folder.edit("models/top.sql", "max(n)", "min(n)")
    folder.write("models/new.sql", "MODEL (name db.new, kind VIEW); SELECT n FROM db.base")
    with open_fake(folder.root) as edited:
        edited.apply(edited.plan("prod"))
        (new,) = listed(folder, TOP)
        (added,) = listed(folder, ModelName("db", "new"))
        pages = []
        for version in (1, 2):
            environment = edited.store.versions.at("prod", version)
            assert environment is not None
            event = environment_event(told_of(edited, instance), environment)
            pages.append(str(event.metadata["vde/changes"].value))
    assert pages[0] == "All 2 models are new."
    assert pages[1].splitlines()[2:] == [
        f"| db.new | added |  | {added} |",
        f"| db.top | changed | {old} | {new} |",
    ]


def test_the_page_of_an_environment_says_what_each_version_changed(
    folder: ProjectFolder, workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.write("models/new.sql", "MODEL (name db.new, kind VIEW); SELECT n FROM db.base")
    with open_fake(folder.root) as edited:
        edited.apply(edited.plan("prod"))
        base = ModelName("db", "base")
        edited.apply(edited.plan("prod", restate=[str(base)]))
        plan = edited.store.plans.recent("prod")[0].id
        edited.environments.freeze("prod@2", "close", who="ann")
        context = told_of(edited, instance)
        pages = []
        for name, version in (("prod", 1), ("prod", 2), ("prod", 3), ("close", 1)):
            environment = edited.store.versions.at(name, version)
            assert environment is not None
            pages.append(environment_event(context, environment).metadata)
    data = [str(page["vde/data"].value) for page in pages]
    assert "| db.base | " in data[0]
    assert "new table" in data[0]
    assert data[1] == "No data changed."
    assert "new table" not in data[2]
    assert "| db.base | " in data[2]
    history = str(pages[2]["vde/history"].value).split("\n\n")[0].splitlines()[2:]
    assert [line.split(" | ")[0] for line in history] == ["| 3", "| 2", "| 1"]
    assert [line.split(" | ")[2] for line in history] == ["data", "definitions", "both"]
    assert f"partition={plan})" in history[0]
    assert len(str(pages[1]["vde/history"].value).splitlines()) == 4
    assert pages[3]["vde/frozen"].value == "prod@2"
    whose = {record.data["view"]: record.data["whose"] for record in pages[3]["vde/views"].records}
    assert whose["db__close.base"] == "held"
    description = (
        vde_definitions(folder.root).resolve_asset_graph().get(SHORT.environment_key).description
    )
    assert description is not None
    assert (
        "[prod](/assets/vde/environment?view=partitions&partition=prod): version 3" in description
    )
    assert "partition=close): frozen prod@2" in description


def test_a_model_whose_file_has_an_error_is_not_called_removed(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit("models/base.sql", "1 AS n", "1 AS m")
    broken = str(load_catalog(folder).specs[TOP].description)
    assert "**This model's file has an error:** models/top.sql:1:44: db.top: Column 'n'" in broken
    assert "Removed from the project" not in broken
    (folder.root / "models/top.sql").unlink()
    removed = str(load_catalog(folder).specs[TOP].description)
    assert "*Removed from the project; an environment still contains it.*" in removed
    assert "has an error" not in removed


def test_a_removed_model_is_described_as_production_has_it(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit("models/top.sql", "MODEL (", "MODEL (description 'Of dev', ")
    workspace.reload()
    workspace.apply(workspace.plan("zeta"))
    (folder.root / "models/top.sql").unlink()
    assert "Of dev" not in str(load_catalog(folder).specs[TOP].description)


def test_the_lineage_shows_an_environment_after_the_models_that_it_shows(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.write("models/new.sql", "MODEL (name db.new, kind FULL); SELECT 1 AS n")
    graph = vde_definitions(folder.root).resolve_asset_graph()
    assert graph.get(SHORT.environment_key).parent_keys == {
        dg.AssetKey(["db", "base"]),
        dg.AssetKey(["db", "top"]),
    }


def test_a_plan_that_only_audits_says_so_and_links_to_what_approves_it(
    folder: ProjectFolder, workspace: Workspace
) -> None:
    workspace.apply(workspace.plan("prod"))
    folder.edit("models/top.sql", "kind FULL", "kind FULL, audits (not_null(columns := (n)))")
    with open_fake(folder.root) as edited:
        plan = edited.plan("prod")
        page = plan_metadata(edited.store, plan, names=Names("sales"))
    text = " ".join(str(page["plan"].value).split())
    assert "nothing to compute, 1 to audit" in text
    assert "audits the existing rows" in text
    path = f"/assets/sales/vde/apply?view=partitions&partition={plan.id}"
    assert f"[its partition of sales/vde/apply]({path})" in text
    assert not page["versions"].records


def test_long_names_and_lines_are_shortened_to_what_a_page_has_room_for() -> None:
    assert short_name("marts.daily") == "marts.daily"
    long = short_name("a_schema_of_somebody.a_model_with_a_very_long_name")
    assert len(long) <= MAX_NAME
    assert (long[:8], long[-8:]) == ("a_schema", "ong_name")
    line = "+    " + " ".join(f"column_{number}," for number in range(30))
    parts = list(break_line(line))
    assert all(part.startswith("+") and len(part) <= MAX_LINE + 1 for part in parts)
    assert " ".join(" ".join(part[1:] for part in parts).split()) == line[1:].strip()
