"""Settings of Spark that decide what a query means are part of the versions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster.spark.session.settings import SessionSettings, session_config
from vde_dagster.sql.spark_settings import ASSUMED

MODEL = "MODEL (name m.a, kind FULL);\nSELECT id, CAST(s AS INT) AS n FROM lake.e"


def _snapshot(root: Path, config: dict[str, str], model: str = MODEL) -> Snapshot:
    (root / "models").mkdir(parents=True)
    (root / "models" / "a.sql").write_text(model)
    lines = [f'"{key}" = "{value}"' for key, value in config.items()]
    (root / "pyproject.toml").write_text("\n".join(["[tool.vde.spark.config]", *lines]))
    models = load_project(root).models
    snapshots = build_snapshots(
        models, lambda name: [("id", "INT"), ("s", "STRING"), ("t", "TIMESTAMP")]
    )
    return next(found for name, found in snapshots.items() if name.name == "a")


@pytest.mark.parametrize(
    "config",
    [
        {"spark.sql.ansi.enabled": "false"},
        {"spark.sql.session.timeZone": "America/New_York"},
        {"spark.sql.caseSensitive": "true"},
        {"spark.sql.legacy.timeParserPolicy": "LEGACY"},
        {"spark.sql.parser.escapedStringLiterals": "true"},
    ],
)
def test_a_setting_that_changes_answers_changes_every_version(
    tmp_path: Path, config: dict[str, str]
) -> None:
    before = _snapshot(tmp_path / "before", {})
    after = _snapshot(tmp_path / "after", config)

    assert after.version.rows != before.version.rows
    assert after.fill_version != before.fill_version
    changed = [column.version for column in after.columns]
    assert not set(changed) & {column.version for column in before.columns}
    assert list(after.version.columns.values()) == changed
    again = from_bytes(Model, to_bytes(after.model))
    assert again.session == tuple(config.items())


@pytest.mark.parametrize(
    "config",
    [
        {"spark.sql.shuffle.partitions": "3"},
        {"spark.sql.adaptive.enabled": "false"},
        {"spark.driver.memory": "3g"},
        {"spark.sql.catalog.other": "org.apache.iceberg.spark.SparkCatalog"},
    ],
)
def test_a_setting_of_how_work_is_done_changes_none(tmp_path: Path, config: dict[str, str]) -> None:
    before = _snapshot(tmp_path / "before", {})
    after = _snapshot(tmp_path / "after", config)

    assert (after.version, after.fill_version) == (before.version, before.fill_version)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.timestampType", "TIMESTAMP_NTZ"),
        ("spark.sql.caseSensitive", "true"),
        ("spark.sql.ansi.relationPrecedence", "true"),
        ("spark.sql.ansi.enforceReservedKeywords", "true"),
        ("spark.sql.parser.quotedRegexColumnNames", "true"),
        ("spark.sql.legacy.setopsPrecedence.enabled", "true"),
        ("spark.sql.decimalOperations.allowPrecisionLoss", "false"),
        ("spark.sql.groupByOrdinal", "false"),
        ("spark.sql.a.setting.of.tomorrow", "1"),
    ],
)
def test_a_setting_outside_the_assumed_ones_makes_queries_opaque(
    tmp_path: Path, key: str, value: str
) -> None:
    query = "MODEL (name m.a, kind FULL);\n{before}SELECT id, CAST(t AS TIMESTAMP) AS n FROM lake.e"
    harmless = query.replace("CAST(t AS TIMESTAMP)", "t")
    for name, config, before in (
        ("settings", {key: value}, ""),
        ("statement", {}, f"SET {key} = {value};\n"),
        ("quoted", {}, f"set `{key}`=`{value}`;\n"),
    ):
        one = _snapshot(tmp_path / name / "one", config, query.format(before=before))
        two = _snapshot(tmp_path / name / "two", config, harmless.format(before=before))

        assert one.version.opaque == f"{key} = {value}", name
        assert one.version.rows != two.version.rows, name


@pytest.mark.parametrize(
    "before",
    [
        "RESET;",
        "CREATE OR REPLACE TEMPORARY FUNCTION upper AS 'a.B';",
    ],
)
def test_statements_that_may_change_the_language_make_a_query_opaque(
    tmp_path: Path, before: str
) -> None:
    made = _snapshot(tmp_path, {}, MODEL.replace("SELECT", f"{before}\nSELECT"))

    assert made.version.opaque is not None


@pytest.mark.parametrize(
    "before",
    [
        "SET spark.sql.ansi.enabled = false;",
        "SET TIME ZONE 'America/New_York';",
        "SET spark.sql.session.timeZone = Asia/Tokyo;",
        "SET spark.sql.caseSensitive = false;",
        "SET spark.sql.shuffle.partitions = 3;",
        "SET spark.sql.caseSensitive;",
        "DECLARE VARIABLE x INT;",
        "SET VAR x = 1;",
    ],
)
def test_statements_that_break_no_rule_leave_a_query_understood(
    tmp_path: Path, before: str
) -> None:
    made = _snapshot(tmp_path, {}, MODEL.replace("SELECT", f"{before}\nSELECT"))

    assert made.version.opaque is None


def test_a_harmless_cast_is_none_where_the_type_is_known(tmp_path: Path) -> None:
    """Without settings of its own a project has Spark's TIMESTAMP, which its sessions are given."""
    query = "MODEL (name m.a, kind FULL);\nSELECT id, CAST(t AS TIMESTAMP) AS n FROM lake.e"
    one = _snapshot(tmp_path / "one", {}, query)
    two = _snapshot(tmp_path / "two", {}, query.replace("CAST(t AS TIMESTAMP)", "t"))

    assert one.version == two.version


def test_sessions_set_what_versions_assume_unless_the_project_says_otherwise() -> None:
    key = "spark.sql.ansi.enabled"
    settings = SessionSettings("lake", "sqlite:////data/vde.db", "/data")
    usual = session_config(settings)
    own = session_config(replace(settings, config={key: "false"}))

    assert ASSUMED.items() <= usual.items()
    assert usual["spark.sql.variable.substitute"] == "false"
    assert own[key] == "false"
