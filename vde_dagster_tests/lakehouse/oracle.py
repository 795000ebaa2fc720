"""An independent reader: plain SQL and JSON, nothing of the package under test."""

from __future__ import annotations

import gzip
import json
import os
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import psycopg


@dataclass
class Seen:
    """What a reader finds.

    Args:
        views: SQL of each view, by name.
        tables: Days on `main`, in order of commits, of each table that a view reads.
        branches: Branches beside `main`, by table.
        environments: (version, models) of each live environment.
        held: By environment and table, the Iceberg snapshot that is shown in place of `main`.
        pinned: Days that views of such show, by view.
        filled: Filled ranges by table, as the state store has them.
    """

    views: dict[str, str] = field(default_factory=dict)
    tables: dict[str, list[str]] = field(default_factory=dict)
    branches: dict[str, list[str]] = field(default_factory=dict)
    environments: dict[str, tuple[int, dict[str, str]]] = field(default_factory=dict)
    filled: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    held: dict[tuple[str, str], int] = field(default_factory=dict)
    pinned: dict[str, list[str]] = field(default_factory=dict)

    def visible(self) -> tuple[Any, ...]:
        """What a user of views can see, without what no view reads."""
        read = {table_of(sql) for sql in self.views.values()}
        shown = {name: rows for name, rows in self.tables.items() if name in read}
        return self.views, shown, {n: models for n, (_, models) in self.environments.items()}


def table_of(sql: str) -> str:
    """Name the table that a view reads."""
    return sql.partition(" FROM ")[2].partition(" ")[0]


def query(url: str, sql: str) -> Iterator[tuple[Any, ...]]:
    """Run a query without SQLAlchemy."""
    if url.startswith("sqlite:///"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as conn:
            yield from conn.execute(sql).fetchall()
    else:
        yield from _on_postgres(url, sql)


_KEPT: dict[tuple[int, str], psycopg.Connection[tuple[Any, ...]]] = {}
"""The connection of this process to the database that was read last."""


def _on_postgres(url: str, sql: str) -> list[tuple[Any, ...]]:
    """Read by the connection that is kept: a new one costs the server more than the query."""
    place = os.getpid(), url
    if place in _KEPT:
        # The database was perhaps dropped, and made again, or the server ended the connection.
        with suppress(psycopg.OperationalError):
            return _KEPT[place].execute(sql).fetchall()
    disconnect()
    _KEPT[place] = psycopg.connect(url, autocommit=True)
    return _KEPT[place].execute(sql).fetchall()


def disconnect() -> None:
    """Close the connection that is kept: nobody may be connected to a template."""
    for process, url in list(_KEPT):
        connection = _KEPT.pop((process, url))
        if process == os.getpid():
            connection.close()


def load(location: str) -> dict[str, Any]:
    """Read a metadata file; a pointer to a missing one fails the test here."""
    # Java's servers write `file:/a`.
    data = Path("/" + location.removeprefix("file:").lstrip("/")).read_bytes()
    if data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    parsed: dict[str, Any] = json.loads(data)
    return parsed


Pointers = list[tuple[str, str, str, str]]
"""(namespace, name, metadata file, kind) of every table and view."""
Elsewhere = Path | Callable[[], Pointers] | None
"""A catalog that is not in the state's database: its folder of pointer files, or who reads it."""


def pointers(url: str, folder: Elsewhere = None) -> Pointers:
    """Read (namespace, name, metadata file, kind) of every table and view.

    Args:
        url: The database, which the catalog's tables are in.
        folder: The catalog, where it is elsewhere.
    """
    if callable(folder):
        return folder()
    if folder is None:
        return [
            (row[0], row[1], row[2], row[3])
            for row in query(
                url,
                "SELECT table_namespace, table_name, metadata_location, iceberg_type "
                "FROM iceberg_tables",
            )
        ]
    found = []
    for path in folder.glob("*/*"):
        values = json.loads(path.read_bytes())
        namespace, name = unquote(path.parent.name), unquote(path.name)
        found.append((namespace, name, values["location"], values["kind"]))
    return found


HELD = (
    "SELECT environment, table_id, held_snapshot_id FROM vde_entries "
    "WHERE valid_to IS NULL AND held_schema_id IS NOT NULL"
)
"""What environments show in place of tables' `main`."""


def look(url: str, folder: Elsewhere = None, *, settled: bool = True) -> Seen:
    """Read everything, and check what has to hold at every instant.

    Args:
        url: The database.
        folder: The folder of pointer files, where that is the catalog.
        settled: Whether nobody was interrupted while pointers followed the state's decision.
    """
    seen = Seen()
    locations: dict[str, str] = {}
    metadata_of: dict[str, dict[str, Any]] = {}
    for namespace, name, location, kind in pointers(url, folder):
        full = f"{namespace}.{name}"
        assert location not in locations, "two pointers name one file"
        locations[location] = full
        metadata = load(location)
        if kind == "VIEW":
            current = metadata["current-version-id"]
            (version,) = [v for v in metadata["versions"] if v["version-id"] == current]
            seen.views[full] = version["representations"][0]["sql"]
        else:
            metadata_of[full] = metadata
            seen.tables[full] = _content(metadata)
            seen.branches[full] = [name for name in metadata["refs"] if name != "main"]
    for environment, version in query(
        url, "SELECT environment, version FROM vde_environments WHERE live"
    ):
        models = {
            f"{namespace}.{name}": str(table)
            for namespace, name, table in query(
                url,
                "SELECT model_namespace, model_name, table_id FROM vde_entries "
                f"WHERE environment = '{environment}' AND valid_to IS NULL",
            )
        }
        seen.environments[environment] = (version, models)
    for environment, table_id, snapshot in query(url, HELD):
        if environment in seen.environments:
            seen.held[environment, table_id] = snapshot
    for view, sql in seen.views.items():
        if " VERSION AS OF " in sql and table_of(sql) in metadata_of:
            commit = int(sql.rpartition(" ")[2])
            seen.pinned[view] = _content(metadata_of[table_of(sql)], commit)
    refs = {
        table_id: f"{namespace}.{name}"
        for table_id, namespace, name in query(
            url, "SELECT table_id, namespace, name FROM vde_tables WHERE status <> 'dropped'"
        )
    }
    for table_id, start, end in query(
        url, "SELECT table_id, start_at, end_at FROM vde_intervals ORDER BY 1, 2"
    ):
        seen.filled.setdefault(refs[table_id], []).append((start, end))
    if settled:
        _check_views_agree_with_environments(seen, refs)
        check_pins(url, metadata_of)
    _check_no_interval_is_written_twice(seen)
    _check_what_is_filled_is_there(seen)
    return seen


def check_pins(url: str, tables: Mapping[str, dict[str, Any]]) -> None:
    """Check that every environment pins what it shows, and production just what is there.

    Args:
        url: The state's database.
        tables: Metadata by table.
    """
    refs = {
        table_id: f"{namespace}.{name}".partition("@")[::2]
        for table_id, namespace, name in query(
            url, "SELECT table_id, namespace, name FROM vde_tables WHERE status <> 'dropped'"
        )
    }
    held = {(environment, table_id): at for environment, table_id, at in query(url, HELD)}
    for environment, table_id in query(
        url,
        "SELECT DISTINCT environment, table_id FROM vde_entries "
        "WHERE valid_to IS NULL AND table_id IS NOT NULL",
    ):
        name, branch = refs[table_id]
        pins = list(
            query(
                url,
                "SELECT iceberg_snapshot_id FROM vde_pins WHERE valid_to IS NULL "
                f"AND environment = '{environment}' AND table_id = '{table_id}'",
            )
        )
        assert len(pins) == 1, f"{environment} shows {name} and does not pin it once"
        ref = tables[name]["refs"].get(branch or "main", {})
        kept = {item["snapshot-id"] for item in tables[name]["snapshots"]}
        if environment == "prod":
            assert pins == [(ref.get("snapshot-id"),)], f"{name} is not at its pin"
        if (environment, table_id) in held:
            assert pins == [(held[environment, table_id],)], f"{name} is not pinned as it is held"
        assert pins[0][0] is None or pins[0][0] in kept, f"the pin of {name} is gone"
    for environment, version, table_id, pin in query(url, _PINNED):
        kept = {item["snapshot-id"] for item in tables[refs[table_id][0]]["snapshots"]}
        assert pin in kept, f"{environment}@{version} pins of {refs[table_id][0]} what is gone"
    (unheld,) = query(url, _UNHELD)
    assert unheld == (0,), "a frozen environment shows a table as it is"
    gone = (
        "SELECT count(*) FROM vde_pins p WHERE valid_to IS NULL AND NOT EXISTS (SELECT 1 FROM "
        "vde_entries e WHERE e.environment = p.environment AND e.table_id = p.table_id AND "
        "e.valid_to IS NULL)"
    )
    assert list(query(url, gone)) == [(0,)], "something is pinned that is not shown"


def pinned(url: str) -> dict[tuple[str, int, str], list[str]]:
    """Return the days that kept versions of live environments pin, by version and table."""
    refs = {
        table_id: f"{namespace}.{name}".partition("@")[0]
        for table_id, namespace, name in query(
            url, "SELECT table_id, namespace, name FROM vde_tables WHERE status <> 'dropped'"
        )
    }
    locations = {f"{ref[0]}.{ref[1]}": ref[2] for ref in pointers(url)}
    loaded = {name: load(locations[name]) for name in set(refs.values()) & locations.keys()}
    return {
        (environment, version, table_id): _content(loaded[refs[table_id]], pin)
        for environment, version, table_id, pin in query(url, _PINNED)
    }


_PINNED = """
    SELECT p.environment, v.version, p.table_id, p.iceberg_snapshot_id
    FROM vde_pins p
    JOIN vde_environments e ON e.environment = p.environment AND e.live
    JOIN vde_environment_versions v ON v.environment = p.environment
      AND v.version >= p.valid_from AND (p.valid_to IS NULL OR v.version < p.valid_to)
    WHERE p.iceberg_snapshot_id IS NOT NULL AND NOT EXISTS (
      SELECT 1 FROM vde_environment_versions d WHERE d.environment = v.environment
      AND d.version >= v.version AND d.dropped)
"""
_UNHELD = """
    SELECT count(*) FROM vde_entries n
    JOIN vde_environments e ON e.environment = n.environment AND e.live
    JOIN vde_environment_versions v ON v.environment = e.environment AND v.version = e.version
    WHERE v.frozen IS NOT NULL AND n.valid_to IS NULL AND n.table_id IS NOT NULL
      AND n.held_schema_id IS NULL
"""


def _content(metadata: dict[str, Any], head: int | None = None) -> list[str]:
    if head is None:
        head = metadata.get("refs", {}).get("main", {}).get("snapshot-id")
    if head is None:
        return []
    snapshots = {item["snapshot-id"]: item for item in metadata["snapshots"]}
    assert head in snapshots, "what is shown is gone"
    content: list[str] = json.loads(snapshots[head]["summary"]["fake.content"])
    return content


def _check_views_agree_with_environments(seen: Seen, refs: dict[str, str]) -> None:
    expected = {}
    for environment, (_, models) in seen.environments.items():
        suffix = "" if environment == "prod" else f"__{environment}"
        for model, table_id in models.items():
            namespace, name = model.split(".")
            assert table_id in refs, f"{environment} shows a table that was dropped"
            at = seen.held.get((environment, table_id))
            sql = f"SELECT a FROM {refs[table_id]}"
            held = f" VERSION AS OF {at}" if at is not None else ""
            expected[f"{namespace}{suffix}.{name}"] = sql + held
    assert seen.views == expected, "views and environments disagree"
    for sql in seen.views.values():
        assert table_of(sql) in seen.tables, "a view reads a table that is not there"


def _check_no_interval_is_written_twice(seen: Seen) -> None:
    for name, intervals in seen.tables.items():
        assert len(intervals) == len(set(intervals)), f"{name} has an interval twice"


def _check_what_is_filled_is_there(seen: Seen) -> None:
    """Each range that the state calls filled is on `main`: nothing acknowledged is lost."""
    for name, ranges in seen.filled.items():
        if name in seen.tables:
            days = sum((end - start) // 86_400_000_000 for start, end in ranges)
            assert days <= len(seen.tables[name]), f"{name} lacks an interval it is said to have"
