"""Planning and applying on real Spark and Iceberg."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import (
    AuditFailedError,
    ConflictError,
    DamagedFileError,
    ExecutionError,
    UsageError,
)
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan import Plan
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]


def apply(workspace: Workspace, environment: str = "prod") -> Plan:
    return workspace.apply(workspace.plan(environment)).plan


def rows(workspace: Workspace, sql: str, environment: str = "prod") -> list[tuple[Any, ...]]:
    return list(workspace.query(environment, sql).rows)


def builds(plan: Plan) -> set[str]:
    return {str(model.name) for model in plan.builds}


def test_the_first_apply_builds_and_publishes_everything(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(shop)
    plan = workspace.plan("prod")
    assert builds(plan) == {"raw.orders", "marts.daily", "marts.customers", "marts.top"}
    assert len(plan.views.created) == 5
    result = workspace.apply(plan)
    assert result.published
    assert result.environment is not None
    assert result.environment.version == 1
    assert rows(workspace, "SELECT customer, revenue, place FROM marts.top ORDER BY place") == [
        (12, 20.0, 1),
        (11, 7.5, 2),
        (10, 6.0, 3),
    ]
    assert len(rows(workspace, "SELECT * FROM marts.daily")) == 3


def test_a_second_plan_finds_nothing_and_starts_no_engine(
    published: ProjectFolder, open_workspace: Open
) -> None:
    again = open_workspace(published)
    plan = again.plan("prod")
    assert plan.is_empty
    assert not again.apply(plan).published
    assert not again.started_engine


def test_skipped_backfill_publishes_empty_tables_that_the_next_run_fills(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod", skip_backfill=True))
    for model in ("raw.orders", "staging.orders", "marts.daily", "marts.customers", "marts.top"):
        assert rows(workspace, f"SELECT * FROM {model}") == []
    run = workspace.plans.due("prod")
    assert builds(run) == {"raw.orders", "marts.daily", "marts.customers", "marts.top"}
    workspace.apply(run)
    assert len(rows(workspace, "SELECT * FROM marts.top")) == 3


def test_model_of_a_parent_with_nothing_due_yet_is_built_on_its_empty_table(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    shop.write(
        "models/later.sql",
        """
        MODEL (name z.later, kind INCREMENTAL_BY_TIME_RANGE (time_column day), start '2099-01-01');
        SELECT DATE '2099-01-01' AS day, 1 AS n
        """,
    )
    shop.write(
        "models/sum_later.sql", "MODEL (name a.sums, kind FULL); SELECT count(n) AS n FROM z.later"
    )
    workspace = open_workspace(shop)
    plan = apply(workspace)
    assert "a.sums" in builds(plan)
    assert "z.later" not in builds(plan)
    assert rows(workspace, "SELECT * FROM z.later") == []
    assert rows(workspace, "SELECT n FROM a.sums") == [(0,)]


def test_formatting_and_comments_change_nothing(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit(
        "models/marts/top.sql", "SELECT customer, revenue", "-- hello\nselect customer,revenue"
    )
    assert open_workspace(published).plan("prod").is_empty


def test_a_new_environment_without_changes_moves_no_data_and_starts_no_engine(
    published: ProjectFolder, open_workspace: Open
) -> None:
    dev = open_workspace(published)
    plan = dev.plan("dev")
    assert not plan.builds
    assert len(plan.views.created) == 5
    assert dev.apply(plan).published
    assert not dev.started_engine
    assert rows(dev, "SELECT count(*) FROM marts.top", "dev") == [(3,)]


def test_development_is_isolated_and_promotion_computes_nothing(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit(
        "models/marts/customers.sql", "sum(amount) AS revenue", "sum(amount) * 2 AS revenue"
    )
    workspace = open_workspace(published)
    plan = apply(workspace, "dev")
    assert builds(plan) == {"marts.customers", "marts.top"}
    assert rows(workspace, "SELECT max(revenue) FROM marts.top", "dev") == [(40.0,)]
    assert rows(workspace, "SELECT max(revenue) FROM marts.top", "prod") == [(20.0,)]
    promotion = open_workspace(published)
    plan = promotion.plan("prod")
    assert not plan.builds
    promotion.apply(plan)
    assert not promotion.started_engine
    assert rows(workspace, "SELECT max(revenue) FROM marts.top", "prod") == [(40.0,)]


def test_a_new_column_builds_its_model_only(published: ProjectFolder, open_workspace: Open) -> None:
    published.edit(
        "models/marts/customers.sql",
        "sum(amount) AS revenue",
        "sum(amount) AS revenue, max(day) AS last_day",
    )
    workspace = open_workspace(published)
    plan = apply(workspace)
    assert builds(plan) == {"marts.customers"}
    assert rows(workspace, "SELECT count(last_day) FROM marts.customers") == [(3,)]


def test_a_dropped_or_renamed_column_builds_nothing(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit("models/marts/daily.sql", "count(*) AS orders, ", "")
    published.edit("models/marts/top.sql", "AS place", "AS position")
    workspace = open_workspace(published)
    plan = apply(workspace)
    assert builds(plan) == set()
    columns = [name for name, _ in workspace.query("prod", "SELECT * FROM marts.top").columns]
    assert columns == ["customer", "revenue", "position"]
    columns = [name for name, _ in workspace.query("prod", "SELECT * FROM marts.daily").columns]
    assert columns == ["day", "revenue"]


def test_a_reverted_change_builds_nothing(published: ProjectFolder, open_workspace: Open) -> None:
    published.edit("models/marts/customers.sql", "sum(amount) AS", "sum(amount) * 2 AS")
    apply(open_workspace(published))
    published.edit("models/marts/customers.sql", "sum(amount) * 2 AS", "sum(amount) AS")
    workspace = open_workspace(published)
    assert builds(apply(workspace)) == set()
    assert rows(workspace, "SELECT max(revenue) FROM marts.top") == [(20.0,)]


def test_an_edited_view_reaches_the_tables_that_read_it(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit(
        "models/staging/orders.sql", "status <> 'cancelled'", "status = 'paid' AND amount > 1"
    )
    workspace = open_workspace(published)
    plan = apply(workspace)
    assert builds(plan) == {"marts.daily", "marts.customers", "marts.top"}
    assert rows(workspace, "SELECT revenue FROM marts.customers WHERE customer = 10") == [(5.0,)]


def test_a_removed_model_loses_its_view(published: ProjectFolder, open_workspace: Open) -> None:
    published.remove("models/marts/top.sql")
    workspace = open_workspace(published)
    plan = apply(workspace)
    assert [str(ref) for ref in plan.views.dropped] == ["marts.top"]
    with pytest.raises(UsageError, match="neither a model"):
        rows(workspace, "SELECT * FROM marts.top")


def test_a_failing_model_leaves_the_environment_and_keeps_what_was_finished(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit("models/marts/customers.sql", "sum(amount) AS", "sum(amount) * 3 AS")
    published.edit(
        "models/marts/top.sql", "rank() OVER", "CAST(raise_error('boom') AS INT) + rank() OVER"
    )
    workspace = open_workspace(published)
    with pytest.raises(ExecutionError, match=r"marts\.top"):
        apply(workspace)
    current = workspace.store.environments.get("prod")
    assert current is not None
    assert current.version == 1
    assert rows(workspace, "SELECT max(revenue) FROM marts.top") == [(20.0,)]
    published.edit("models/marts/top.sql", "CAST(raise_error('boom') AS INT) + ", "")
    workspace = open_workspace(published)
    assert builds(apply(workspace)) == {"marts.top"}
    assert rows(workspace, "SELECT max(revenue) FROM marts.top") == [(60.0,)]


def test_rows_that_fail_a_blocking_audit_never_become_visible(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit("models/marts/customers.sql", "GROUP BY customer", "GROUP BY customer, day")
    workspace = open_workspace(published)
    plan = workspace.plan("prod")
    with pytest.raises(AuditFailedError, match="unique_values"):
        workspace.apply(plan)
    assert rows(workspace, "SELECT count(*) FROM marts.customers") == [(3,)]
    failed = [r for r in workspace.store.audits.results(plan_id=plan.id) if r.result.failed_rows]
    assert failed[0].result.sample


def test_a_plan_that_was_overtaken_is_refused(shop: ProjectFolder, open_workspace: Open) -> None:
    workspace = open_workspace(shop)
    first, second = workspace.plan("prod"), workspace.plan("prod")
    workspace.apply(first)
    with pytest.raises(ConflictError, match="plan again"):
        workspace.apply(second)


def test_applying_a_plan_twice_does_nothing_the_second_time(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(shop)
    plan = workspace.plan("prod")
    workspace.apply(plan)
    assert not open_workspace(shop).apply(plan).published


def test_a_stored_plan_is_applied_by_another_process(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    plan_id = open_workspace(shop).plan("prod").id
    shop.remove("models/marts/top.sql")
    workspace = open_workspace(shop)
    workspace.apply(workspace.store.plans.load(plan_id))
    assert rows(workspace, "SELECT count(*) FROM marts.top") == [(3,)]


def test_rollback_publishes_the_earlier_version_without_an_engine(
    published: ProjectFolder, open_workspace: Open
) -> None:
    published.edit("models/marts/customers.sql", "sum(amount) AS", "sum(amount) * 2 AS")
    workspace = open_workspace(published)
    apply(workspace)
    back = open_workspace(published)
    result = back.environments.rollback("prod")
    assert result.restored == 1
    assert not back.started_engine
    assert rows(workspace, "SELECT max(revenue) FROM marts.top") == [(20.0,)]


def test_a_run_fills_what_is_due_on_branches_and_publishes_it_together(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    shop.edit("models/marts/daily.sql", "end '2024-01-05', ", "")
    from datetime import datetime, timezone

    workspace = open_workspace(shop)
    january_third = datetime(2024, 1, 3, 12, tzinfo=timezone.utc)
    workspace.apply(workspace.plan("prod", now=january_third))
    assert rows(workspace, "SELECT count(*) FROM marts.daily") == [(1,)]
    january_sixth = datetime(2024, 1, 6, 12, tzinfo=timezone.utc)
    run = workspace.plans.due("prod", now=january_sixth)
    assert "marts.daily" in builds(run)
    events: list[Event] = []
    workspace.apply(run, on_event=events.append)
    filled = [
        e for e in events if isinstance(e, IntervalFilled) and str(e.snapshot.name) == "marts.daily"
    ]
    assert [str(event.interval) for event in filled] == [
        "2024-01-03T00:00:00Z/2024-01-06T00:00:00Z"
    ]
    assert rows(workspace, "SELECT count(*) FROM marts.daily") == [(3,)]
    table = next(m.table for m in run.models if str(m.name) == "marts.daily")
    assert table is not None
    assert set(workspace.lakehouse.load_table(table.ref).refs()) == {"main"}
    assert workspace.plans.due("prod", now=january_sixth).is_empty


def test_a_run_whose_audit_fails_shows_nothing_of_any_model(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    from datetime import datetime, timezone

    shop.edit("models/marts/daily.sql", "end '2024-01-05', ", "")
    shop.edit(
        "models/marts/daily.sql",
        "not_null(columns := (day, revenue))",
        "forall(criteria := (revenue < 15))",
    )
    workspace = open_workspace(shop)
    workspace.apply(workspace.plan("prod", now=datetime(2024, 1, 3, 12, tzinfo=timezone.utc)))
    run = workspace.plans.due("prod", now=datetime(2024, 1, 6, 12, tzinfo=timezone.utc))
    with pytest.raises(AuditFailedError, match="forall"):
        workspace.apply(run)
    assert rows(workspace, "SELECT count(*) FROM marts.daily") == [(1,)]


def test_another_layout_is_applied_in_place_by_production_only(
    shop: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(shop)
    plan = apply(workspace)
    table = next(m.table for m in plan.models if str(m.name) == "marts.customers")
    assert table is not None
    shop.edit(
        "models/marts/customers.sql",
        "kind FULL,",
        "kind FULL, partitioned_by (bucket(4, customer)), clustered_by (revenue), "
        "table_properties ('write.parquet.compression-codec' = 'zstd', 'note' = 'it''s'),",
    )
    workspace = open_workspace(shop)
    assert builds(apply(workspace, "dev")) == set()
    assert not workspace.lakehouse.load_table(table.ref).spec().fields
    plan = apply(workspace)
    assert builds(plan) == set()
    changed = workspace.lakehouse.load_table(table.ref)
    assert [str(field.transform) for field in changed.spec().fields] == ["bucket[4]"]
    assert len(changed.sort_order().fields) == 1
    assert changed.properties["note"] == "it's"
    shop.edit("models/marts/customers.sql", "partitioned_by (bucket(4, customer)), ", "")
    shop.edit("models/marts/customers.sql", ", 'note' = 'it''s'", "")
    workspace = open_workspace(shop)
    assert builds(apply(workspace)) == set()
    changed = workspace.lakehouse.load_table(table.ref)
    assert not changed.spec().fields
    assert "note" not in changed.properties
    assert rows(workspace, "SELECT count(*) FROM marts.customers") == [(3,)]
    assert workspace.plan("prod").is_empty


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def overwrite(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[: len(data) // 2] = bytes(len(data) // 2)
    path.write_bytes(bytes(data))


def test_a_query_on_a_damaged_file_names_it_and_says_restore_it(
    published: ProjectFolder, open_workspace: Open
) -> None:
    workspace = open_workspace(published)
    asked = "SELECT * FROM marts.customers"
    warehouse = Path(workspace.lakehouse.warehouse.removeprefix("file:"))
    (folder,) = [path for path in warehouse.rglob("*customers*") if (path / "data").is_dir()]
    kinds = ("data/*.parquet", "metadata/*-m0.avro", "metadata/snap-*.avro")
    newest = [max(folder.glob(kind), key=lambda path: path.stat().st_mtime_ns) for kind in kinds]
    for path in newest:
        kept = path.read_bytes()
        for damage in (Path.unlink, cut, overwrite):
            damage(path)
            with pytest.raises(DamagedFileError) as raised:
                rows(workspace, asked)
            assert path.name in raised.value.file
            assert str(raised.value.hint).startswith("restore it from a backup")
            path.write_bytes(kept)
            assert len(rows(workspace, asked)) == 3
