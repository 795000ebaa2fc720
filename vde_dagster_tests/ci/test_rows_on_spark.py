"""What a pull request's comment says of rows, computed by Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.ci.rows import compare_rows, rows_markdown
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

CUSTOMERS = "models/marts/customers.sql"


def test_rows_are_compared_by_key_and_samples_are_told_as_text(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    folder.edit(CUSTOMERS, "kind FULL,", "kind FULL, grain customer,")
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        folder.edit(
            CUSTOMERS,
            "FROM staging.orders GROUP BY customer",
            "* IF(customer = 10, 2, 1) AS revenue, '<b>|' AS note FROM staging.orders "
            "WHERE customer <> 11 GROUP BY customer",
        )
        folder.edit(CUSTOMERS, "sum(amount) AS revenue *", "sum(amount) *")
        workspace.reload()
        workspace.apply(workspace.plan("pr_7"))
        found = compare_rows(workspace, workspace.plan("prod", save=False), "pr_7", 10)
    ((name, *_),) = found.compared
    assert name == "`marts.customers`"
    assert [str(one) for one in found.keyless] == ["marts.top"]
    assert found.failed == []
    told = "\n".join(rows_markdown(found))
    line = next(one for one in told.splitlines() if one.startswith("| `marts.customers`"))
    cells = [cell.strip() for cell in line.strip("|").split(" | ")]
    assert cells[1:6] == ["customer", "2 (before 3)", "0", "1", "1 of 2"]
    assert "revenue (1)" in cells[6]
    assert "+note" in cells[6]
    assert "1 row of marts.customers removed" in told
    assert "1 row of marts.customers changed" in told
    assert "<b>" not in told
