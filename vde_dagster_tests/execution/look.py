"""An independent reader of everything: plain SQL and JSON, nothing of the package under test.

`look` also checks what has to hold at every instant, whoever crashed or stalled.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from vde_dagster_tests.lakehouse.oracle import Elsewhere, check_pins, load, pointers, query

_TABLE = re.compile(r"`\w+`\.`(vde__[^`]+)`\.`([^`]+)`")
_PREVIEW = re.compile(r"vde_preview_\w+")
_PINNED = re.compile(r"VERSION AS OF (\d+)")
_MICROSECONDS = 1_000_000


@dataclass
class Warehouse:
    """What a reader finds.

    Args:
        views: SQL by view.
        tables: Metadata by table.
        environments: (version, publication id, table by model) by environment.
        filled: Filled ranges in seconds since 1970 by table, as the state has them.
        locations: Metadata file by view and table.
        held: By view, the Iceberg snapshot of its table that it shows in place of `main`.
        pinned: Iceberg snapshots that versions showed, from which a rollback may have gone back.
        outdated: What is to be computed again, as `filled`.
        previews: Branches that are tables of their own, as the state has them.
    """

    views: dict[str, str] = field(default_factory=dict)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    environments: dict[str, tuple[int, str, dict[str, str]]] = field(default_factory=dict)
    filled: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    locations: dict[str, str] = field(default_factory=dict)
    previews: set[str] = field(default_factory=set)
    pinned: set[int] = field(default_factory=set)
    outdated: dict[str, list[tuple[float, float]]] = field(default_factory=dict)
    held: dict[str, int | None] = field(default_factory=dict)

    def read_by(self, view: str) -> list[str]:
        """Name the tables that a view reads."""
        return [f"{namespace}.{name}" for namespace, name in _TABLE.findall(self.views[view])]

    def shown(self) -> set[str]:
        """Name the tables that views read."""
        return {table for view in self.views for table in self.read_by(view)}

    def branches(self) -> dict[str, list[str]]:
        """Name the branches beside `main`, of the tables that have any."""
        found = {
            name: [ref for ref in metadata["refs"] if ref not in ("main", *self.previews)]
            for name, metadata in self.tables.items()
        }
        return {name: refs for name, refs in found.items() if refs}

    def visible(self) -> object:
        """What users see, with tables numbered: a retry may give another unique name."""
        numbers: dict[str, str] = {}
        views = {}
        for view in sorted(self.views):
            for name in self.read_by(view):
                numbers.setdefault(name, f"table {len(numbers)}")
            views[view] = _TABLE.sub(
                lambda match: numbers[f"{match[1]}.{match[2]}"], self.views[view]
            )
            views[view] = _PREVIEW.sub("preview", views[view])
        rows = {number: made_of(self.tables[name]) for name, number in numbers.items()}
        models = {name: sorted(models) for name, (_, _, models) in self.environments.items()}
        return views, rows, models


def line(metadata: dict[str, Any], branch: str = "main") -> Iterator[dict[str, Any]]:
    """Walk the commits of a branch, newest first, as far as they are kept."""
    snapshots = {item["snapshot-id"]: item for item in metadata["snapshots"]}
    head = metadata["refs"].get(branch, {}).get("snapshot-id")
    while head in snapshots:
        yield snapshots[head]
        head = snapshots[head].get("parent-snapshot-id")


def begins(commit: dict[str, Any]) -> bool:
    """Say whether a commit is the empty one that a table's first branch begins with."""
    summary = commit["summary"]
    return "parent-snapshot-id" not in commit and summary.get("total-data-files") == "0"


def fills(metadata: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Walk the commits of `main` that wrote something, newest first."""
    return (commit for commit in line(metadata) if not begins(commit))


def made_of(metadata: dict[str, Any]) -> dict[int, list[tuple[float, float]]]:
    """The ranges that `main` holds, joined, in seconds since 1970, by the state of the sources."""
    newest = next(fills(metadata), None)
    held: dict[int, list[tuple[float, float]]] = {}
    for text, sources in json.loads(newest["summary"]["fake.content"]) if newest else ():
        held.setdefault(sources, []).append(_seconds(text))
    return {sources: _joined(sorted(parts)) for sources, parts in held.items()}


def ranges(metadata: dict[str, Any]) -> list[tuple[float, float]]:
    """The ranges that `main` holds, joined, in seconds since 1970."""
    return _joined(sorted(part for parts in made_of(metadata).values() for part in parts))


def look(url: str, folder: Elsewhere = None, *, views: bool = True) -> Warehouse:
    """Read everything, and check it.

    Args:
        url: The database.
        folder: The folder of pointer files, where that is the catalog.
        views: Whether environments have views; otherwise there are none.
    """
    seen = Warehouse()
    rows = pointers(url, folder)
    assert len({row[2] for row in rows}) == len(rows), "two pointers name one file"
    for namespace, name, location, kind in rows:
        metadata = load(location)
        seen.locations[f"{namespace}.{name}"] = location
        if kind == "VIEW":
            current = metadata["current-version-id"]
            (version,) = [v for v in metadata["versions"] if v["version-id"] == current]
            (sql,) = [r["sql"] for r in version["representations"] if r["dialect"] == "spark"]
            seen.views[f"{namespace}.{name}"] = sql
        else:
            seen.tables[f"{namespace}.{name}"] = metadata
    _read_state(url, seen)
    if views:
        _check_views(seen)
    else:
        assert not seen.views, "there is a view"
    check_pins(url, seen.tables)
    _check_rows(seen)
    _check_nothing_unpublished_was_read(seen)
    return seen


def _read_state(url: str, seen: Warehouse) -> None:
    refs = {
        table_id: f"{namespace}.{name}"
        for table_id, namespace, name in query(
            url, "SELECT table_id, namespace, name FROM vde_tables WHERE status <> 'dropped'"
        )
    }
    seen.pinned = {row[0] for row in query(url, "SELECT iceberg_snapshot_id FROM vde_pins")}
    seen.previews = {name.partition("@")[2] for name in refs.values() if "@" in name}
    versions = {
        (name, version): publication
        for name, version, publication in query(
            url, "SELECT environment, version, publication_id FROM vde_environment_versions"
        )
    }
    for name, version in query(url, "SELECT environment, version FROM vde_environments WHERE live"):
        entries = list(
            query(
                url,
                "SELECT model_namespace, model_name, table_id, held_schema_id, held_snapshot_id "
                f"FROM vde_entries WHERE environment = '{name}' AND valid_to IS NULL",
            )
        )
        suffix = "" if name == "prod" else f"__{name}"
        for namespace, model, _, held, at in entries:
            if held is not None:
                seen.held[f"{namespace}{suffix}.{model}"] = at
        models = {
            f"{row[0]}.{row[1]}": refs[row[2]].partition("@")[0] if row[2] else ""
            for row in entries
        }
        seen.environments[name] = (version, versions[name, version], models)
    for table_id, start, end in query(url, "SELECT table_id, start_at, end_at FROM vde_outdated"):
        if table_id in refs:
            given_up = seen.outdated.setdefault(refs[table_id], [])
            given_up.append((start / _MICROSECONDS, end / _MICROSECONDS))
    for table_id, start, end in query(url, "SELECT table_id, start_at, end_at FROM vde_intervals"):
        filled = seen.filled.setdefault(refs[table_id], [])
        filled.append((start / _MICROSECONDS, end / _MICROSECONDS))


def _check_views(seen: Warehouse) -> None:
    expected = {}
    for environment, (_, _, models) in seen.environments.items():
        suffix = "" if environment == "prod" else f"__{environment}"
        for model, table in models.items():
            namespace, name = model.split(".")
            expected[f"{namespace}{suffix}.{name}"] = table
    assert seen.views.keys() == expected.keys(), "views and environments disagree"
    for view, table in expected.items():
        read = seen.read_by(view)
        assert set(read) <= seen.tables.keys(), f"{view} reads a table that is not there"
        at = seen.held.get(view)
        empty = view in seen.held and at is None
        assert not table or empty or read == [table], (
            f"{view} reads another table than its environment says"
        )
        if table:
            found = _PINNED.findall(seen.views[view])
            assert found == ([str(at)] if at is not None else []), f"{view} shows another state"


def _check_rows(seen: Warehouse) -> None:
    for name, metadata in seen.tables.items():
        filled = [_written(item["summary"]) for item in fills(metadata)]
        assert len(filled) == len(set(filled)), f"{name} has a range written twice"
        recorded = _joined(sorted(seen.filled.get(name, [])))
        # What is made of rows that are gone was recorded, and is to be computed again.
        known = _joined(sorted(recorded + seen.outdated.get(name, [])))
        for start, end in ranges(metadata):
            inside = any(first <= start and end <= last for first, last in known)
            assert inside, f"{name} has rows on main that nobody recorded as audited"
        assert bool(recorded) <= bool(filled), f"{name} is said to be filled and is empty"


def _written(summary: dict[str, str]) -> tuple[str, int]:
    """The range that a commit filled, and of which state of the sources."""
    *_, (_, sources) = json.loads(summary["fake.content"])
    return summary["vde.interval"], sources


def _check_nothing_unpublished_was_read(seen: Warehouse) -> None:
    for name in seen.shown():
        for commit in fills(seen.tables[name]):
            read = json.loads(commit["summary"]["fake.read"])
            for other, snapshot_id in read.items():
                if other not in seen.tables:
                    continue
                branches = ("main", *(seen.previews & seen.tables[other]["refs"].keys()))
                main = {i["snapshot-id"] for b in branches for i in line(seen.tables[other], b)}
                kept = {item["snapshot-id"] for item in seen.tables[other]["snapshots"]}
                lost = snapshot_id in kept - main - seen.pinned
                assert not lost, f"{name} was computed from rows that were never published"


def _seconds(text: str) -> tuple[float, float]:
    start, end = text.split("/")
    return _instant(start), _instant(end)


def _instant(text: str) -> float:
    return datetime.fromisoformat(text.replace("Z", "+00:00")).astimezone(timezone.utc).timestamp()


def _joined(parts: list[tuple[float, float]]) -> list[tuple[float, float]]:
    out: list[tuple[float, float]] = []
    for start, end in parts:
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out
