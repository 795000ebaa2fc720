"""What dbt's nodes become, and what is said of manifests that cannot be read."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.kinds import Seed
from vde_dagster.project.model import Exposure, Model, TestTable, UnitTest
from vde_dagster_tests.dbt.conftest import MANIFEST, PROJECTS, DbtCopy

FILES = Path(__file__).parent
DAILY = "0 0 * * *"
VISITS = "source.shop.web.visits"


def described(model: Model) -> dict[str, Any]:
    """Return what is compared of a model, without what is empty."""
    every = {
        "kind": model.kind.text,
        "file": str(model.location),
        "query": model.query,
        "reads": [str(name) for name in model.depends_on],
        "description": model.description,
        "owner": model.owner,
        "tags": list(model.tags),
        "columns": {column.name: column.type for column in model.columns},
        "described": dict(model.column_descriptions),
        "statements": [*model.pre_statements, *model.post_statements],
        "published": list(model.on_virtual_update),
        "partitions": list(model.partitioned_by),
        "grains": [list(columns) for columns in model.grains],
        "reads itself": model.reads_itself,
        "cron": "" if model.cron == DAILY else model.cron,
        "start": str(model.start or ""),
        "python": model.python.entrypoint if model.python else "",
        "audits": {
            audit.label.removesuffix("()"): f"{'' if audit.blocking else 'warns: '}{audit.query}"
            for audit in model.audits
        },
    }
    return {key: value for key, value in every.items() if value}


def _told(exposure: Exposure) -> dict[str, Any]:
    """Return what is compared of an exposure."""
    place, reads = str(exposure.location), [str(name) for name, _, _ in exposure.reads]
    return {"name": exposure.name, "owner": exposure.owner, "file": place, "reads": reads}


def _tested(test: UnitTest) -> dict[str, Any]:
    """Return what is compared of a unit test."""

    def rows(table: TestTable | None) -> Any:
        assert table is not None
        return table.query or [dict(zip(table.columns, row, strict=True)) for row in table.rows]

    given = {str(name): rows(table) for name, table in test.inputs}
    return {
        "name": test.name,
        "model": str(test.model),
        "given": given,
        "expected": rows(test.expected),
    }


@pytest.mark.parametrize("name", sorted(path.name for path in PROJECTS.iterdir()))
def test_nodes_become_models_of_the_same_names(copied: Callable[[str], DbtCopy], name: str) -> None:
    expected = yaml.safe_load((FILES / f"{name}.yaml").read_text())

    project = copied(name).load()

    assert {str(n): described(model) for n, model in project.models.items()} == expected["models"]
    assert [problem.message for problem in project.warnings] == expected["warnings"]
    assert [list(texts) for texts in project.around] == expected.get("around", [[], []])
    assert [_told(exposure) for exposure in project.exposures] == expected.get("exposures", [])
    assert [_tested(test) for test in project.tests] == expected.get("tests", [])


def test_an_unchanged_manifest_reads_no_node(shop: DbtCopy) -> None:
    first = shop.load()
    assert len(shop.read) == 15

    second = shop.load()

    assert shop.read == []
    assert second == first


def test_a_disabled_test_needs_no_compiled_code(shop: DbtCopy) -> None:
    """Tests of a disabled model stay in the manifest so."""
    before = shop.load().models

    def disable(manifest: dict[str, Any]) -> None:
        test = next(n for n in manifest["nodes"].values() if n["name"] == "no_free_orders")
        manifest["nodes"]["test.shop.off"] = {
            **test,
            "unique_id": "test.shop.off",
            "name": "off",
            "compiled_code": None,
            "config": {**test["config"], "enabled": False},
        }

    shop.edit(disable)
    assert shop.load().models == before


def test_a_test_that_was_compiled_without_its_warehouse_is_named(shop: DbtCopy) -> None:
    """Tests that look columns up while they are compiled have nothing in their brackets then."""

    def empty(manifest: dict[str, Any]) -> None:
        test = next(n for n in manifest["nodes"].values() if n["name"] == "no_free_orders")
        test["compiled_code"] = "WITH found AS (), bad AS (SELECT * FROM found) SELECT * FROM bad"

    shop.edit(empty)
    project = shop.load()

    audits = project.models[ModelName("main_staging", "stg_orders")].audits
    assert "no_free_orders" not in {audit.name for audit in audits}
    assert "unique_stg_orders_order_id" in {audit.name for audit in audits}
    told = " ".join(problem.message for problem in project.warnings)
    assert "tests no_free_orders whose compiled SQL is not a query (1)" in told


def test_a_changed_node_alone_is_read(shop: DbtCopy) -> None:
    shop.load()

    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.shop.customers"]
        node["compiled_code"] = node["compiled_code"].replace("t.orders", "t.orders + 1 as orders")

    shop.edit(change)
    project = shop.load()

    assert shop.read == ["model.shop.customers"]
    assert "t.orders + 1 AS orders" in (project.models[ModelName("main", "customers")].query or "")


def test_a_changed_test_reads_the_node_that_it_is_of(shop: DbtCopy) -> None:
    shop.load()
    shop.edit(lambda manifest: manifest["nodes"].pop("test.shop.no_free_orders"))

    shop.load()

    assert shop.read == ["model.shop.stg_orders"]


def test_a_changed_seed_is_read_though_the_manifest_is_as_it_was(shop: DbtCopy) -> None:
    shop.load()
    with (shop.root / "seeds/raw_customers.csv").open("a") as file:
        file.write("3;Edsger;2024-01-04\n")

    shop.load()

    assert shop.read == ["seed.shop.raw_customers"]


def test_a_seed_behind_a_link_is_read_and_watched(shop: DbtCopy) -> None:
    path = shop.root / "seeds/raw_orders.csv"
    target = shop.root / "orders.csv"
    before = shop.load().models
    path.rename(target)
    path.symlink_to(target)
    assert shop.load().models == before

    with target.open("a") as file:
        file.write("4,2,1.00,placed,2024-01-08\n")

    kind = shop.load().models[ModelName("main", "raw_orders")].kind
    assert isinstance(kind, Seed)
    assert (kind.row_count, shop.read) == (4, ["seed.shop.raw_orders"])


def test_a_seed_behind_a_link_out_of_the_project_is_refused(shop: DbtCopy) -> None:
    path = shop.root / "seeds/raw_orders.csv"
    path.rename(shop.root.parent / "orders.csv")
    path.symlink_to("../../orders.csv")
    with pytest.raises(ProjectError, match=r"seeds/raw_orders.csv.* is outside the project"):
        shop.load()


def test_times_of_day_in_a_seed_are_texts_which_is_said(shop: DbtCopy) -> None:
    types = {"ordered_at": "TIME", "status": "time without time zone"}
    shop.edit(_set("nodes", "seed.shop.raw_orders", "config", "column_types", value=types))

    project = shop.load()

    columns = {c.name: c.type for c in project.models[ModelName("main", "raw_orders")].columns}
    assert (columns["ordered_at"], columns["status"]) == ("STRING", "STRING")
    told = "seeds with columns of the type TIME, which are texts (1)"
    assert told in project.warnings[0].message


def test_a_link_that_leads_to_no_file_is_one_mistake(shop: DbtCopy) -> None:
    path = shop.root / "seeds/raw_orders.csv"
    path.unlink()
    path.symlink_to("nothing.csv")

    with pytest.raises(ProjectError) as raised:
        shop.load()

    assert str(raised.value).startswith(
        "seeds/raw_orders.csv: the file of the seed 'raw_orders' is a link to nothing.csv"
    )


@pytest.mark.parametrize(
    "path",
    [
        "models/marts/customers.sql",
        "models/models.yml",
        "macros/at_least.sql",
        "dbt_project.yml",
        "models/marts/new.sql",
        "seeds/new.csv",
    ],
)
def test_a_manifest_older_than_a_file_is_said(shop: DbtCopy, path: str) -> None:
    assert shop.load().warnings == ()
    with (shop.root / path).open("a") as file:
        file.write("\n{% macro new() %}{% endmacro %}")

    told = [str(problem) for problem in shop.load().warnings]

    assert told == [f"{MANIFEST}: the manifest is older than {path}. Hint: run `dbt compile`"]


def test_files_with_the_lines_ends_of_windows_are_not_newer(shop: DbtCopy) -> None:
    path = shop.root / "macros/at_least.sql"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))

    def change(manifest: dict[str, Any]) -> None:
        macro = manifest["macros"]["macro.shop.test_at_least"]
        macro["macro_sql"] = macro["macro_sql"].replace("\n", "\r\n")

    shop.edit(change)

    assert shop.load().warnings == ()


def test_an_exposure_of_a_metric_reads_what_the_metric_is_made_of(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        between = {"depends_on": {"nodes": ["semantic_model.shop.orders"]}}
        manifest["metrics"] = {"metric.shop.revenue": between}
        below = {"depends_on": {"nodes": ["model.shop.stg_orders"]}}
        manifest["semantic_models"] = {"semantic_model.shop.orders": below}
        board = manifest["exposures"]["exposure.shop.board"]
        board["depends_on"]["nodes"] = ["metric.shop.revenue"]

    shop.edit(change)
    project = shop.load()

    assert [str(name) for name, _, _ in project.exposures[0].reads] == ["main_staging.stg_orders"]
    assert "metrics (1); semantic models (1)" in project.warnings[0].message


def test_tables_that_dbt_does_not_know_are_external(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.shop.big_spenders"]
        leads = 'cross join "crm"."sales"."leads"'
        node["compiled_code"] = f'select * from "shop"."main"."by_hand" {leads}'

    shop.edit(change)

    models = shop.load().models

    assert models[ModelName("main", "by_hand")].kind.name == "EXTERNAL"
    assert models[ModelName("crm__sales", "leads")].table == ("crm", "sales", "leads")


@pytest.mark.parametrize(
    ("config", "code", "expected"),
    [
        ({"unique_key": ["a", "b"]}, "", "INCREMENTAL_BY_UNIQUE_KEY"),
        (
            {"unique_key": "lower(a)", "incremental_strategy": "merge"},
            "",
            "INCREMENTAL_BY_UNIQUE_KEY",
        ),
        ({"unique_key": "a", "incremental_strategy": "append"}, "", "INCREMENTAL_UNMANAGED"),
        ({}, "", "INCREMENTAL_UNMANAGED"),
        ({}, "{% if is_incremental() %}", "FULL"),
        ({"incremental_strategy": "insert_overwrite"}, "", "FULL"),
        ({"incremental_strategy": "insert_overwrite", "partition_by": ["a"]}, "", "BY_PARTITION"),
        ({"incremental_strategy": "microbatch", "event_time": "a"}, "", "BY_TIME_RANGE"),
    ],
)
def test_an_incremental_model_is_of_the_kind_that_its_strategy_asks_for(
    shop: DbtCopy, config: dict[str, Any], code: str, expected: str
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.shop.order_facts"]
        node["config"] = {"materialized": "incremental", **config}
        node["raw_code"] = code

    shop.edit(change)

    project = shop.load()

    assert project.models[ModelName("main", "order_facts")].kind.name.endswith(expected)


@pytest.mark.parametrize(
    ("config", "blocking", "expected"),
    [
        ({"severity": "warn"}, [False], "SELECT * FROM @this_model WHERE amount = 0"),
        (
            {"error_if": "> 10", "warn_if": "!= 0"},
            [True, False],
            "SELECT * FROM (SELECT * FROM @this_model WHERE amount = 0) AS dbt_failures WHERE "
            "(SELECT count(*) FROM (SELECT * FROM @this_model WHERE amount = 0) AS "
            "dbt_internal_test) > 10",
        ),
        (
            {"limit": 5},
            [True],
            "SELECT * FROM (SELECT * FROM @this_model WHERE amount = 0) AS dbt_rows LIMIT 5",
        ),
    ],
)
def test_severity_thresholds_and_limits_of_tests_count(
    shop: DbtCopy, config: dict[str, Any], blocking: list[bool], expected: str
) -> None:
    shop.edit(_set("nodes", "test.shop.no_free_orders", "config", value=config))

    audits = shop.load().models[ModelName("main_staging", "stg_orders")].audits

    found = [audit for audit in audits if audit.name.startswith("no_free_orders")]
    assert [audit.blocking for audit in found] == blocking
    assert found[0].query == expected


def _set(*path: str, value: object) -> Any:
    def change(manifest: dict[str, Any]) -> None:
        inner: Any = manifest
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value

    return change


CUSTOMERS = ("nodes", "model.shop.customers")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            _set("metadata", "dbt_schema_version", value="https://x/dbt/manifest/v9.json"),
            f"{MANIFEST}:3: the manifest has version 9, made by dbt 1.11.16; "
            "only version 12 is supported. "
            "Hint: run `dbt compile` with dbt 1.8 to 1.11",
        ),
        (
            _set("metadata", "dbt_schema_version", value="https://x/dbt/manifest/v20.json"),
            f"{MANIFEST}:3: the manifest has version 20, made by dbt 1.11.16; "
            "only version 12 is supported. "
            "Hint: only dbt Core 1.8 to 1.11 is supported, not Fusion and dbt 2",
        ),
        (
            _set(*CUSTOMERS, "compiled_code", value=None),
            f"{MANIFEST}: the manifest has no compiled code of 1 node, such as 'customers'. "
            "Hint: run `dbt compile`",
        ),
        (
            _set(*CUSTOMERS, "config", value="table"),
            ": the node model.shop.customers is invalid: Expected `object`, got `str` - "
            "at `$.config`. Hint: run `dbt compile`",
        ),
        (
            _set(
                *CUSTOMERS,
                value={
                    "unique_id": "model.shop.customers",
                    "resource_type": "model",
                    "package_name": "shop",
                    "original_file_path": "models/marts/customers.sql",
                    "name": "customers",
                    "schema": "main",
                    "config": {"materialized": "table"},
                    "contract": {"enforced": True},
                    "columns": {"at": {"name": "at", "data_type": "time(6)"}},
                    "compiled_code": "select 1 as at",
                },
            ),
            "models/marts/customers.sql:1: Spark's tables do not support the type 'time(6)'",
        ),
        (
            _set(*CUSTOMERS, "compiled_code", value="select\n  cast('10:00' as time) as at"),
            "target/compiled/shop/models/marts/customers.sql:2:19: the query cannot be translated "
            "to Spark SQL: the type TIME",
        ),
        (
            _set(*CUSTOMERS, "compiled_code", value="select 1\n  , '10:00'::time as time"),
            "models/marts/customers.sql:2:14: the query cannot be translated to Spark SQL: the",
        ),
        (
            lambda m: [node.update(compiled_code=None) for node in m["nodes"].values()],
            f"{MANIFEST}: the manifest has no compiled code. Hint: run `dbt compile`",
        ),
        (
            _set(*CUSTOMERS, "alias", value="Visits"),
            "model main.visits is defined twice: in models/marts/",
        ),
        (
            _set(*CUSTOMERS, "compiled_code", value="select\n  a b c"),
            "models/marts/customers.sql:2:7: syntax error in the query near 'c'",
        ),
        (
            _set(*CUSTOMERS, "config", "materialized", value="columnar"),
            "models/marts/customers.sql:1: 'customers' is materialized as 'columnar'",
        ),
        (
            _set(*CUSTOMERS, "config", "refresh", value="sometimes"),
            "models/marts/customers.sql:1: the configuration of 'customers' cannot be read: "
            "refresh must be one of auto, changes, whole, not 'sometimes'",
        ),
        (
            _set(*CUSTOMERS, "config", value={"materialized": "view", "refresh": "auto"}),
            "models/marts/customers.sql:1: the configuration of 'customers' cannot be read: "
            "refresh is for nodes of kind FULL, and this one is VIEW",
        ),
        (
            _set(*CUSTOMERS, "language", value="python"),
            "models/marts/customers.sql:1: 'customers' is a Python model",
        ),
        (
            _set("functions", value={"f": {"name": "f", "original_file_path": "functions/f.sql"}}),
            "functions/f.sql:1: 'f' is a function, which dbt creates in the warehouse",
        ),
        (
            _set("metadata", "adapter_type", value="teradata"),
            f"{MANIFEST}: the manifest is for the adapter 'teradata'",
        ),
        (
            _set("nodes", "seed.shop.raw_orders", "package_name", value="other"),
            "dbt_packages/other/seeds/raw_orders.csv: the file of the seed 'raw_orders' does not "
            "exist. Hint: run `dbt deps`",
        ),
        (
            _set("nodes", "snapshot.shop.order_history", "config", "hard_deletes", value="all"),
            "snapshots/customer_history.yml:8: the configuration of 'order_history' cannot be read"
            ": hard_deletes must be one of ignore, invalidate, new_record, not 'all'",
        ),
        (
            _set(
                *("nodes", "snapshot.shop.order_history", "config", "updated_at"),
                value="coalesce(a, b)",
            ),
            "snapshots/customer_history.yml:8: the configuration of 'order_history' cannot be read"
            ": updated_at must be the name of a column, not 'coalesce(a, b)'",
        ),
        (
            _set("nodes", "snapshot.shop.order_history", "config", "strategy", value="other"),
            "snapshots/customer_history.yml:8: the configuration of 'order_history' cannot be read"
            ": strategy 'other' is neither timestamp nor check",
        ),
        (
            _set(
                *("nodes", "model.shop.order_facts", "config"),
                value={
                    "materialized": "incremental",
                    "incremental_strategy": "merge",
                    "unique_key": "order_id",
                    "merge_update_columns": ["amount"],
                    "merge_exclude_columns": ["order_id"],
                },
            ),
            "models/marts/order_facts.sql:1: the configuration of 'order_facts' cannot be read: "
            "merge_update_columns and merge_exclude_columns cannot be combined. "
            "Hint: correct it in dbt, and run `dbt compile`",
        ),
        (
            _set(
                *("nodes", "model.shop.order_facts", "compiled_code"),
                value='select * from "shop"."main"."order_facts"',
            ),
            "models/marts/order_facts.sql:1: 'order_facts' was compiled for an existing table",
        ),
    ],
)
def test_a_manifest_with_a_mistake_is_one_message(
    shop: DbtCopy, change: Any, expected: str
) -> None:
    shop.edit(change)

    with pytest.raises(ProjectError) as raised:
        shop.load()

    assert expected in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n "metadata": }', f"{MANIFEST}:2: the manifest is broken"),
        ('{"metadata": 1}', f"{MANIFEST}: this is not a manifest of dbt"),
        (None, f"dbt_project.yml: the dbt project has no {MANIFEST}. Hint: run `dbt compile`"),
    ],
)
def test_a_broken_or_missing_manifest_is_one_message(
    shop: DbtCopy, text: str | None, expected: str
) -> None:
    path = shop.root / MANIFEST
    path.unlink() if text is None else path.write_text(text)

    with pytest.raises(ProjectError) as raised:
        shop.load()

    assert str(raised.value).startswith(expected)


def test_a_node_that_is_none_is_told_with_the_line_where_it_begins(shop: DbtCopy) -> None:
    shop.edit(_set("sources", "source.shop.web.visits", "name", value=7))
    lines = (shop.root / MANIFEST).read_text().splitlines()
    line = next(n for n, text in enumerate(lines, 1) if '"source.shop.web.visits": {' in text)

    with pytest.raises(ProjectError) as raised:
        shop.load()

    assert str(raised.value).startswith(f"{MANIFEST}:{line}: the node source.shop.web.visits ")


def test_a_project_that_was_broken_loads_once_it_is_not(shop: DbtCopy) -> None:
    whole = (shop.root / MANIFEST).read_text()
    (shop.root / MANIFEST).write_text(whole[:-10])
    assert len(shop.load(strict=False).problems) == 1

    (shop.root / MANIFEST).write_text(whole)

    assert len(shop.load().models) == 17


@pytest.mark.parametrize(
    "config",
    [{"severity": "warn"}, {"where": "amount > 0"}, {"warn_if": ">5"}, {"fail_calc": "sum(0)"}],
    ids=lambda config: next(iter(config)),
)
def test_a_test_that_lets_rows_with_null_pass_is_no_proof_for_unique(
    shop: DbtCopy, config: dict[str, str]
) -> None:
    """dbt's `unique` ignores NULLs; only a `not_null` that blocks each of them makes a key."""
    name, stem = ModelName("main_staging", "stg_orders"), "not_null_stg_orders_order_id"

    def unique_query() -> str:
        audits = {audit.name: audit.query for audit in shop.load().models[name].audits}
        return audits["unique_stg_orders_order_id"]

    assert "IS NULL" not in unique_query()

    def weaken(manifest: dict[str, Any]) -> None:
        manifest["nodes"][f"test.shop.{stem}.81cfe2fe64"]["config"].update(config)

    shop.edit(weaken)
    assert "WHERE NOT order_id IS NULL" in unique_query()


@pytest.mark.parametrize(
    ("in_catalog", "types"),
    [
        (None, {"visitor": "BIGINT", "page": "UNKNOWN", "name": "STRING"}),
        ([("visitor", "INT"), ("page", "DATE")], {"visitor": "INT", "page": "DATE"}),
    ],
    ids=["not in the catalog", "in the catalog"],
)
def test_a_source_has_columns_that_its_yaml_does_not_list(
    shop: DbtCopy, in_catalog: list[tuple[str, str]] | None, types: dict[str, str]
) -> None:
    shop.edit(lambda manifest: manifest["sources"][VISITS]["columns"].pop("page"))
    visits = ModelName("weblog", "raw_visits")
    warnings: list[Any] = []

    snapshots = build_snapshots(
        shop.load().models,
        lambda name: in_catalog if name == visits else None,
        warnings=warnings,
    )

    columns = {c.name: c.type or "UNKNOWN" for c in snapshots[ModelName("main", "visits")].columns}
    assert columns.items() >= types.items()
    assert snapshots[ModelName("main", "visits")].version.opaque is None
    assert [warning.message for warning in warnings if "raw_visits" in warning.message] == []


def test_a_column_that_the_table_of_a_source_does_not_have_is_a_mistake(shop: DbtCopy) -> None:
    with pytest.raises(ProjectError, match=r"'v\.page' does not exist"):
        build_snapshots(shop.load().models, lambda _: [("visitor", "INT")], warnings=[])


def test_audits_of_a_source_may_read_columns_that_its_yaml_does_not_list(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        source = manifest["sources"][VISITS]
        source["columns"].pop("page")
        source["loaded_at_field"] = "loaded_at"
        source["freshness"] = {"warn_after": {"count": 1, "period": "day"}}

    shop.edit(change)
    models = shop.load().models
    audits = models[ModelName("weblog", "raw_visits")].audits
    assert "loaded_at" in next(audit.query for audit in audits if audit.name == "freshness")

    build_snapshots(models, lambda _: None, warnings=[])


def test_a_source_that_the_catalog_lacks_is_called_declared(shop: DbtCopy) -> None:
    shop.edit(_set("sources", VISITS, "columns", value={}))
    warnings: list[Any] = []

    build_snapshots(shop.load().models, lambda _: None, warnings=warnings)

    told = [str(warning) for warning in warnings if "raw_visits" in warning.message]
    assert told == [
        "models/models.yml: main.visits reads weblog.raw_visits, which is declared but not in the "
        "catalog. Hint: create it before a plan computes its readers, or correct its declaration"
    ]


def test_types_of_a_model_that_reads_itself_are_asked_for_in_the_syntax_of_dbt(
    shop: DbtCopy,
) -> None:
    code = 'select page from "shop"."weblog"."raw_visits"'
    newer = f'{code} where page > (select max(page) from "shop"."main"."order_facts")'

    def change(manifest: dict[str, Any]) -> None:
        manifest["sources"][VISITS]["columns"]["page"]["data_type"] = None
        node = manifest["nodes"]["model.shop.order_facts"]
        node["config"] = {"materialized": "incremental"}
        node["raw_code"] = "{% if is_incremental() %}"
        node["compiled_code"] = code

    shop.edit(change)
    later = json.loads((shop.root / MANIFEST).read_text())
    later["nodes"]["model.shop.order_facts"]["compiled_code"] = newer
    (shop.root / "target/later").mkdir()
    (shop.root / "target/later/manifest.json").write_text(json.dumps(later))
    with pytest.raises(ProjectError) as raised:
        build_snapshots(shop.load().models, lambda _: None, warnings=[])

    assert raised.value.hint == (
        "set config: {contract: {enforced: true}} in the model's YAML, and declare all of its "
        "columns there, these with their types: [{name: page, data_type: TYPE}]; or cast them in "
        "the query"
    )


def test_a_refused_model_is_named_with_its_tests_and_a_hint_for_dbt(shop: DbtCopy) -> None:
    def change(manifest: dict[str, Any]) -> None:
        node = manifest["nodes"]["model.shop.customers"]
        node["compiled_code"] = "select hash(1) as customer_id, 2 as total"

    shop.edit(change)
    with pytest.raises(ProjectError) as raised:
        shop.load()

    assert str(raised.value).partition("customers.sql")[2] == (
        ":1:8: the query cannot be translated to Spark SQL: hash() of duckdb is not known to mean "
        "the same on Spark; 4 tests of 'customers' not read: at_least_customers_total__0, "
        "not_null_customers_customer_id, "
        "relationships_customers_customer_id__customer_id__ref_stg_customers_, "
        "unique_customers_customer_id. Hint: write it in SQL that Spark also accepts, or leave it "
        "out: config(enabled=false); or trust the function: "
        'dialect_trust = ["hash"] under [tool.vde]'
    )

    settings = shop.root / "pyproject.toml"
    trusted = '[tool.vde]\ndialect_trust = ["hash"]'
    settings.write_text(settings.read_text().replace("[tool.vde]", trusted, 1))
    query = shop.load().models[ModelName("main", "customers")].query
    assert query == "SELECT HASH(1) AS customer_id, 2 AS total"


@pytest.mark.parametrize(
    ("adapter", "values", "expected"),
    [
        ("duckdb", ["2024-02-04 2:02:21", "2024-02-04 12:02:21"], "TIMESTAMP"),
        ("spark", ["2024-02-04 2:02:21", "", "2024-2-4 2:2:2"], "TIMESTAMP"),
        ("spark", ["2024-2-4", "2024-12-04"], "DATE"),
        ("duckdb", ["2024-02-04T2:02"], "STRING"),
        ("duckdb", ["2024-02-04T10:00"], "TIMESTAMP"),
        ("duckdb", ["2024-02-04T10:00:00Z"], "TIMESTAMP"),
        ("spark", ["2024-02-04T10:00:00+02:00"], "TIMESTAMP"),
        ("duckdb", ["2024-02-04T10:00:00+02:00"], "STRING"),
        ("duckdb", ["2024-02-04 10:00"], "STRING"),
        ("duckdb", ["2024-02-04 10:00:00.5"], "STRING"),
        ("duckdb", ["2024-02-04", "2024-02-04 10:00:00"], "STRING"),
        ("duckdb", ["2024/02/04"], "STRING"),
        ("duckdb", ["2024-2-30"], "STRING"),
        ("duckdb", ["2024-2-4", "soon"], "STRING"),
        ("spark", ["2024-02-04 02:02:21"], "TIMESTAMP"),
        ("duckdb", ["007", "8"], "INT"),
        ("spark", ["00.5", "1"], "DOUBLE"),
        ("duckdb", ["007", "a"], "STRING"),
        ("duckdb", ["02147483648"], "BIGINT"),
        ("duckdb", ["", ""], "INT"),
    ],
)
def test_types_of_a_seed_are_those_that_dbt_infers(
    shop: DbtCopy, adapter: str, values: list[str], expected: str
) -> None:
    """Expected are types of dbt-duckdb 1.11 and agate 1.9, except for instants with an offset."""
    path = shop.root / "seeds/raw_orders.csv"
    path.write_text("\n".join(["order_id,noted", *(f"1,{value}" for value in values)]) + "\n")

    def change(manifest: dict[str, Any]) -> None:
        manifest["metadata"]["adapter_type"] = adapter
        manifest["nodes"]["seed.shop.raw_orders"]["config"]["column_types"] = {}

    shop.edit(change)
    models = shop.load(strict=False).models

    seed = models[ModelName("main", "raw_orders")]
    assert {column.name: column.type for column in seed.columns}["noted"] == expected
