"""Copies of an environment's views that follow by changes, and what the views really showed."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.changes_world import migrated

Row = tuple[Any, ...]
GONE, COME = ("delete", "update_before"), ("insert", "update_after")


def plain(value: Any) -> Any:
    """Return a value that equals what Spark's GROUP BY takes for the same, and can be counted.

    Whether PySpark or the engine read it: the one has instants in this process's own time zone.
    """
    if isinstance(value, datetime):
        return value.astimezone(timezone.utc)
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, Mapping):
        return frozenset((plain(key), plain(one)) for key, one in value.items())
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    if isinstance(value, list | tuple):
        return tuple(map(plain, value))
    return value


def bag(found: Iterable[Iterable[Any]]) -> Counter[Row]:
    """Count equal rows."""
    return Counter(tuple(map(plain, row)) for row in found)


@dataclass
class Copies:
    """What readers saw of an environment, by version, and copies that follow by its changes.

    Args:
        workspace: Returns the workspace as it is now.
        environment: The environment.
        seen: The columns and rows of each model by version.
        views: The same of the views of changes that the catalog had then.
    """

    workspace: Callable[[], Workspace]
    environment: str = "prod"
    seen: dict[tuple[int, str], tuple[list[str], Counter[Row]]] = field(default_factory=dict)
    views: dict[tuple[int, str], tuple[list[str], list[Row]]] = field(default_factory=dict)

    @property
    def last(self) -> int:
        """The current version."""
        current = self.workspace().store.environments.get(self.environment)
        assert current is not None
        return current.version

    def note(self) -> None:
        """Note what readers see now, as any Spark session does."""
        workspace = self.workspace()
        current = workspace.store.environments.get(self.environment)
        assert current is not None
        session = workspace.engine().session  # type: ignore[attr-defined]
        catalog = workspace.settings.catalog
        for entry in current.entries.values():
            model, ref = str(entry.name), current.views.ref(entry.name)
            found = session.sql(f"SELECT * FROM {catalog}.{ref}")
            self.seen[current.version, model] = found.columns, bag(found.collect())
            if entry.table_id is not None and self.environment == "prod":
                found = session.sql(f"SELECT * FROM {catalog}.{ref}__changes")
                self.views[current.version, model] = (
                    found.columns,
                    [tuple(map(plain, row)) for row in found.collect()],
                )

    def check_net(self, model: str, since: int, until: int) -> str | None:
        """Apply the net changes between two versions to a copy; return how they were found."""
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if before is None and after is None:
            return None
        found = self.workspace().changes.read(self.environment, model, since=since, until=until)
        if found.changes.method == "resync":
            return "resync"
        names = [name for name, _ in found.changes.columns][5:]
        copy = _copy(before, found.changes.events, names)
        gone, come = _split(found.rows)
        assert gone.total() + come.total() == len(found.rows)
        assert not gone & come, "a row was carried over"
        assert gone <= copy, "a row goes that is not there"
        assert copy - gone + come == (after[1] if after else Counter())
        self._check_images(found.changes, found.rows)
        return found.changes.method

    def _check_images(self, changes: Any, rows: Iterable[Row]) -> None:
        """Each image before has one after, of the same key, and a key has no other change."""
        names = [name for name, _ in changes.columns]
        places = [names.index(name) for name in changes.key]
        by_key: dict[Row, list[str]] = {}
        for row in rows:
            by_key.setdefault(tuple(plain(row[i]) for i in places), []).append(row[0])
        for key, told in by_key.items():
            if any(one.startswith("update") for one in told):
                assert sorted(told) == ["update_after", "update_before"], key

    def check_each(self, model: str, since: int, until: int) -> int | None:
        """Apply each version's changes to a copy, which is each version.

        Returns:
            How many steps there are; None where they cannot be told.
        """
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if since > until or (before is None and after is None):
            return 0
        found = self.workspace().changes.read(
            self.environment, model, since=since, until=until, each=True
        )
        if found.changes.method == "resync":
            return None
        names = [name for name, _ in found.changes.columns][5:]
        copy = _copy(before, found.changes.events, names)
        for ordinal, step in enumerate(found.changes.steps):
            rows = [row for row in found.rows if row[1] == ordinal]
            assert {row[3] for row in rows} <= {step.until}
            gone, come = _split(rows)
            assert gone <= copy, "a row goes that is not there"
            copy = copy - gone + come
            shown = self.seen.get((step.until, model))
            if shown is None or shown[0] == names:
                assert copy == (shown[1] if shown else Counter()), f"at version {step.until}"
        assert copy == (after[1] if after else Counter())
        return len(found.changes.steps)

    def check_view(self, model: str, since: int, until: int) -> str | None:
        """Let a copy of a version follow by what the view of changes showed at a later one."""
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if (until, model) not in self.views or after is None:
            return None
        columns, rows = self.views[until, model]
        told = [row for row in rows if row[3] > since]
        events: Any = ()
        if before is not None and not any(row[0] == "resync" for row in told):
            between = self.workspace().changes.between(
                self.environment, model, since, until, each=True
            )
            if between.method == "resync":
                return None  # Forgotten by now, and so is what happened to its columns.
            events = between.events
        copy = None
        for version in sorted({row[3] for row in told}):
            step = [row for row in told if row[3] == version]
            if any(row[0] == "resync" for row in step):
                copy = Counter[Row]()
            elif copy is None:
                copy = _copy(before, events, columns[5:])
            gone, come = _split(step)
            assert gone <= copy, "a row goes that is not there"
            copy = copy - gone + come
        if copy is None:
            copy = _copy(before, events, columns[5:])
        assert copy == after[1], f"the view of version {until}"
        return "resync" if any(row[0] == "resync" for row in told) else "steps"


def _copy(before: Any, events: Any, names: list[str]) -> Counter[Row]:
    if before is None:
        return Counter()
    return migrated(before[0], before[1], events, names)


def _split(rows: Iterable[Row]) -> tuple[Counter[Row], Counter[Row]]:
    rows = list(rows)
    return bag(r[5:] for r in rows if r[0] in GONE), bag(r[5:] for r in rows if r[0] in COME)


def follow_everywhere(workspace: Workspace, *models: str) -> Counter[str | None]:
    """Let copies of production's versions follow to the last and back, as queries show them.

    By net changes, version by version, in a query, into Arrow, by a cursor, and by the catalog's
    view where there is one.

    Args:
        workspace: The project, on whatever catalog, state and session.
        models: The models.

    Returns:
        How often changes were found by which method.
    """
    copies, methods = Copies(lambda: workspace), Counter[str | None]()
    versions = sorted(one.version for one in workspace.store.versions.history("prod"))
    last = versions[-1]
    for model in models:
        for version in versions:
            shown = workspace.query(f"prod@{version}", f"SELECT * FROM {model}")
            copies.seen[version, model] = [name for name, _ in shown.columns], bag(shown.rows)
        for since in versions:
            methods[copies.check_net(model, since, last)] += 1
            methods[copies.check_net(model, last, since)] += 1
        assert copies.check_each(model, 0, last)
        told = f"SELECT count(*) AS n FROM changes('{model}', 0) WHERE _change_type = 'insert'"
        rows = copies.seen[last, model][1].total()
        assert workspace.query("prod", told).rows == ((rows,),)
        first = workspace.changes.read_arrow("prod", model, cursor="copy")
        assert first.rows.num_rows == rows
        workspace.changes.acknowledge(first)
        assert workspace.changes.read("prod", model, cursor="copy").changes.method == "nothing"
    if workspace.settings.change_views:
        copies.note()
        for model in models:
            for since in versions:
                assert copies.check_view(model, since, last) == "steps"
    return methods
