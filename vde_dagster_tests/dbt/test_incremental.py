"""Strategies of incremental models by adapter, and when dbt's nodes are due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.nodes.incremental import (
    Filling,
    added_conditions,
    find_strategy,
    incremental_filling,
)
from vde_dagster.plugins.dbt.nodes.when import read_schedule
from vde_dagster.plugins.dbt.relations import filter_by_batch
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, IncrementalByUniqueKey
from vde_dagster.project.settings import Settings
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.trees import placeholder
from vde_dagster_tests.dbt.conftest import MANIFEST, DbtCopy

_PLACE = SourceLocation(Path("models/m.sql"), 1)
_DIALECTS = {"sqlserver": "tsql", "databricks": "spark"}


def _node(**config: Any) -> Node:
    return Node(
        "model.shop.m",
        "model",
        "shop",
        "models/m.sql",
        "m",
        schema="main",
        raw_code="select 1 as k",
        compiled_code="select 1 as k",
        config={"materialized": "incremental", **config},
    )


def _filling(adapter: str, later: str | None = "select 2 as k", **config: Any) -> Filling:
    dialect = _DIALECTS.get(adapter, adapter)
    return incremental_filling(_node(**config), later, adapter, dialect, _PLACE)


@pytest.mark.parametrize(
    ("adapter", "config", "strategy"),
    [
        ("duckdb", {}, "delete+insert"),
        ("postgres", {"incremental_strategy": "default"}, "delete+insert"),
        ("redshift", {}, "append"),
        ("snowflake", {}, "merge"),
        ("bigquery", {}, "merge"),
        ("databricks", {}, "merge"),
        ("sqlserver", {}, "merge"),
        ("fabric", {}, "merge"),
        ("spark", {}, "append"),
        ("trino", {}, "append"),
        ("athena", {}, "append"),
        ("athena", {"partitioned_by": ["day"]}, "insert_overwrite"),
        ("clickhouse", {}, "delete+insert"),
        ("clickhouse", {"incremental_strategy": "delete_insert"}, "delete+insert"),
        ("clickhouse", {"inserts_only": True}, "append"),
        ("trino", {"incremental_strategy": "merge"}, "merge"),
    ],
)
def test_a_model_without_a_strategy_has_the_default_of_its_adapter(
    adapter: str, config: dict[str, Any], strategy: str
) -> None:
    assert find_strategy(_node(unique_key="k", **config), adapter) == strategy


def test_a_unique_key_appends_where_the_adapter_does() -> None:
    """dbt-trino and dbt-athena ignore the key without a strategy."""
    assert _filling("trino", unique_key="k").kind.name == "INCREMENTAL_UNMANAGED"
    assert _filling("athena", unique_key="k").kind.name == "INCREMENTAL_UNMANAGED"


@pytest.mark.parametrize(
    ("adapter", "config", "strategy", "nulls"),
    [
        ("duckdb", {}, "delete+insert", False),
        ("snowflake", {}, "merge", False),
        ("databricks", {}, "merge", False),
        ("databricks", {"incremental_strategy": "delete+insert"}, "delete+insert", True),
    ],
)
def test_keys_are_written_as_the_strategy_does(
    adapter: str, config: dict[str, Any], strategy: str, nulls: bool
) -> None:
    kind = _filling(adapter, unique_key=["k", "day"], **config).kind

    assert isinstance(kind, IncrementalByUniqueKey)
    assert (kind.unique_key, kind.strategy, kind.nulls_match) == (("k", "day"), strategy, nulls)


@pytest.mark.parametrize("name", ["merge_update_condition", "merge_clauses", "matched_condition"])
def test_configuration_by_which_a_merge_writes_other_rows_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name}, which changes the rows that a merge writes"):
        _filling("snowflake", unique_key="k", **{name: "x > 1"})


def test_partitions_that_are_replaced_without_new_rows_are_refused() -> None:
    with pytest.raises(
        ValueError, match="partitions is not supported, as it also replaces partitions"
    ):
        _filling("bigquery", incremental_strategy="insert_overwrite", partitions=["'2024-01-01'"])


def test_predicates_of_delete_insert_are_about_the_rows_that_are_deleted() -> None:
    kind = _filling("duckdb", unique_key="k", incremental_predicates=["v < 6"]).kind
    other = _filling(
        "duckdb", unique_key="k", incremental_predicates=["DBT_INCREMENTAL_TARGET.v < 6"]
    ).kind

    assert isinstance(kind, IncrementalByUniqueKey)
    assert isinstance(other, IncrementalByUniqueKey)
    assert kind.merge_filter == other.merge_filter == "(target.v < 6)"


def test_a_microbatch_is_merged_where_the_adapter_does() -> None:
    """dbt-postgres never deletes the rows of a batch."""
    config = {"incremental_strategy": "microbatch", "event_time": "at", "lookback": 2}

    merged = _filling("postgres", unique_key="k", **config)
    replaced = _filling("duckdb", **config)

    assert isinstance(merged.kind, IncrementalByUniqueKey)
    assert (merged.kind.strategy, merged.kind.lookback, merged.kind.batch_size) == ("merge", 2, 1)
    assert isinstance(replaced.kind, IncrementalByTimeRange)
    assert (merged.batch, replaced.batch) == ("day", "day")


@pytest.mark.parametrize(
    ("first", "later", "conditions"),
    [
        ("select 1 as a from t", "select 1 as a\n  from t -- later", []),
        ("select a from t", "select a from t where a > 1", ["a > 1"]),
        ("select a from t", "select b from t", None),
        ("select a from t where true", "select a from t", None),
    ],
)
def test_branches_that_differ_in_layout_alone_are_one(
    first: str, later: str, conditions: list[str] | None
) -> None:
    found = added_conditions(first, later, "duckdb")

    assert (None if found is None else [one.text for one in found]) == conditions


# -- when ------------------------------------------------------------------------------------

_SETTINGS = Settings(root=Path("."), name="shop")
_HOURS = Filling(IncrementalByTimeRange("at"), batch="hour")


@pytest.mark.parametrize(
    ("meta", "filling", "expected"),
    [
        ({}, Filling(Full()), ("0 0 * * *", None, None)),
        ({"vde": {"cron": "@hourly"}}, Filling(Full()), ("0 * * * *", None, None)),
        (
            {"vde": {"cron": "0 6 * * *", "cron_tz": "Europe/Berlin"}},
            Filling(Full()),
            ("0 6 * * *", "Europe/Berlin", None),
        ),
        ({}, _HOURS, ("0 * * * *", None, "hour")),
        ({"vde": {"cron": "0 6 * * *"}}, _HOURS, ("0 6 * * *", None, "hour")),
        (
            {},
            Filling(IncrementalByTimeRange("at"), batch="month"),
            ("0 0 * * *", None, "month"),
        ),
    ],
)
def test_a_node_is_due_by_its_meta_or_by_the_setting(
    meta: dict[str, Any], filling: Filling, expected: tuple[str, str | None, str | None]
) -> None:
    times = read_schedule(meta, filling, _SETTINGS)

    assert (times["cron"], times["cron_tz"], times.get("interval_unit")) == expected


def test_the_setting_is_the_default_of_all_nodes() -> None:
    settings = replace(_SETTINGS, cron="@hourly", cron_tz="Asia/Tokyo")

    times = read_schedule({}, Filling(Full()), settings)

    assert (times["cron"], times["cron_tz"]) == ("0 * * * *", "Asia/Tokyo")


@pytest.mark.parametrize(
    ("vde", "message"),
    [
        ({"crom": "@hourly"}, "meta.vde has no key 'crom' .*cron, cron_tz"),
        ("@hourly", "meta.vde must have keys and values"),
        ({"cron": "@often"}, "'@often' is not a known name of a cron expression"),
        ({"cron_tz": "Mars"}, "meta.vde.cron_tz 'Mars' is not a time zone"),
        ({"skip_unchanged": "no"}, "meta.vde.skip_unchanged must be true or false"),
    ],
)
def test_a_wrong_meta_is_a_mistake(vde: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_schedule({"vde": vde}, Filling(Full()), _SETTINGS)


def test_a_wrong_meta_is_told_with_the_models_file(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["nodes"]["model.shop.order_facts"]["config"]["meta"] = {"vde": {"crom": "@hourly"}}

    shop.edit(change)

    with pytest.raises(ProjectError, match="'crom'") as raised:
        shop.load()
    assert raised.value.location is not None
    assert raised.value.location.path.name.startswith("order_facts")


def test_models_are_due_by_their_meta_and_the_settings_cron(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.shop.order_facts"]
        node["config"]["meta"] = {"vde": {"cron": "0 6 * * *", "start": "2024-03-01"}}

    shop.edit(change)
    settings = shop.root / "pyproject.toml"
    settings.write_text(settings.read_text().replace("[tool.vde]", '[tool.vde]\ncron = "@hourly"'))

    models = {name.name: model for name, model in shop.load().models.items()}

    facts, others = models["order_facts"], models["customers"]
    assert (facts.cron, facts.start) == ("0 6 * * *", datetime(2024, 3, 1, tzinfo=timezone.utc))
    assert (facts.interval_unit, facts.allow_partials, facts.until_now) == ("day", True, True)
    assert others.cron == "0 * * * *"


# -- what a microbatch reads -----------------------------------------------------------------

_TIMES = {'"db"."main"."stg"': "at"}
_ROWS = '(SELECT * FROM "db"."main"."stg" WHERE at >= @start_dt AND at <= @end_dt)'


@pytest.mark.parametrize(
    ("compiled", "expected"),
    [
        (
            'select * from (select * from "db"."main"."stg" where false limit 0) e '
            'cross join "db"."main"."stg" s',
            f'select * from {_ROWS} e cross join "db"."main"."stg" s',
        ),
        (
            'select * from (select * from "db"."main"."other" where false limit 0)',
            'select * from "db"."main"."other"',
        ),
        (
            'select stg.a from (select * from "db"."main"."stg" where false limit 0)'
            " _dbt_limit_subq_stg where stg.a > 1",
            f"select stg.a from {_ROWS} AS stg where stg.a > 1",
        ),
        (
            'select * from (select * from "db"."main"."stg" where 1=0) [_dbt_limit_subq_stg]',
            f"select * from {_ROWS}",
        ),
        (
            'select * from (select * from "main"."stg" where false limit 0)',
            'select * from (SELECT * FROM "main"."stg" WHERE at >= @start_dt AND at <= @end_dt)',
        ),
    ],
)
def test_a_rendered_relation_is_not_filtered(compiled: str, expected: str) -> None:
    found = filter_by_batch(Expanded(compiled, ((0, 0),)), _TIMES).text

    for name in ("start_dt", "end_dt"):
        found = found.replace(placeholder(name), f"@{name}")
    assert found == expected


def test_a_render_that_is_not_known_is_refused_at_its_model(
    copied: Callable[[str], DbtCopy],
) -> None:
    table = copied("table")

    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.rows.batched"]
        node["raw_code"] = node["raw_code"].replace(
            "{{ source('raw', 'events') }}", "{{ source('raw', 'events').render() }} events"
        )

    table.edit(change)

    with pytest.raises(ProjectError, match=r"is a microbatch that calls render") as raised:
        table.load()
    assert str(raised.value.location) == "models/batched.sql:1"
    assert "--empty" in (raised.value.hint or "")


def test_a_compile_with_empty_inputs_tells_what_is_filtered(
    copied: Callable[[str], DbtCopy],
) -> None:
    table = copied("table")
    manifest = (table.root / MANIFEST).read_text()
    (table.root / "target/empty").mkdir(parents=True)

    def change(content: dict[str, Any]) -> None:
        node = content["nodes"]["model.rows.batched"]
        content["nodes"] = {"model.rows.batched": node}
        relation = node["compiled_code"].partition("from ")[2].split()[0]
        node["compiled_code"] = (
            node["compiled_code"].replace(
                relation, f"(select * from {relation} where false limit 0)", 1
            )
            + f" having count(*) < (select count(*) from {relation})"
        )

    table.edit(change)
    (table.root / MANIFEST).rename(table.root / "target/empty/manifest.json")
    (table.root / MANIFEST).write_text(manifest)

    models = {name.name: model for name, model in table.load().models.items()}

    query = models["batched"].query or ""
    assert query.count("raw.events") == 2
    assert query.count("@start_dt") == 1


def test_a_microbatch_that_reads_everything_for_each_batch_is_warned_of(
    copied: Callable[[str], DbtCopy],
) -> None:
    table = copied("table")

    def change(manifest: dict[str, Any]) -> None:
        del manifest["sources"]["source.rows.raw.events"]["config"]["event_time"]

    table.edit(change)
    warnings = [problem.message for problem in table.load().warnings]

    assert any("read whole for each batch (1)" in message for message in warnings)


@pytest.mark.parametrize(
    ("config", "refresh"),
    [
        ({"materialized": "table"}, "auto"),
        ({"materialized": "materialized_view"}, "auto"),
        ({"materialized": "table", "refresh": "auto"}, "auto"),
        ({"materialized": "materialized_view", "refresh": "changes"}, "changes"),
        ({"materialized": "table", "meta": {"vde": {"refresh": "changes"}}}, "changes"),
        (
            {"materialized": "table", "refresh": "auto", "meta": {"vde": {"refresh": "whole"}}},
            "whole",
        ),
        ({"materialized": "dynamic_table", "refresh_mode": "INCREMENTAL"}, "changes"),
        ({"materialized": "dynamic_table", "refresh_mode": "auto", "refresh": "whole"}, "whole"),
        ({"materialized": "dynamic_table"}, "auto"),
    ],
)
def test_tables_and_materialized_views_refresh_as_configured(
    shop: DbtCopy, config: dict[str, Any], refresh: str
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        manifest["nodes"]["model.shop.customers"]["config"] = config

    shop.edit(change)

    models = {name.name: model for name, model in shop.load().models.items()}
    assert models["customers"].kind == Full(refresh=refresh)
