"""Tables in Dagster's metadata fit into 600 pixels, however long names and values are."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import patch
from urllib.parse import quote

import dagster as dg
import pytest
from playwright.sync_api import expect

from vde_dagster.errors import VdeError
from vde_dagster.execution.query.query import QueryResult
from vde_dagster.orchestration.events.consumer import forward_outbox
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import SHORT
from vde_dagster.orchestration.pages.janitor_page import janitor_event, janitor_metadata
from vde_dagster.plugins.cost.page import cost_metadata
from vde_dagster.plugins.metrics.assets import _compute_metadata
from vde_dagster.reports.markdown import MAX_WIDTH, markdown_table, plain_table, table_width
from vde_dagster_tests.cost.test_cost import PRICES
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.orchestration.browser import SECONDS, keep
from vde_dagster_tests.orchestration.conftest import load_catalog
from vde_dagster_tests.orchestration.servers import open_home, running_dagster
from vde_dagster_tests.projects import ProjectFolder

if TYPE_CHECKING:
    from playwright.sync_api import Page

PACKAGE = Path(__file__).parents[2] / "vde_dagster"
SPACE = "warehouse_of_all_regions_and_countries"
WIDE = "orders_with_every_attribute_of_their_customers"
COLUMNS = [f"attribute_number_{number:02d}_of_the_customer_of_an_order" for number in range(12)]
FILES = {
    "pyproject.toml": PRICES,
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
ENVIRONMENT = "the_development_of_all_reports_of_the_finance_department"
ASSETS = ("vde/plan", "vde/environment", "vde/janitor", "vde/cost", "metric/saved")
LEAST_WIDTHS = """
() => [...document.querySelectorAll("table table")].map(found => {
  found.style.width = "min-content";
  return [found.getBoundingClientRect().width, found.innerText.slice(0, 200)];
})
"""


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


def record_everything(folder: ProjectFolder, instance: dg.DagsterInstance) -> None:
    """Plan, publish, fail, roll back and clean up, and record the events of all assets."""
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    folder.edit("models/wide.sql", f"'x' AS {COLUMNS[1]}", f"'y' AS {COLUMNS[1]}")
    failing = FakeSpark([f"{SPACE}.{WIDE}"])
    with open_fake(folder.root, failing) as workspace, pytest.raises(VdeError):
        workspace.apply(workspace.plan("dev"))
    with open_fake(folder.root) as workspace:
        workspace.plan("prod", author="someone")
        workspace.apply(workspace.plan(ENVIRONMENT))
        workspace.apply(workspace.plan("prod"))
        workspace.environments.rollback("prod", 1)
        cost = dg.AssetMaterialization(["vde", "cost"], metadata=cost_metadata(workspace, SHORT))
        cleanup = janitor_metadata(workspace.maintenance.janitor(dry_run=True))
        workspace.plan("prod", author="someone")
    looks, log = VdeTranslator(folder.root), logging.getLogger("vde")
    assert isinstance(forward_outbox(folder.root, instance, None, looks, log), str)
    instance.report_runless_asset_event(cost)
    instance.report_runless_asset_event(janitor_event(cleanup, SHORT, dry_run=False))
    saved = dg.AssetMaterialization(["metric", "saved"], metadata=saved_query_metadata())
    instance.report_runless_asset_event(saved)


def saved_query_metadata() -> Mapping[str, Any]:
    """Return the metadata of a saved query of metrics with many columns."""
    columns = tuple((name, "STRING") for name in COLUMNS)
    found = QueryResult(columns, (("x" * 40,) * len(columns),) * 3, "", 1)
    fake: Any = SimpleNamespace(query=lambda *_: found)
    layer = SimpleNamespace(metrics={}, sql=lambda question: "SELECT")
    with patch("vde_dagster.plugins.metrics.kept.semantic_layer", lambda *_: layer):
        ((_, metadata),) = _compute_metadata(fake, ["saved"], "prod")
    return metadata


def test_every_table_that_dagster_shows_fits(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    record_everything(folder, instance)
    found: dict[str, list[Table]] = {
        "asset": [one for s in load_catalog(folder).specs.values() for one in tables_of(s.metadata)]
    }
    for name, metadata in metadata_of(instance):
        found.setdefault(name, []).extend(tables_of(metadata))
    pages = {name for name, tables in found.items() if tables}
    assert pages >= {"asset", *ASSETS}
    wide = [
        (name, table_width(columns, rows), columns)
        for name, tables in found.items()
        for columns, rows in tables
        if table_width(columns, rows) > MAX_WIDTH
    ]
    assert wide == []


@pytest.mark.turns(12, "plays and tours")
@pytest.mark.server
@pytest.mark.dagster
def test_no_table_on_dagsters_pages_needs_more_than_600_pixels(tmp_path: Path, page: Page) -> None:
    """The width of a table is the least at which the browser draws it."""
    folder = ProjectFolder(tmp_path / "project", FILES)
    module = "vde_dagster_tests.orchestration.slow_location"
    with running_dagster(folder.root, tmp_path / "home", module=module, daemons=0) as dagster:
        with open_home(dagster.home) as instance:
            record_everything(folder, instance)
            parts = {name: partition_of(instance, name) for name in ASSETS}
        dagster.reload()
        for name, partition in parts.items():
            view = f"partitions&partition={quote(partition)}" if partition else "events"
            page.goto(f"{dagster.url}/assets/{name}?view={view}")
            expect(page.locator("table table").first).to_be_visible(timeout=SECONDS)
            keep(page, f"widths-{name.replace('/', '-')}")
            widths = page.evaluate(LEAST_WIDTHS)
            assert widths, name
            assert [text for width, text in widths if width > 600] == [], name
        page.goto(f"{dagster.url}/assets/{SPACE}/{WIDE}")
        expect(page.locator("table table").first).to_be_visible(timeout=SECONDS)
        assert [text for width, text in page.evaluate(LEAST_WIDTHS) if width > 600] == []


def partition_of(instance: dg.DagsterInstance, name: str) -> str:
    """Return the partition of an asset whose latest event has the widest table."""
    widest = {"": -1}
    for record in instance.fetch_materializations(dg.AssetKey(name.split("/")), limit=99).records:
        event = record.asset_materialization
        assert event is not None
        width = sum(table_width(*table) for table in tables_of(event.metadata))
        widest.setdefault(event.partition or "", width)
    return max(widest, key=lambda partition: widest[partition])


def test_columns_beyond_the_width_are_listed_below_the_table() -> None:
    rows = [dict.fromkeys(COLUMNS, "a_value_without_spaces_" * 3)]
    table, further = markdown_table(rows).split("\n\n")
    (columns, cells) = next(tables_of({"": dg.MetadataValue.md(table)}))
    assert table_width(columns, cells) <= MAX_WIDTH
    assert further == f"Further columns: {', '.join(COLUMNS[len(columns) :])}"


def test_empty_columns_are_left_out_only_where_room_is_short() -> None:
    columns, row = ["name", "note", "by"], ["orders", "", "x" * 60]
    assert plain_table(columns, [row], narrow=True).startswith("| name | by |\n")
    assert plain_table(columns, [[*row[:2], "me"]], narrow=True).startswith("| name | note | by |")


def test_short_words_and_links_stay_whole() -> None:
    link = "[plan](/assets/vde/plan?view=partitions&partition=prod-29Nov-orders-k3x9ab)"
    cells = ["a text of many short words " * 9, link, "x" * 90]
    assert plain_table(["a", "b", "c"], [[*cells[:2], "y"]], narrow=True).count("…") == 0
    text = plain_table(["a", "b", "c"], [cells], narrow=True)
    assert link in text
    assert cells[0].strip() in text
    assert cells[2] not in text


def test_labels_of_links_are_cut_and_their_targets_are_not() -> None:
    link = f"[{ENVIRONMENT}](/assets/vde/environment?view=partitions&partition={ENVIRONMENT})"
    text = plain_table(["name", "of"], [[link, "x" * 80]], narrow=True)
    assert f"](/assets/vde/environment?view=partitions&partition={ENVIRONMENT})" in text
    (columns, rows) = next(tables_of({"": dg.MetadataValue.md(text)}))
    assert table_width(columns, rows) <= MAX_WIDTH


def test_pages_of_the_package_and_its_plug_ins_format_only_narrow_tables() -> None:
    calls = {
        path.name: re.findall(r"\bplain_table\((?:[^()]|\([^()]*\))*\)", path.read_text())
        for folder in ("orchestration", "plugins/cost", "plugins/metrics")
        for path in (PACKAGE / folder).rglob("*.py")
    }
    assert [
        call for several in calls.values() for call in several if "narrow=True" not in call
    ] == []
    assert calls["page.py"], "the search finds calls"
