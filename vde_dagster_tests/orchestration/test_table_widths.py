"""Tables in Dagster's metadata fit into 600 pixels, however long names and values are."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from vde_dagster.errors import VdeError
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.pages.janitor_page import janitor_metadata
from vde_dagster.reports.markdown import MAX_WIDTH, markdown_table, narrow_table, table_width
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.projects import ProjectFolder

PAGES = Path(__file__).parents[2] / "vde_dagster" / "orchestration"
SPACE = "warehouse_of_all_regions_and_countries"
WIDE = "orders_with_every_attribute_of_their_customers"
COLUMNS = [f"attribute_number_{number:02d}_of_the_customer_of_an_order" for number in range(12)]
FILES = {
    "models/wide.sql": f"""
        MODEL (name {SPACE}.{WIDE}, start '2024-01-01', end '2024-01-03', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day),
          audits (not_null(columns := ({COLUMNS[0]})), unique_values(columns := ({COLUMNS[1]}))));
        SELECT CAST('2024-01-01' AS DATE) AS day, {", ".join(f"'x' AS {c}" for c in COLUMNS)}
    """,
    "models/read.sql": f"""
        MODEL (name {SPACE}.{WIDE}_read_again_for_all_reports, kind FULL);
        SELECT {", ".join(f"max({c}) AS {c}" for c in COLUMNS)} FROM {SPACE}.{WIDE}
    """,
}
Table = tuple[list[str], list[list[str]]]


def tables_of(metadata: Mapping[str, Any]) -> Iterator[Table]:
    """Yield the tables of an event or an asset."""
    for value in metadata.values():
        if isinstance(value, dg.TableMetadataValue):
            names = [column.name for column in value.schema.columns]
            yield names, [[str(record.data[name]) for name in names] for record in value.records]
        if isinstance(value, dg.MarkdownMetadataValue):
            for block in re.findall(r"(?:^\|.*\n?)+", value.md_str or "", re.MULTILINE):
                lines = [re.split(r" ?(?<!\\)\| ?", line)[1:-1] for line in block.splitlines()]
                yield lines[0], lines[2:]


def metadata_of(instance: dg.DagsterInstance) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the metadata of all events, each with its asset."""
    for key in instance.all_asset_keys():
        name = key.to_user_string()
        for record in instance.fetch_materializations(key, limit=999).records:
            assert record.asset_materialization is not None
            yield name, record.asset_materialization.metadata
        for record in instance.fetch_observations(key, limit=999).records:
            assert record.asset_observation is not None
            yield name, record.asset_observation.metadata


def test_every_table_that_dagster_shows_fits(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/wide.sql", f"'x' AS {COLUMNS[1]}", f"'y' AS {COLUMNS[1]}")
    failing = FakeSpark([f"{SPACE}.{WIDE}"])
    with open_fake(folder.root, failing) as workspace, pytest.raises(VdeError):
        workspace.apply(workspace.plan("dev"))
    with open_fake(folder.root) as workspace:
        workspace.plan("prod", author="someone")
        workspace.apply(workspace.plan("the_development_of_all_reports_of_the_finance_department"))
        workspace.apply(workspace.plan("prod"))
        workspace.environments.rollback("prod", 1)
        workspace.environments.drop("the_development_of_all_reports_of_the_finance_department")
        shown = {"janitor": [janitor_metadata(workspace.maintenance.janitor(dry_run=True))]}
        workspace.plan("prod", author="someone")
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    assert isinstance(forward_outbox(folder.root, instance, None, looks, log), str)
    specs = load_catalog(folder).specs.values()
    shown["asset"] = [spec.metadata for spec in specs]
    for name, metadata in metadata_of(instance):
        shown.setdefault(name, []).append(metadata)
    found = {
        name: [table for metadata in several for table in tables_of(metadata)]
        for name, several in shown.items()
    }
    pages = {name for name, tables in found.items() if tables}
    assert pages >= {"janitor", "asset", "vde/plan", "vde/environment"}
    wide = [
        (name, table_width(columns, rows), columns)
        for name, tables in found.items()
        for columns, rows in tables
        if table_width(columns, rows) > MAX_WIDTH
    ]
    assert wide == []


def test_columns_beyond_the_width_are_listed_below_the_table() -> None:
    rows = [dict.fromkeys(COLUMNS, "a_value_without_spaces_" * 3)]
    table, further = markdown_table(rows).split("\n\n")
    (columns, cells) = next(tables_of({"": dg.MetadataValue.md(table)}))
    assert table_width(columns, cells) <= MAX_WIDTH
    assert further == f"Further columns: {', '.join(COLUMNS[len(columns) :])}"


def test_short_words_and_links_stay_whole() -> None:
    link = "[plan](/assets/vde/plan?view=partitions&partition=prod-29Nov-orders-k3x9ab)"
    cells = ["a text of many short words " * 9, link, "x" * 90]
    assert narrow_table(["a", "b", "c"], [[*cells[:2], "y"]]).count("…") == 0
    text = narrow_table(["a", "b", "c"], [cells])
    assert link in text
    assert cells[0].strip() in text
    assert cells[2] not in text


def test_pages_format_their_tables_only_by_narrow_ones() -> None:
    wide = [path.name for path in PAGES.rglob("*.py") if "plain_table" in path.read_text()]
    assert wide == []
