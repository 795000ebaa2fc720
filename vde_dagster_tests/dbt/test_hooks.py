"""Hooks and grants that become statements, and those that cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.plugins.dbt.hooks import Hooks
from vde_dagster.plugins.dbt.manifest import decode_manifest
from vde_dagster_tests.dbt.conftest import MANIFEST, DbtCopy

Copied = Callable[[str], DbtCopy]
ORDERS = "model.rows.orders"


def configured(copy: DbtCopy, unique_id: str, config: dict[str, Any]) -> None:
    copy.edit(lambda manifest: manifest["nodes"][unique_id]["config"].update(config))


@pytest.mark.parametrize("granted", [False, True])
def test_rights_are_granted_on_views_where_the_settings_say_so(
    copied: Copied, granted: bool
) -> None:
    copy = copied("hooks")
    configured(copy, ORDERS, {"grants": {"select": ["readers", "the team"], "insert": "loader"}})
    configured(
        copy, "snapshot.rows.kept", {"post-hook": [{"sql": "revoke all on {{ this }} from x"}]}
    )
    (copy.root / "target/hooks.json").unlink()
    settings = copy.root / "pyproject.toml"
    settings.write_text(f"{settings.read_text()}grants = {str(granted).lower()}\n")

    project = copy.load()

    told = project.warnings[0].message
    assert ("grants (1); hooks that revoke rights (1)" in told) is not granted
    published = {str(n): m.on_virtual_update for n, m in project.models.items()}
    assert published["main.orders"] == (
        (
            "GRANT SELECT ON VIEW @this_model TO `readers`",
            "GRANT SELECT ON VIEW @this_model TO `the team`",
            "GRANT INSERT ON VIEW @this_model TO `loader`",
        )
        if granted
        else ()
    )
    assert published["main.kept"] == (("revoke all on @this_model from x",) if granted else ())
    assert published["main.kept__versions"] == ()


@pytest.mark.parametrize(
    ("hook", "expected"),
    [
        ("analyze table {{ this }} compute statistics", None),
        ("-- of old rows\nanalyze table main.orders compute statistics;", None),
        ("insert into raw.log select 'a;b', '{{ this }}' from {{ this }}", None),
        ("", None),
        ("insert into raw.log values ('", "post-hook that cannot be written in Spark SQL (1)"),
        ("insert into {{ this }} values (4)", "post-hook that writes rows of its own table (1)"),
        ("truncate table main.orders", "post-hook that writes rows of its own table (1)"),
        ("create index on {{ this }} (id", "post-hook that cannot be written in Spark SQL (1)"),
        ("vacuum", "post-hook with statements that Spark does not have (1)"),
        ("{{ anything() }}", "post-hook with Jinja (1)"),
    ],
)
def test_a_hook_is_a_statement_or_counted_by_what_it_is(
    copied: Copied, hook: str, expected: str | None
) -> None:
    copy = copied("hooks")
    (copy.root / "target/hooks.json").unlink()
    plain = {"pre-hook": [], "post-hook": []}
    for unique_id, node in json.loads((copy.root / MANIFEST).read_text())["nodes"].items():
        if node["resource_type"] in ("model", "snapshot"):
            configured(copy, unique_id, plain)
    configured(copy, ORDERS, {"post-hook": [{"sql": hook, "transaction": True}]})

    project = copy.load()

    told = project.warnings[0].message.partition(": ")[2]
    others = "on-run-end with Jinja (2); on-run-start with Jinja (1)"
    assert told == (f"{others}; {expected}" if expected else others)
    written = project.models[ModelName("main", "orders")].post_statements
    assert bool(written) is (expected is None and bool(hook))
    assert all("main.orders" not in text.replace("'main.orders'", "") for text in written)


def test_a_seed_has_hooks(shop: DbtCopy) -> None:
    before = shop.load().models
    hook = "analyze table {{ this }} compute statistics"
    configured(shop, "seed.shop.raw_orders", {"post-hook": [{"sql": hook}]})

    after = shop.load().models

    name = ModelName("main", "raw_orders")
    assert after[name].post_statements == ("ANALYZE TABLE @this_model COMPUTE STATISTICS",)
    assert {n for n in after if after[n] != before[n]} == {name}


def test_hooks_that_cannot_be_rendered_are_left_out_file_by_file(copied: Copied) -> None:
    hooks = Hooks.from_manifest(decode_manifest((copied("hooks").root / MANIFEST).read_bytes()))
    assert set(hooks.models) == {ORDERS, "model.rows.shown", "snapshot.rows.kept"}
    runs = {f"operation.rows.rows-on-run-{one}" for one in ("start-1", "end-0")}
    assert set(hooks.runs) == runs

    others = hooks.without_file("transform/models/orders.sql")
    assert set(others.models) == {"model.rows.shown", "snapshot.rows.kept"}
    assert others.runs == hooks.runs

    # A mistake in a hook of runs is no model's file.
    without_runs = hooks.without_file("dbt_project.yml")
    assert (without_runs.models, without_runs.runs) == (hooks.models, ())
    assert not without_runs.without_file("dbt_project.yml")
