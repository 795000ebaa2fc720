"""Spark's configuration, Java's version and small texts, without Spark."""

from __future__ import annotations

import re
import stat
from pathlib import Path

import pytest

from vde_dagster.base.names import string_literal
from vde_dagster.errors import StoreError, UsageError
from vde_dagster.lakehouse.catalogs.by_settings import jdbc_options
from vde_dagster.project.loading.loader import read_settings
from vde_dagster.spark.jvm.java import check_java, major_version
from vde_dagster.spark.session import session
from vde_dagster.spark.session.settings import (
    SessionSettings,
    catalog_config,
    command_line_config,
    context_config,
    packages,
    session_config,
)
from vde_dagster.spark.session.warm import configuration_digest
from vde_dagster.spark.tables.columns import rename_columns


def settings(url: str = "sqlite:////data/vde.db", **changes: object) -> SessionSettings:
    values: dict[str, object] = {"catalog": "lake", "state_url": url, "warehouse": "s3://b/w"}
    return SessionSettings(**{**values, **changes})  # type: ignore[arg-type]


def test_sqlite_waits_for_other_writers() -> None:
    assert jdbc_options("sqlite:////data/vde.db") == {
        "uri": "jdbc:sqlite:/data/vde.db?busy_timeout=30000&journal_mode=WAL"
    }


@pytest.mark.parametrize(
    ("asked", "limits"),
    [
        ("", "tcpKeepAlive=true&connectTimeout=10&socketTimeout=30"),
        (
            "&keepalives=0&connect_timeout=3",
            "tcpKeepAlive=false&connectTimeout=3&socketTimeout=30",
        ),
    ],
)
def test_postgresql_gets_user_and_password_as_options_and_the_limits_of_our_own_connections(
    asked: str, limits: str
) -> None:
    url = f"postgresql+psycopg://anna:s%40cret@db.example:5433/vde?sslmode=require{asked}"
    assert jdbc_options(url) == {
        "uri": f"jdbc:postgresql://db.example:5433/vde?sslmode=require&{limits}",
        "jdbc.user": "anna",
        "jdbc.password": "s@cret",
    }


@pytest.mark.parametrize(
    "url", ["mysql://h/d", "sqlite://", "sqlite:///:memory:", "postgresql:///d?host=/run/pg"]
)
def test_databases_that_spark_cannot_reach_are_refused(url: str) -> None:
    with pytest.raises(UsageError):
        jdbc_options(url)


def test_the_driver_follows_the_database_and_users_versions_win() -> None:
    assert any("sqlite-jdbc" in p for p in packages(settings()))
    chosen = packages(
        settings("postgresql://h/d", packages=("org.postgresql:postgresql:1", "a:b:1"))
    )
    assert not any("sqlite" in p for p in chosen)
    assert chosen[1:] == ("org.postgresql:postgresql:1", "a:b:1")


def test_an_empty_setting_downloads_no_packages(tmp_path: Path) -> None:
    project = tmp_path / "pyproject.toml"
    project.write_text("[tool.vde]\nspark.packages = []\n")
    config = context_config(SessionSettings.from_settings(read_settings(tmp_path)))
    assert "spark.jars.packages" not in config
    project.write_text("[tool.vde]\nspark.packages = ['a:b:1']\n")
    config = context_config(SessionSettings.from_settings(read_settings(tmp_path)))
    assert config["spark.jars.packages"].endswith(",a:b:1")


def test_another_setting_of_the_background_spark_starts_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VDE_SPARK__WARM", "VDE_SPARK__WARM_UP"):
        monkeypatch.delenv(name)

    def digest(line: str) -> str:
        (tmp_path / "pyproject.toml").write_text(f"[tool.vde.spark]\n{line}\n")
        return configuration_digest(SessionSettings.from_settings(read_settings(tmp_path)))

    lines = ("", "warm_minutes = 5", "warm_up = false")
    assert len(set(map(digest, lines))) == len(lines)
    assert digest("warm = false") == digest(""), "an engine started by hand is joined"


def test_the_catalog_is_never_cached_and_has_views() -> None:
    config = catalog_config(settings())
    assert config["spark.sql.catalog.lake.cache-enabled"] == "false"
    assert config["spark.sql.catalog.lake.jdbc.schema-version"] == "V1"
    assert config["spark.sql.defaultCatalog"] == "lake"


def test_users_configuration_wins_and_secrets_stay_off_the_command_line() -> None:
    config = context_config(
        settings(
            "postgresql://u:hunter2@h/d",
            config={
                "spark.driver.memory": "9g",
                "spark.hadoop.fs.s3a.secret.key": "hunter3",
                "spark.ssl.keyPassword": "hunter4",
                "spark.authenticate.secret": "hunter5",
                "spark.kubernetes.authenticate.oauthToken": "hunter6",
            },
        )
    )
    assert config["spark.driver.memory"] == "9g"
    assert config["spark.scheduler.mode"] == "FAIR"
    visible = command_line_config(config)
    assert "spark.jars.packages" in visible
    assert "hunter" not in str(visible)
    assert "hunter" not in repr(settings("postgresql://u:hunter2@h/d", config={"k": "hunter3"}))


def test_local_spark_has_half_of_the_memory_that_machine_or_container_gives(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pages = {"SC_PHYS_PAGES": (24 << 30) // 4096, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr("os.sysconf", pages.__getitem__)
    limit = tmp_path / "memory.max"
    monkeypatch.setattr("vde_dagster.base.workers._MEMORY_LIMITS", (limit,))
    assert context_config(settings())["spark.driver.memory"] == f"{12 << 10}m"
    limit.write_text("max\n")
    assert context_config(settings())["spark.driver.memory"] == f"{12 << 10}m"
    limit.write_text(f"{8 << 30}\n")
    assert context_config(settings())["spark.driver.memory"] == f"{4 << 10}m"
    limit.write_text(f"{1 << 30}\n")
    assert context_config(settings())["spark.driver.memory"] == f"{2 << 10}m"


@pytest.mark.parametrize("master", ["spark://one:7077", "yarn", "sc://spark.example"])
def test_how_a_cluster_cuts_its_work_and_its_memory_are_not_set(master: str) -> None:
    config = context_config(settings(master=master)) | session_config(settings(master=master))
    assert not [key for key in config if "memory" in key or "shuffle" in key or "adaptive" in key]


def test_shuffles_are_sparks_own_in_local_mode_too() -> None:
    config = context_config(settings()) | session_config(settings())
    assert config["spark.master"].startswith("local")
    assert not [key for key in config if "shuffle" in key or "adaptive" in key]


def test_how_much_memory_spark_takes_is_said_when_it_starts(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def absent(_: SessionSettings) -> None:
        raise StoreError("no Java here")

    monkeypatch.setattr(session, "require_spark", absent)
    chosen = settings()
    with caplog.at_level("INFO"), pytest.raises(StoreError, match="no Java here"):
        session._launch(chosen)
    memory = context_config(chosen)["spark.driver.memory"]
    assert re.fullmatch(rf"starting Spark \(local.*\) with {memory} …", caplog.messages[0])


def test_the_jar_cache_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VDE_JAR_CACHE", str(tmp_path))
    assert context_config(settings())["spark.jars.ivy"] == str(tmp_path)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("17.0.15", 17), ("1.8.0_412", 8), ("21", 21), ("25-ea", 25), ("nothing", None)],
)
def test_java_versions_of_all_ages(text: str, expected: int | None) -> None:
    assert major_version(text) == expected


def fake_java(home: Path, version: str, *, release: bool) -> None:
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(java.stat().st_mode | stat.S_IXUSR)
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')


@pytest.mark.parametrize("release", [True, False])
def test_an_old_java_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    fake_java(tmp_path, "11.0.2", release=release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StoreError, match=r"Java 11.*Hint: install Java 17"):
        check_java()


@pytest.mark.parametrize("release", [True, False])
def test_a_new_java_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: bool
) -> None:
    fake_java(tmp_path, "21.0.2", release=release)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert check_java() == 21


def test_a_missing_java_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreError, match="PATH has no java"):
        check_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(StoreError, match="which has no bin/java"):
        check_java()


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("days(ts)", "days(`ts_7f`)"),
        ("bucket(16, ID)", "bucket(16, `key`)"),
        ("`id` DESC NULLS LAST", "`key` DESC NULLS LAST"),
        ("truncate(4, info.id)", "truncate(4, info.id)"),
        ("id(ts)", "id(`ts_7f`)"),
        ("concat('id', ts)", "concat('id', `ts_7f`)"),
    ],
)
def test_layouts_are_written_in_physical_names(expression: str, expected: str) -> None:
    assert rename_columns(expression, {"ts": "ts_7f", "id": "key"}) == expected


def test_texts_cannot_leave_their_quotes() -> None:
    assert string_literal("it's \\ 1\n2") == r"'it\'s \\ 1\n2'"
