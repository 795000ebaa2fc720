"""The page of a version of an environment: its data, and the last versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import first_of
from vde_dagster.execution.environments.compare import VersionChange
from vde_dagster.orchestration.names import Names, known_facts
from vde_dagster.orchestration.pages.markdown import (
    markdown_table,
    partition_link,
    section_table,
    short_name,
)
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.environments import data_section, history_section
from vde_dagster.state.environments.mirror import MirrorStanding

MAX_VIEWS = 1000
MAX_CHANGES = 50
MAX_TABLES = 50
LISTED = 20
"""Versions that the page of an environment lists."""


@dataclass(frozen=True, slots=True)
class ShownModel:
    """What an environment shows of a model.

    Args:
        version: The short hash of its version.
        table: Its table; None for a view of its parents.
        whose: `own`, `shared` with production, `held` at what it was, or empty for a view.
        since: Since when (UTC), when that is known.
    """

    version: str
    snapshot_id: str
    table: PhysicalTable | None = None
    whose: str = ""
    since: datetime | None = None


def environment_metadata(
    environment: Environment,
    shown: Mapping[ModelName, ShownModel],
    before: Mapping[ModelName, ShownModel] | None,
    names: Names,
    changes: Sequence[VersionChange] = (),
    mirror: MirrorStanding | None = None,
) -> dict[str, Any]:
    """Return the page: what changed, then which view shows which version, since when.

    Args:
        before: What the version before showed; None when there was none, or nobody knows.
        changes: What this version changed, and those before it, newest first.
    """
    views = {name: str(environment.views.ref(name)) for name in shown}
    records = [
        dg.TableRecord(
            {
                "view": short_name(views[name]),
                "version": model.version,
                "whose": model.whose,
                "since (UTC)": _short(model.since, environment.published_at),
            }
        )
        for name, model in sorted(shown.items())[:MAX_VIEWS]
    ]
    plan_id, ends = environment.plan_id, environment.expires_at
    link = partition_link(names.plan_key, plan_id, plan_id) if plan_id else ""
    later = "; `vde environments` says how they stand by now" if mirror and mirror.since else ""
    tables = {views[name]: str(model.table.ref) for name, model in shown.items() if model.table}
    return known_facts(
        {
            "vde/version": environment.version,
            "vde/changes": dg.MetadataValue.md(_changes(environment, shown, before)),
            **_data(changes, names),
            "vde/models": len(shown),
            "vde/published_at": dg.MetadataValue.timestamp(environment.published_at),
            "vde/published_by": environment.published_by,
            "vde/frozen": environment.frozen,
            "vde/mirror": mirror and f"{mirror}{later}",
            "vde/note": environment.note or None,
            "vde/plan": dg.MetadataValue.md(link) if link else None,
            "vde/expires_at": dg.MetadataValue.timestamp(ends) if ends else None,
            "vde/views": dg.MetadataValue.table(records, _VIEWS),
            "vde/tables": dg.MetadataValue.json(tables),
            "vde/publication": environment.publication_id,
        }
    )


_VIEWS = dg.TableSchema(
    [dg.TableColumn(name) for name in ("view", "version", "whose", "since (UTC)")]
)


def _data(changes: Sequence[VersionChange], names: Names) -> dict[str, Any]:
    """Say what data the version changed, and list the versions up to it."""
    if not changes:
        return {}
    data, history = data_section(changes[0].data), history_section(changes[:LISTED])
    table = section_table(data, names, MAX_TABLES) if data.rows else "No data changed."
    return {
        "vde/data": dg.MetadataValue.md(table),
        "vde/history": dg.MetadataValue.md(section_table(history, names)),
    }


def _short(since: datetime | None, published: datetime) -> str:
    """Write an instant in one line of a narrow column: `22 Nov 21:34`, or `22 Nov 2025`."""
    if since is None:
        return ""
    return f"{since:%d %b %H:%M}" if since.year == published.year else f"{since:%d %b %Y}"


def _changes(
    environment: Environment,
    shown: Mapping[ModelName, ShownModel],
    before: Mapping[ModelName, ShownModel] | None,
) -> str:
    if before is None:
        return f"All {len(shown)} models are new." if environment.version == 1 else "Not known."
    rows = list(_rows(shown, before))
    if not rows:
        return f"The definitions of version {environment.version - 1}."
    more = first_of(len(rows), MAX_CHANGES)
    return markdown_table(rows[:MAX_CHANGES]) + (more and f"\n\n…{more}")


def _rows(
    shown: Mapping[ModelName, ShownModel], before: Mapping[ModelName, ShownModel]
) -> Sequence[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name in sorted({*shown, *before}):
        new, old = shown.get(name), before.get(name)
        if new is not None and old is not None and new.snapshot_id == old.snapshot_id:
            if (new.table and new.table.id) == (old.table and old.table.id):
                continue
            what = "another table"
        elif new is not None and old is not None:
            what = "the same rows, described anew" if new.version == old.version else "changed"
        else:
            what = "added" if old is None else "removed"
        was, now = old.version if old else "", new.version if new else ""
        rows.append({"model": short_name(name), "": what, "was": was, "is": now})
    return rows
