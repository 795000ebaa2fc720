"""Another project of the same instance that goes by the same names, in a code location of its own.

Within one location Dagster refuses two assets of one key. Across locations it does not: both write
to the pages of `vde/plan`, and each takes the other's plans for forgotten ones. No location sees
the others' definitions, so each says in the instance's own database which state it shows.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.names import Names

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace

FORGOTTEN = timedelta(minutes=15)
"""After which a location that said nothing is taken for renamed or gone."""
_AGAIN = timedelta(minutes=1)


def rival_of(
    instance: dg.DagsterInstance, location: str, workspace: Workspace, now: datetime
) -> str | None:
    """Say which project a location shows; return a warning if another one has its names.

    Locations that show one state are no rivals: what they write is true for both.

    Args:
        instance: The Dagster instance.
        location: The location's name.
        workspace: Its project.
        now: The present (UTC).
    """
    names = Names.of(workspace.settings)
    key = f"vde/named/{names.prefix}"
    storage = instance.daemon_cursor_storage
    known = _parse(storage.get_cursor_values({key}).get(key))
    own = {"store": workspace.store.news.name(), "root": str(workspace.root)}
    others = {
        name: said
        for name, said in known.items()
        if name != location and now - datetime.fromisoformat(said["at"]) < FORGOTTEN
    }
    before = known.get(location, {})
    if not own.items() <= before.items() or now - datetime.fromisoformat(before["at"]) > _AGAIN:
        seen = {**others, location: {**own, "at": now.isoformat()}}
        storage.set_cursor_values({key: json.dumps(seen)})
    for name, said in sorted(others.items()):
        if said["store"] != own["store"]:
            have = f"the prefix '{names.prefix}'" if names.prefix else "no prefix"
            return (
                f"Two projects of this Dagster instance have {have}, so their plans, environments "
                f"and models are mixed up: {own['root']} (code location {location}) and "
                f"{said['root']} (code location {name}). Give one of them a name of its own in its "
                'pyproject.toml: prefix = "sales" under [tool.vde.dagster], then load its code '
                "location again"
            )
    return None


def _parse(text: str | None) -> dict[str, dict[str, Any]]:
    try:
        found = json.loads(text or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
