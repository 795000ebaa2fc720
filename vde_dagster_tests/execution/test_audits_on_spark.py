"""Audits that read other tables, of other tables and of their own, on real Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.errors import AuditFailedError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

Open = Callable[[ProjectFolder], Workspace]
FILES = {
    "audits/known_in.sql": """
        AUDIT (name known_in);
        SELECT t.id FROM @this_model AS t LEFT ANTI JOIN @other AS o ON t.id = o.id
    """,
    "audits/few.sql": """
        AUDIT (name few, standalone true);
        SELECT o.id FROM db.orders AS o JOIN db.payments AS p ON o.id = p.id WHERE o.id > 2
    """,
    "models/orders.sql": """
        MODEL (name db.orders, kind FULL, audits (known_in(other := db.payments)));
        SELECT id, 'order' AS what FROM lake.ids
    """,
    "models/payments.sql": """
        MODEL (name db.payments, kind FULL, audits (known_in(other := db.orders)));
        SELECT id, 'payment' AS what FROM lake.ids
    """,
    "external_models.yaml": """
        - name: lake.ids
          columns: {id: INT}
          audits: [{name: not_null, columns: "[id]"}]
    """,
}


def test_keys_audit_each_other_and_what_others_write_is_audited_first(
    tmp_path: Path, open_workspace: Open
) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    workspace = open_workspace(folder)
    session = workspace.engine().guest_session
    session.sql("CREATE NAMESPACE IF NOT EXISTS lakehouse.lake")
    session.sql("CREATE TABLE lakehouse.lake.ids (id INT) USING iceberg")
    session.sql("INSERT INTO lakehouse.lake.ids VALUES (1), (2), (3)")
    plan = workspace.plan("prod")
    assert workspace.apply(plan).published
    found = {
        (str(one.model), one.audit.partition("(")[0]): one.result.failed_rows
        for one in workspace.store.audits.results(plan_id=plan.id)
    }
    assert found == {
        ("lake.ids", "not_null"): 0,
        ("db.orders", "known_in"): 0,
        ("db.payments", "known_in"): 0,
        ("default.few", "few"): 1,
    }

    # Both keys move in one plan, and are held against each other's new rows.
    for name in ("orders", "payments"):
        folder.edit(f"models/{name}.sql", "SELECT id,", "SELECT id + 10 AS id,")
    workspace = open_workspace(folder)
    assert workspace.apply(workspace.plan("prod")).published

    # One of them alone does not get through, nor by the audit of the one that stays.
    folder.edit("models/orders.sql", "id + 10", "id + 11")
    workspace = open_workspace(folder)
    with pytest.raises(AuditFailedError) as raised:
        workspace.apply(workspace.plan("prod"))
    assert {str(one.model) for one in raised.value.failures} == {"db.orders", "db.payments"}
    shown = workspace.query("prod", "SELECT id FROM db.orders ORDER BY id").rows
    assert [row[0] for row in shown] == [11, 12, 13]

    session.sql("INSERT INTO lakehouse.lake.ids VALUES (NULL)")
    with pytest.raises(AuditFailedError) as raised:
        workspace.apply(workspace.plan("prod", restate=["db.payments"]))
    assert [str(one.model) for one in raised.value.failures] == ["lake.ids"]
