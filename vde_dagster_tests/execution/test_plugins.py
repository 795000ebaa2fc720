"""A distribution adds parts to every seam by its entry points; no product code knows of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import SEAMS, Seam
from vde_dagster.errors import ExecutionError, ProjectError, UsageError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.lakehouse.oracle import load
from vde_dagster_tests.projects import ProjectFolder

__all__ = ["vde"]

FIXTURES = Path(__file__).parent.parent / "fixtures"
SETTINGS = "[tool.vde]\nname = 'toys'\nstart = '2024-01-01'\nsources = ['toy']\n"
FILES = {
    "pyproject.toml": SETTINGS,
    "models/orders.sql": """
        MODEL (name raw.orders, kind DISTINCT_ROWS (copies 2), audits (no_negatives(column := id)));
        SELECT id, CAST(amount AS INT) AS amount FROM VALUES (1, 5), (1, 5), (2, 7) AS t(id, amount)
    """,
    "views.toy": "marts.large = SELECT id FROM raw.orders WHERE amount > 6\n",
}
LARGE = ModelName("marts", "large")


def install(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Put distributions on the path, as an installer would."""
    for name in names:
        monkeypatch.syspath_prepend(str(FIXTURES / f"{name}_distribution"))


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, "toy")


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


@pytest.mark.usefixtures("toy")
def test_its_parts_plan_apply_and_export_what_the_state_records(
    folder: ProjectFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pointers, exported = tmp_path / "pointers", tmp_path / "exported"
    folder.write(
        "pyproject.toml",
        f"{SETTINGS}catalog_type = 'folder'\ncatalog_options = {{ folder = '${{TOY}}' }}\n"
        "view_catalogs = { toydb = 'lake' }\n",
    )
    monkeypatch.setenv("TOY", str(pointers))
    monkeypatch.setenv("TOY_EXPORT", str(exported))
    with open_fake(folder.root) as workspace:
        assert workspace.project.models[LARGE].location.path == Path("views.toy")
        assert workspace.apply(workspace.plan("prod")).published
        assert workspace.plan("prod").is_empty
        (version,) = load(json.loads((pointers / "raw" / "orders").read_text())["location"])[
            "versions"
        ]
        written = {one["dialect"]: one["sql"] for one in version["representations"]}
        assert written["toydb"].startswith("read lake/vde__")

        first = workspace.maintenance.export("lines")
        lines = [json.loads(line) for line in exported.read_text().splitlines()]
        assert (first.records, first.last, first.forgotten) == (len(lines), lines[-1][0], 0)
        assert {kind for _, kind, _ in lines} >= {"plan", "fill", "published"}

        # It goes on where it was, also in another process; what fails comes again.
        assert workspace.maintenance.export("lines").records == 0
        folder.write("more.toy", "marts.small = SELECT id FROM raw.orders WHERE amount < 6\n")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        monkeypatch.setenv("TOY_FAILS", "1")
        with pytest.raises(ExecutionError, match=r"exporter .lines. failed at records .* is full"):
            workspace.maintenance.export("lines")
        monkeypatch.delenv("TOY_FAILS")
    with open_fake(folder.root) as workspace:
        again = workspace.maintenance.export("lines")
        numbers = [json.loads(line)[0] for line in exported.read_text().splitlines()]
        assert numbers == sorted(set(numbers))
        assert len(numbers) == first.records + again.records > first.records
        assert {record.kind for record in workspace.store.outbox.since(0, 1000)} >= {
            "plan",
            "published",
        }


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine", "toy")
def test_spark_writes_its_kind_and_reads_its_source(folder: ProjectFolder) -> None:
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        found = workspace.query("prod", "SELECT id, amount FROM raw.orders ORDER BY 1").rows
        assert [tuple(row) for row in found] == [(1, 5), (2, 7)]
        assert [tuple(r) for r in workspace.query("prod", "SELECT * FROM marts.large").rows] == [
            (2,)
        ]


def loaded(folder: ProjectFolder, path: Path, expression: str) -> str:
    """Load a project in a process of its own, and return what an expression of it is."""
    code = (
        f"import sys; sys.path.insert(0, {str(path)!r}); from pathlib import Path\n"
        "from vde_dagster.base import plugins\n"
        "from vde_dagster.project.loading.loader import load_project\n"
        f"project = load_project(Path({str(folder.root)!r})); print({expression})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert not ran.returncode, ran.stderr
    return ran.stdout.strip()


def test_a_file_is_read_again_when_a_plug_in_that_it_uses_has_changed(
    folder: ProjectFolder, tmp_path: Path
) -> None:
    toy = shutil.copytree(FIXTURES / "toy_distribution", tmp_path / "toy")
    query = "[a.query for m in project.models.values() for a in m.audits]"
    assert "id < 0" in loaded(folder, toy, query)
    rest = toy / "vde_toy" / "rest.py"
    rest.write_text(rest.read_text().replace("< 0", "<= -1"))
    assert "id <= -1" in loaded(folder, toy, query)


def test_a_macro_of_a_plug_in_is_called_in_models_and_read_again_when_its_package_changes(
    folder: ProjectFolder, tmp_path: Path
) -> None:
    toy = shutil.copytree(FIXTURES / "toy_distribution", tmp_path / "toy")
    called = "CAST(@Times(id + amount) AS INT), @TOY_VERSION()"
    folder.edit("models/orders.sql", "CAST(amount AS INT)", called)
    query = "[m.query for m in project.models.values()]"
    assert "LEAST((id + amount) * 3, 10) AS INT), '1.2'" in loaded(folder, toy, query)

    words = toy / "vde_toy" / "words.py"  # Not the module that the entry point names.
    words.write_text(words.read_text().replace("3", "44"))
    assert "LEAST((id + amount) * 44, 10)" in loaded(folder, toy, query)
    metadata = toy / "vde_toy-1.2.dist-info" / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.2", "1.3"))
    assert "AS INT), '1.3'" in loaded(folder, toy, query)


@pytest.mark.usefixtures("toy")
def test_a_macro_of_the_project_goes_before_a_plug_ins(folder: ProjectFolder) -> None:
    folder.edit("models/orders.sql", "CAST(amount AS INT)", "@TIMES(amount)")
    folder.write(
        "macros/times.py",
        """
        from vde_dagster import macro

        @macro()
        def times(evaluator, value):
            return [value, evaluator.send("toy_version")]
        """,
    )
    query = load_project(folder.root).models[ModelName("raw", "orders")].query
    assert query is not None
    assert "SELECT id, amount, '1.2' AS amount" in query


@pytest.mark.parametrize(
    ("path", "old", "new", "message", "hint"),
    [
        (
            "models/orders.sql",
            "DISTINCT_ROWS (copies 2)",
            "DISTINCT",
            "unknown kind",
            "DISTINCT_ROWS",
        ),
        ("models/orders.sql", "(copies 2)", "(copy 2)", "has no property 'copy'", "copies"),
        ("models/orders.sql", "no_negatives(", "no_negative(", "unknown audit", "no_negatives"),
        ("models/orders.sql", "CAST(amount", "@TIME(amount", "unknown macro '@TIME'", "TIMES"),
        ("pyproject.toml", "['toy']", "['json']", "no source 'json' is installed", "toy"),
        ("pyproject.toml", "start", "catalog_type = 'x'\nstart", "no catalog 'x'", "folder"),
        (
            "pyproject.toml",
            "start",
            "view_catalogs = { duck = 'a' }\nstart",
            "no dialect of views 'duck' is installed",
            "toydb",
        ),
        (
            "pyproject.toml",
            "start",
            "catalog_type = 'folder'\nrest.uri = 'http://a'\nstart",
            "'catalog_type' and 'rest.uri' select two different catalogs",
            "remove one of them",
        ),
    ],
)
@pytest.mark.usefixtures("toy")
def test_a_name_that_is_not_installed_is_a_mistake_in_its_place_that_lists_those_that_are(
    folder: ProjectFolder, path: str, old: str, new: str, message: str, hint: str
) -> None:
    folder.edit(path, old, new)
    with pytest.raises(ProjectError) as raised:
        load_project(folder.root)
    assert message in raised.value.message
    assert hint in str(raised.value.hint)
    assert raised.value.location is not None
    assert raised.value.location.path == Path(path)


@pytest.mark.usefixtures("toy")
def test_a_stored_kind_whose_distribution_is_gone_is_one_message(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    monkeypatch.undo()
    folder.write("pyproject.toml", SETTINGS.replace("['toy']", "[]"))
    folder.write("models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 1 AS id")
    with (
        open_fake(folder.root) as workspace,
        pytest.raises(VdeError, match="no kind 'DISTINCT_ROWS' is installed"),
    ):
        workspace.plan("prod")


@pytest.mark.parametrize(
    ("path", "old", "new"),
    [
        ("models/orders.sql", "DISTINCT_ROWS (copies 2)", "BROKEN"),
        ("models/orders.sql", "no_negatives(", "no_breaks("),
        ("models/orders.sql", "CAST(amount AS INT)", "@SHATTER(amount)"),
        ("pyproject.toml", "['toy']", "['toy', 'broken']"),
    ],
)
def test_a_broken_plug_in_is_told_with_its_distribution_and_hurts_only_its_users(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch, path: str, old: str, new: str
) -> None:
    install(monkeypatch, "toy", "broken")
    assert load_project(folder.root).models
    folder.edit(path, old, new)
    with pytest.raises(ProjectError) as raised:
        load_project(folder.root)
    assert "of vde-broken 0.3 cannot be imported: ModuleNotFoundError" in raised.value.message
    assert "reinstall vde-broken" in str(raised.value.hint)


@pytest.mark.usefixtures("toy")
def test_a_table_of_settings_is_read_from_file_and_environment_and_kept(
    folder: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write("pyproject.toml", f"{SETTINGS}[tool.vde.toys]\nmost = 5\n")
    for _ in range(2):  # The second time from the cache.
        settings = load_project(folder.root).settings
        assert settings.plugins == {"toys": {"most": 5, "secret": None}}
    monkeypatch.setenv("VDE_TOYS__MOST", "7")
    assert load_project(folder.root).settings.plugins["toys"]["most"] == 7
    folder.write("pyproject.toml", SETTINGS)
    assert load_project(folder.root).settings.plugins["toys"]["most"] == 7
    monkeypatch.delenv("VDE_TOYS__MOST")
    monkeypatch.setenv("VDE_TOYS", '{"most": 9}')
    assert load_project(folder.root).settings.plugins["toys"]["most"] == 9


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize(
    ("table", "message", "hint"),
    [
        ("toys.most = -1", "setting 'toys.most' has to be 0 or more", "raise it"),
        ("toys.least = 1", "unknown setting 'toys.least'", "known names: most, secret"),
        ("toy = {}", "unknown setting 'toy'", "did you mean 'toys'?"),
        ("toys.most = 'no'", "setting 'toys.most': input should be", "correct the value"),
    ],
)
def test_a_mistake_in_a_table_of_settings_is_one_of_the_project(
    folder: ProjectFolder, table: str, message: str, hint: str
) -> None:
    folder.write("pyproject.toml", f"{SETTINGS}{table}\n")
    with pytest.raises(ProjectError) as raised:
        load_project(folder.root)
    assert raised.value.message.startswith(message)
    assert hint in str(raised.value.hint)
    assert raised.value.location is not None
    assert raised.value.location.line == SETTINGS.count("\n") + 1


@pytest.mark.usefixtures("toy")
def test_a_secret_of_a_plug_in_is_in_no_message(folder: ProjectFolder) -> None:
    folder.write("pyproject.toml", f"{SETTINGS}[tool.vde.toys]\nsecret = 1234567\n")
    with pytest.raises(ProjectError) as raised:
        load_project(folder.root)
    assert "toys.secret" in raised.value.message
    assert "1234567" not in str(raised.value)


@pytest.mark.usefixtures("toy")
def test_two_catalogs_are_too_many(folder: ProjectFolder) -> None:
    uri = "http://localhost:19120/api/v2"
    folder.write(
        "pyproject.toml", f"{SETTINGS}nessie.uri = '{uri}'\nrest.uri = 'http://localhost/api'\n"
    )
    with pytest.raises(ProjectError, match=r"'rest\.uri' and 'nessie\.uri' select two"):
        load_project(folder.root)
    folder.write("pyproject.toml", f"{SETTINGS}nessie = {{ uri = '{uri}', token = 'x' }}\n")
    settings = load_project(folder.root).settings
    assert settings.catalog_type == "nessie"
    assert settings.plugins["nessie"] == {"uri": uri, "ref": "main", "token": "x"}


def test_two_distributions_with_one_name_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        info = tmp_path / f"vde_{name}-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vde-{name}\nVersion: 1\n")
        (info / "entry_points.txt").write_text("[vde_dagster.exporters]\nlines = json:dumps\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(
        UsageError, match="two distributions have the exporter 'lines': vde-one and"
    ):
        Seam("exporters").find("lines")


def test_info_lists_every_plug_in_and_why_one_is_broken(
    folder: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "toy", "broken")
    found = vde("info", "--project", folder.root, "--json").json["plugins"]
    by_name = {(one["seam"], one["name"]): one for one in found}
    toys = {one["seam"] for one in found if one["distribution"] == "vde-toy"}
    single = {"publishers", "model_files"}
    single |= {
        "assets",
        "attachments",
        "gates",
        "keepers",
        "sensors",
        "sinks",
        "state_tables",
        "workflows",
    }
    assert toys == set(SEAMS) - single
    assert by_name["exporters", "lines"] == {
        "seam": "exporters",
        "name": "lines",
        "distribution": "vde-toy",
        "version": "1.2",
        "error": None,
    }
    assert "No module named 'vde_broken'" in by_name["kinds", "BROKEN"]["error"]
    assert "an unknown extension point (seam)" in by_name["no_such_seam", "anything"]["error"]
    own = [one for one in found if one["distribution"] == "vde-dagster"]
    assert not [one["error"] for one in own if one["error"]]
    every = vde("info", "--project", folder.root, "--plugins").out
    assert "vde-toy" in every
    assert "vde-broken" in every
    broken_ones = vde("info", "--project", folder.root).out
    assert "vde-toy" not in broken_ones
    assert "vde-broken" in broken_ones


def test_info_of_a_sound_installation_ends_with_its_environments(
    folder: ProjectFolder, vde: Vde
) -> None:
    folder.write("pyproject.toml", "")
    folder.write("models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 1 AS id")
    lines = [one.strip() for one in vde("info", "--project", folder.root).out.splitlines()]
    words = [line.split()[0] for line in lines if line and line[0].isalpha()]
    assert words == ["model", "raw.orders", "models", "project", "catalog", "warehouse", "state"]


def test_a_project_that_uses_none_looks_for_none(folder: ProjectFolder) -> None:
    """Neither what is installed nor a plug-in is looked at by a warm load of a project."""
    folder.write("pyproject.toml", SETTINGS.replace("['toy']", "[]"))
    folder.write("models/orders.sql", "MODEL (name raw.orders, kind FULL); SELECT 1 AS id")
    for _ in range(2):
        looked = loaded(folder, FIXTURES, "plugins._read_installed_plugins.cache_info().misses")
    assert looked == "0"


def test_a_command_of_a_distribution_is_one_of_vde(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from vde_dagster.cli.app import call

    assert call(["greet", "toys"]) == 2, "without the distribution there is none"
    assert "No such command 'greet'" in capsys.readouterr().err
    install(monkeypatch, "toy")
    assert call(["greet", "toys", "--loud"]) == 0
    assert capsys.readouterr().out == "hello TOYS\n"
    assert call(["greet"]) == 2
    assert call(["--help"]) == 0
    assert "greet" in capsys.readouterr().out
