"""Examples of the opened project and the records of its state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vde_dagster.api.errors import UsageError
from vde_dagster.api.workspace import (
    Attachment,
    AuditFinished,
    AuditRecord,
    FillRecord,
    Handles,
    Keeper,
    OutboxRecord,
    UnitTestFinished,
    Workspace,
)
from vde_dagster_tests.projects import ProjectFolder


def test_Attachment(workspace: Workspace) -> None:
    class Ticket:
        """The ticket of a plan, in its file under `ticket`."""

        def take(self, handles: Handles, document: Mapping[str, Any], value: Any) -> None:
            if not isinstance(value, str):
                raise UsageError("the ticket is no text")

        def descriptions(self, handles: Handles, plan_ids: Sequence[str]) -> Mapping[str, str]:
            return {}

    attachment: Attachment = Ticket()
    assert attachment.descriptions(workspace, []) == {}


def test_AuditFinished(workspace: Workspace) -> None:
    names = []
    workspace.apply(
        workspace.plan("prod"),
        on_event=lambda event: (
            names.append(event.audit.name) if isinstance(event, AuditFinished) else None
        ),
    )
    assert names == ["not_null"]


def test_AuditRecord(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod"))
    (table,) = _published_tables(workspace)
    failing: Sequence[AuditRecord] = workspace.store.audits.failing(table)
    assert failing == []


def test_FillRecord(workspace: Workspace) -> None:
    workspace.apply(workspace.plan("prod"))
    (table,) = _published_tables(workspace)
    latest: Mapping[str, FillRecord] = workspace.store.fills.latest([table])
    assert latest[table].interval.end <= latest[table].recorded_at


def _published_tables(workspace: Workspace) -> Iterable[str]:
    published = workspace.store.environments.get("prod")
    return published.tables if published is not None else ()


def test_Handles(workspace: Workspace) -> None:
    handles: Handles = workspace  # What functions of plug-ins take that need no operations.
    assert handles.settings.root == handles.root


def test_Keeper() -> None:
    kept = Keeper(
        text=lambda handles: None, readers=lambda handles, environment: None, what="metric"
    )
    assert kept.what == "metric"


def test_OutboxRecord() -> None:
    def export(workspace: Workspace, records: Sequence[OutboxRecord]) -> None:
        """An exporter: `vde export NAME` calls it with the records since its last call."""
        for record in records:
            if record.kind == "published":
                print(record.number, record.subject)

    assert export.__name__ == "export"


def test_UnitTestFinished(workspace: Workspace) -> None:
    ended = list(workspace.plans.test(workspace.plan("prod", save=False)))
    assert all(isinstance(event, UnitTestFinished) for event in ended)


def test_Workspace(tmp_path: Path) -> None:
    ProjectFolder(tmp_path, {"models/a.sql": "MODEL (name a.b, kind VIEW);\nSELECT 1 AS n"})
    with Workspace.open(tmp_path) as workspace:
        assert workspace.plan("dev", save=False).environment == "dev"
