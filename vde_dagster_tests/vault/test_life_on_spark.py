"""A vault's life in one project: planned, run again, restated, edited and rolled back."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

FILES = {
    "models/stage.sql": """
        MODEL (name staging.customers, kind SEED (path '../seeds/customers.csv'),
          columns (id INT, name STRING, ldts DATE, rsrc STRING));
    """,
    "models/hub.sql": """
        MODEL (name vault.hub_customer, start '2024-01-01', end '2024-01-03',
          kind HUB (key customer_hk, batch_size 2));
        SELECT @HASH_KEY(id) AS customer_hk, id, ldts, rsrc
        FROM staging.customers WHERE ldts BETWEEN @start_date AND @end_date
    """,
    "models/sat.sql": """
        MODEL (name vault.sat_customer, start '2024-01-01', end '2024-01-03',
          kind SATELLITE (key customer_hk));
        SELECT @HASH_KEY(id) AS customer_hk, name, ldts, rsrc
        FROM staging.customers WHERE ldts BETWEEN @start_date AND @end_date
    """,
    "models/pit.sql": """
        MODEL (name vault.pit_customer, kind FULL);
        @PIT(vault.hub_customer, customer_hk, (SELECT DATE '2024-01-01' AS as_of),
          vault.sat_customer)
    """,
    "seeds/customers.csv": """
        id,name,ldts,rsrc
        1,Ann,2024-01-01,crm
        2,Bob,2024-01-02,erp
        2,Bob,2024-01-02,crm
        1,Ann,2024-01-03,erp
    """,
}
HUB = "SELECT id, ldts, rsrc FROM vault.hub_customer ORDER BY id"
SATELLITE = "SELECT name, ldts, rsrc FROM vault.sat_customer ORDER BY name"
PIT = "SELECT CAST(sat_customer_ldts AS DATE) FROM vault.pit_customer ORDER BY 1"
GHOST, FIRST = ("1900-01-01",), ("2024-01-01",)
NEW_SOURCE = (
    "UNION ALL SELECT @HASH_KEY(7, algorithm := 'sha1'), {}, DATE '2024-01-02', 'web' "
    "WHERE DATE '2024-01-02' BETWEEN @start_date AND @end_date"
)


def _rows(workspace: Workspace, query: str) -> list[tuple[Any, ...]]:
    return [tuple(map(str, row)) for row in workspace.query("prod", query).rows]


def test_a_vault_is_planned_edited_rolled_back_and_runs_again_with_no_new_row(
    tmp_path: Path,
) -> None:
    folder = ProjectFolder(tmp_path, FILES)
    keys = [("1", "2024-01-01", "crm"), ("2", "2024-01-02", "crm")]
    names = [("Ann", "2024-01-01", "crm"), ("Bob", "2024-01-02", "crm")]
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert (_rows(workspace, HUB), _rows(workspace, SATELLITE)) == (keys, names)
        assert _rows(workspace, PIT) == [GHOST, FIRST]
        assert workspace.plan("prod").is_empty
        again = ("vault.hub_customer", "vault.sat_customer")
        workspace.apply(workspace.plan("prod", restate=again))
        assert (_rows(workspace, HUB), _rows(workspace, SATELLITE)) == (keys, names)

        # Another hash and a new attribute.
        for path in ("models/hub.sql", "models/sat.sql"):
            folder.edit(path, "HASH_KEY(id)", "HASH_KEY(id, algorithm := 'sha1')")
        folder.edit("models/hub.sql", "id, ldts", "id, name, ldts")
        folder.edit("models/sat.sql", "name, ldts", "name, id, ldts")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert (_rows(workspace, HUB), _rows(workspace, SATELLITE)) == (keys, names)
        edited = {
            "SELECT LENGTH(customer_hk), name FROM vault.hub_customer ORDER BY id": "Ann Bob",
            "SELECT LENGTH(customer_hk), id FROM vault.sat_customer ORDER BY id": "1 2",
        }
        for query, found in edited.items():
            assert _rows(workspace, query) == [("40", value) for value in found.split()]

        # A new source.
        for path, columns in (("models/hub.sql", "7, 'Cy'"), ("models/sat.sql", "'Cy', 7")):
            text = (folder.root / path).read_text()
            folder.write(path, f"{text}\n{NEW_SOURCE.format(columns)}")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert _rows(workspace, HUB) == [*keys, ("7", "2024-01-02", "web")]
        assert _rows(workspace, SATELLITE) == [*names, ("Cy", "2024-01-02", "web")]
        assert _rows(workspace, PIT) == [GHOST, GHOST, FIRST]
        assert workspace.plan("prod").is_empty

        workspace.environments.rollback("prod")
        for query, found in edited.items():
            assert _rows(workspace, query) == [("40", value) for value in found.split()]
        assert _rows(workspace, PIT) == [GHOST, FIRST]


def test_what_is_removed_in_place_begins_no_state_and_takes_none_away(tmp_path: Path) -> None:
    header = """
        MODEL (name vault.sat, start '2024-01-01', columns (hk INT, p STRUCT<x: INT, y: INT>,
          q INT, ldts DATE, rsrc STRING), kind SATELLITE (key hk, forward_only true, lookback 2));
    """
    query = """
        SELECT 1 AS hk, NAMED_STRUCT('x', 7, 'y', DAY(ldts)) AS p, DAY(ldts) AS q, ldts,
          'crm' AS rsrc
        FROM (SELECT EXPLODE(SEQUENCE(@start_date, @end_date)) AS ldts)
    """
    folder = ProjectFolder(tmp_path, {"models/sat.sql": header + query})
    first = datetime(2024, 1, 3, 1, tzinfo=timezone.utc)
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", PlanOptions(now=first)))
        folder.edit("models/sat.sql", ", y: INT", "")
        folder.edit("models/sat.sql", ", 'y', DAY(ldts)", "")
        folder.edit("models/sat.sql", "q INT, ", "")
        folder.edit("models/sat.sql", "DAY(ldts) AS q, ", "")
        workspace.reload()
        options = PlanOptions(now=first, allow_destructive=("vault.sat",))
        workspace.apply(workspace.plan("prod", options))
        workspace.apply(workspace.plans.due("prod", PlanOptions(now=first + timedelta(days=1))))
        asked = "SELECT p.x, ldts, SIZE(seen_again) FROM vault.sat"
        stored = [("7", "2024-01-01", "0"), ("7", "2024-01-02", "1")]
        assert _rows(workspace, f"{asked} ORDER BY ldts") == stored
