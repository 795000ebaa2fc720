"""Page of an environment's version: its changes, its data, and the latest versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from datetime import datetime
from types import MappingProxyType
from typing import Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import and_more
from vde_dagster.execution.environments.compare import VersionChange
from vde_dagster.orchestration.models.live import Combination, version_key
from vde_dagster.orchestration.names import Names, without_nones
from vde_dagster.orchestration.pages.report_text import section_table
from vde_dagster.overviews.environments import data_section, history_section
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.reports.markdown import markdown_table, short_name
from vde_dagster.state.environments.mirror import MirrorStanding

MAX_VIEWS = 1000
MAX_CHANGES = 50
MAX_TABLES = 50
LISTED = 20
"""Maximum number of versions on an environment's page."""


def environment_metadata(
    environment: Environment,
    shown: Combination,
    before: Combination | None,
    names: Names,
    shared: Set[str] = frozenset(),
    since: Mapping[ModelName, datetime] = MappingProxyType({}),
    changes: Sequence[VersionChange] = (),
    mirror: MirrorStanding | None = None,
) -> dict[str, Any]:
    """Return the metadata of an environment's page: its changes, then each view with its version.

    Args:
        before: Content of the previous version; None for a first version, or if unknown.
        shared: Ids of production's tables.
        since: Time (UTC) when each model began to show its current version, if known.
        changes: Changes of this version and of the versions before it, newest first.
    """
    models = _models(shown)
    views = {name: str(environment.views.ref(name)) for name in models}
    records = [
        dg.TableRecord(
            {
                "view": short_name(views[name]),
                "version": version_key(*models[name]),
                "whose": _table_origin(environment, name, shared),
                "since (UTC)": _short(since.get(name), environment.published_at),
            }
        )
        for name in sorted(models)[:MAX_VIEWS]
    ]
    plan_id, ends = environment.plan_id, environment.expires_at
    link = names.link(names.plan_key, plan_id, plan_id) if plan_id else ""
    later = "; current status: `vde environments`" if mirror and mirror.since else ""
    tables = {views[name]: str(table.ref) for name, (_, table) in models.items() if table}
    return without_nones(
        {
            "vde/version": environment.version,
            "vde/changes": dg.MetadataValue.md(_changes(environment, shown, before)),
            **_data(changes, names),
            "vde/models": len(models),
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
    if not changes:
        return {}
    data, history = data_section(changes[0].data), history_section(changes[:LISTED])
    table = section_table(data, names, MAX_TABLES) if data.rows else "No data changed."
    return {
        "vde/data": dg.MetadataValue.md(table),
        "vde/history": dg.MetadataValue.md(section_table(history, names)),
    }


def _short(since: datetime | None, published: datetime) -> str:
    """Format an instant for a narrow column: `22 Nov 21:34`, or `22 Nov 2025`."""
    if since is None:
        return ""
    return f"{since:%d %b %H:%M}" if since.year == published.year else f"{since:%d %b %Y}"


def _table_origin(environment: Environment, name: ModelName, shared: Set[str]) -> str:
    """Return a table's origin: `own`, `shared` with production, or `held` at a commit."""
    entry = environment.entries[name]
    if entry.table_id is None:
        return ""
    if entry.held is not None:
        return "held"
    return "own" if environment.name == PRODUCTION or entry.table_id not in shared else "shared"


def _models(combination: Combination) -> dict[ModelName, tuple[Snapshot, PhysicalTable | None]]:
    served = combination.served.items()
    return {name: one for name, one in served if not one[0].model.kind.is_external}


def _changes(environment: Environment, shown: Combination, before: Combination | None) -> str:
    if before is None:
        number = len(_models(shown))
        all_new = "1 model is new." if number == 1 else f"All {number} models are new."
        return all_new if environment.version == 1 else "Not known."
    rows: list[dict[str, object]] = []
    now, then = _models(shown), _models(before)
    for name in sorted({*now, *then}):
        new, old = now.get(name), then.get(name)
        version, earlier = (version_key(*one) if one else "" for one in (new, old))
        what = "added" if old is None else "removed"
        if new is not None and old is not None:
            what = "same rows, new metadata" if version == earlier else "changed"
            if new[0].id == old[0].id:
                if (new[1] and new[1].id) == (old[1] and old[1].id):
                    continue
                what = "another table"
        rows.append({"model": short_name(name), "": what, "was": earlier, "is": version})
    if not rows:
        return f"The definitions of version {environment.version - 1}."
    more = and_more(len(rows), MAX_CHANGES)
    return markdown_table(rows[:MAX_CHANGES]) + (more and f"\n\n…{more}")
