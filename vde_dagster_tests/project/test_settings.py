from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from vde_dagster.base.secrets import mask
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import read_settings
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.project.settings import SPARK_PACKAGES, Settings
from vde_dagster_tests.project.conftest import WriteProject


def test_a_folder_without_settings_has_defaults(write_project: WriteProject) -> None:
    root = write_project({"models/x.sql": ""})

    settings = read_settings(root)

    assert settings.name == "shop"
    assert settings.resolved_state_url == f"sqlite:///{root}/.vde/vde.db"
    assert settings.resolved_warehouse == f"{root}/.vde/warehouse"
    assert settings.spark.packages == SPARK_PACKAGES


FILE = """
[tool.vde]
name = "flights"
start = 2013-01-01
concurrency = 8
variables = { limit = 3 }

[tool.vde.spark]
master = "local[2]"
config = { "spark.x" = "y" }

[tool.vde.dagster.auto_apply]
dev = "non_breaking"
"""


@pytest.mark.parametrize("time", ["first", "from the cache"])
def test_the_file_is_read(write_project: WriteProject, time: str) -> None:
    root = write_project({"pyproject.toml": FILE})
    if time == "from the cache":
        from vde_dagster.project.loading.loader import load_project

        load_project(root)

    settings = read_settings(root)

    assert (settings.name, settings.start, settings.concurrency) == (
        "flights",
        date(2013, 1, 1),
        8,
    )
    assert settings.variables == {"limit": 3}
    assert settings.spark.master == "local[2]"
    assert expand_secrets(settings.spark.config) == {"spark.x": "y"}
    assert settings.dagster.auto_apply == {"dev": "non_breaking"}


def test_the_environment_wins(write_project: WriteProject, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write_project({"pyproject.toml": FILE})
    monkeypatch.setenv("VDE_CONCURRENCY", "2")
    monkeypatch.setenv("VDE_SPARK__MASTER", "local[1]")

    settings = read_settings(root)

    assert settings.concurrency == 2
    assert settings.spark.master == "local[1]"
    assert settings.spark.config == {"spark.x": "y"}


def test_a_table_inside_of_a_setting_is_json_in_the_environment(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project({"pyproject.toml": FILE})
    monkeypatch.setenv("VDE_SPARK__CONFIG", '{"spark.x": "z", "spark.w": "1"}')
    monkeypatch.setenv("VDE_DAGSTER__AUTO_APPLY", '{"prod": "always"}')

    settings = read_settings(root)

    assert settings.spark.config == {"spark.x": "z", "spark.w": "1"}
    assert settings.spark.master == "local[2]"
    assert settings.dagster.auto_apply == {"dev": "non_breaking", "prod": "always"}


def test_secrets_come_from_the_environment_and_are_never_shown(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
    [tool.vde]
    state_url = "postgresql://me:${DB_PASSWORD}@host/db"
    spark = { config = { "spark.secret" = "${DB_PASSWORD}" } }
    """
    root = write_project({"pyproject.toml": text})
    monkeypatch.setenv("DB_PASSWORD", "hunter2")
    monkeypatch.setenv("VDE_OWNER", "me")

    settings = read_settings(root)

    assert settings.resolved_state_url == "postgresql://me:hunter2@host/db"
    assert expand_secrets(settings.spark.config) == {"spark.secret": "hunter2"}
    assert "hunter2" not in repr(settings)
    assert "DB_PASSWORD" not in repr(settings)


def test_settings_from_the_environment_are_not_written_down(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vde_dagster.project.loading.loader import load_project

    root = write_project({"models/m.sql": "MODEL (name a.m); SELECT 1 AS a"})
    monkeypatch.setenv("VDE_STATE_URL", "postgresql://me:hunter2@host/db")

    assert load_project(root).settings.resolved_state_url.endswith("hunter2@host/db")

    for path in (root / ".vde").rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()


def test_a_missing_secret_is_named(write_project: WriteProject) -> None:
    root = write_project({"pyproject.toml": '[tool.vde]\nstate_url = "x://${NO_SUCH_SECRET}"'})

    with pytest.raises(ProjectError, match="NO_SUCH_SECRET"):
        _ = read_settings(root).resolved_state_url


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("[tool.vde]\nconcurency = 3", "2", "'concurency'", "did you mean 'concurrency'?"),
        ("[tool.vde]\nconcurrency = 'many'", "2", "'concurrency'", "correct the value"),
        ("[tool.vde]\n\nconcurrency = 0", "3", "1 or more", "increase it"),
        ("[tool.vde]\ndocs_url = 'javascript:x'", "2", "is not a valid address", "https://"),
        ("[tool.vde]\ntimezone = 'Europe/Berlin'", "2", "not supported", "UTC"),
        (
            "[tool.vde.dagster]\nschedule_tz = 'Europe/Berln'",
            "2",
            "'Europe/Berln' is not a time zone",
            "Europe/Berlin",
        ),
        ("[tool.vde]\ncron = 'often'", "2", "'often'", "@daily"),
        ("[tool.vde]\ndialect = 'sparc'", "2", "'sparc'", "did you mean 'spark'?"),
        ("[tool.vde]\nx = = 1", "2:5", "not valid TOML", "toml.io"),
        ("[tool.vde.spark]\nmater = 'x'", "2", "'spark.mater'", "did you mean 'master'?"),
        ("[tool.vde.spark]\nwarm_minutes = 0", "2", "more than 0", "warm = false"),
        ("[tool.vde]\nspark.mater = 'x'", "2", "'spark.mater'", "did you mean 'master'?"),
        (
            "[tool.vde]\npinned_environments = ['feature/x']",
            "2",
            "'feature/x' matches no",
            "feature_x",
        ),
        ("[tool.vde]\nprotected = ['feature/*']", "2", "'feature/*' matches no", "feature_x"),
        (
            "[tool.vde]\ntrino_catalog = 'a'\nview_catalogs = {trino = 'b'}",
            "3",
            "'view_catalogs.trino' differ",
            "remove one",
        ),
        ("[tool.vde]\norphan_grace_hours = -1", "2", "must be 0 or more", "0 means none"),
        (
            "[tool.vde]\nhistory_days = 999999",
            "2",
            "is 999999, more than 365000",
            "write 365000 or less",
        ),
        (
            "[tool.vde]\njanitor_grace_hours = 9000000",
            "2",
            "more than 8760000",
            "write 8760000 or less",
        ),
        ("[tool.vde]\ncatalog_options = {a = 'b'}", "2", "without 'catalog_type'", "catalog_type"),
        ("[tool.vde.rest]\nproperties = {a = 'b'}", "2", "without 'rest.uri'", "set rest.uri"),
        ("[tool.vde.rest]\noauth2_uri = 'http://x'", "2", "without 'rest.uri'", "set rest.uri"),
        ("[tool.vde.nessie]\nref = 'dev'", "1", "nessie.token have no effect", "/api/v2"),
        (
            "[tool.vde.dagster.auto_apply]\nprod = 'sometimes'",
            "2",
            "'dagster.auto_apply.prod'",
            "correct",
        ),
    ],
)
def test_a_wrong_setting_is_one_message(
    write_project: WriteProject, text: str, place: str, message: str, hint: str
) -> None:
    root = write_project({"pyproject.toml": text})

    with pytest.raises(ProjectError) as caught:
        read_settings(root)

    assert str(caught.value.location) == f"pyproject.toml:{place}"
    assert message in caught.value.message
    assert hint in (caught.value.hint or "")


def test_a_wrong_environment_variable_is_named(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDE_CONCURRENCY", "many")

    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({}))

    assert "VDE_CONCURRENCY" in (caught.value.hint or "")


def test_a_misspelled_environment_variable_is_refused(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDE_OF_ANOTHER_PROGRAM", "x")
    assert read_settings(write_project({})).concurrency == 4
    monkeypatch.setenv("VDE_WARHOUSE", "s3://lake")

    with pytest.raises(ProjectError, match="VDE_WARHOUSE sets nothing") as caught:
        read_settings(write_project({}))

    assert caught.value.hint == "did you mean VDE_WAREHOUSE?"


def test_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="does not exist"):
        read_settings(tmp_path / "nowhere")


def test_the_defaults_of_a_sqlmesh_project_are_taken_over(write_project: WriteProject) -> None:
    text = """
    gateways:
      local: {connection: {type: duckdb}}
    model_defaults:
      dialect: duckdb
      start: 2024-01-01
    variables:
      limit: 3
    """
    settings = read_settings(write_project({"config.yaml": text}))

    assert (settings.dialect, settings.start) == ("duckdb", date(2024, 1, 1))
    assert settings.variables == {"limit": 3, "gateway": "local"}


def test_all_mistakes_of_the_settings_are_told(write_project: WriteProject) -> None:
    unknown = '[tool.vde]\nconcurency = 1\n[tool.vde.spark]\nmastr = "x"\n'
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"pyproject.toml": unknown}))
    assert [one.location.line for one in caught.value.mistakes if one.location] == [2, 4]
    wrong = '[tool.vde]\nconcurrency = "many"\nfunctions = 1\nvariables = 2\n'
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"pyproject.toml": wrong}))
    assert {one.location.line for one in caught.value.mistakes if one.location} == {2, 3, 4}


def test_secrets_are_expanded_in_nested_values_and_masked_with_the_parts_of_a_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KEY", "first-part:second-part")
    given = {"credential": "${KEY}", "to": [{"url": "https://${KEY}@host"}, 3, None]}
    found = expand_secrets(given)
    url = "https://first-part:second-part@host"
    assert found == {"credential": "first-part:second-part", "to": [{"url": url}, 3, None]}
    assert mask({"told": ["second-part alone", 3]}) == {"told": ["*** alone", 3]}
    assert expand_secrets(None, "token") is None


def test_a_name_that_no_environment_can_have_gets_a_hint() -> None:
    assert Settings.environment_hint("feature_x") is None
    assert Settings.environment_hint("pr_[0-9]*", wildcards=True) is None
    for name in ("feature/x", "pr_*", "Prod", ""):
        assert str(Settings.environment_hint(name)).endswith("feature_x for the branch feature/x")


def test_a_setting_in_an_array_of_tables_has_its_line(write_project: WriteProject) -> None:
    array = "[[tool.vde.budgets.plan]]\nseconds = 1\n"
    root = write_project({"pyproject.toml": f"[tool.vde]\n{array}{array}bogus = 1\n"})
    with pytest.raises(ProjectError, match=r"unknown setting 'budgets\.plan\.1\.bogus'") as raised:
        read_settings(root)
    assert str(raised.value.location) == "pyproject.toml:6"
    assert raised.value.hint == "correct the name, or remove it"
