"""Settings of Spark that decide what a query means are part of the versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes

MODEL = "MODEL (name m.a, kind FULL);\nSELECT id, CAST(s AS INT) AS n FROM lake.e"


def _snapshot(root: Path, config: dict[str, str]) -> Snapshot:
    (root / "models").mkdir(parents=True)
    (root / "models" / "a.sql").write_text(MODEL)
    lines = [f'"{key}" = "{value}"' for key, value in config.items()]
    (root / "pyproject.toml").write_text("\n".join(["[tool.vde.spark.config]", *lines]))
    models = load_project(root).models
    snapshots = build_snapshots(models, lambda name: [("id", "INT"), ("s", "STRING")])
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
