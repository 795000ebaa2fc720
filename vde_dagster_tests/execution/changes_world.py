"""Random histories of a published view over simulated Iceberg tables, which DuckDB reads.

A table is a list of snapshots of immutable files, as Iceberg's specification has them: rows have
positions, delete files hide some, format version 3 gives each row an id and the number of the
commit that changed it last. Its log of changes is made of files that commits add and remove,
carried-over rows and all. None of this knows how changes are found.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

import duckdb
import sqlglot

from vde_dagster.base.names import ModelName
from vde_dagster.execution.changes.between import version_steps
from vde_dagster.execution.changes.compare_versions import (
    ComparedSides,
    ModelChanges,
    Side,
    TableAtPin,
)
from vde_dagster.lakehouse.metadata.table_metadata import columns_of
from vde_dagster.planning.changes.columns import ColumnEvent, ViewColumn
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.pinned_reads import PinnedTable, pinned_select
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.state.environments.pins import Pin

Row = tuple[Any, ...]
NAME = ModelName("shop", "orders")
TYPES = {"int": ("INT", "INTEGER"), "long": ("BIGINT", "BIGINT"), "string": ("STRING", "VARCHAR")}
LETTERS = "abc"


@dataclass(frozen=True)
class File:
    """A data file: rows as (id, number of the last change, values by field id)."""

    rows: tuple[tuple[int, int, Mapping[int, Any]], ...]


@dataclass(frozen=True)
class State:
    """A snapshot's files, with the positions that deletes hide."""

    files: Mapping[int, File]
    hidden: frozenset[tuple[int, int]] = frozenset()

    def rows(self) -> list[tuple[int, int, int, int, Mapping[int, Any]]]:
        """Live rows as (file, position, id, number of the last change, values)."""
        return [
            (number, place, *row)
            for number, file in self.files.items()
            for place, row in enumerate(file.rows)
            if (number, place) not in self.hidden
        ]


class Table:
    """A physical table: its Iceberg metadata as JSON, and what its snapshots hold."""

    def __init__(self, number: int, kinds: Mapping[str, str], how: str, dice: random.Random):
        self.name, self.how, self.dice = f"t{number}", how, dice
        self.ref = TableRef("lake", self.name)
        self.states: dict[int, State] = {}
        self.added: dict[int, tuple[set[int], set[int]]] = {}
        self.head: int | None = None
        self.sequence = self.next_file = self.next_row = 0
        fields = [
            {"id": i, "name": name, "type": kind, "required": False}
            for i, (name, kind) in enumerate(kinds.items(), 1)
        ]
        self.metadata: dict[str, Any] = {
            "format-version": 3 if how.startswith("v3") else 2,
            "current-schema-id": 0,
            "schemas": [{"schema-id": 0, "fields": fields}],
            "snapshots": [],
        }

    def fields(self, schema_id: int | None = None) -> list[dict[str, Any]]:
        """The fields of a schema; the current one by default."""
        wanted = self.metadata["current-schema-id"] if schema_id is None else schema_id
        found: list[dict[str, Any]] = self.metadata["schemas"][wanted]["fields"]
        return found

    def now(self) -> State:
        """What readers of main see."""
        return self.states[self.head] if self.head is not None else State({})

    def evolve(self) -> str | None:
        """Add a column, or widen one; return the name of a new column."""
        fields, added = [dict(one) for one in self.fields()], None
        narrow = [one for one in fields if one["type"] == "int"]
        if narrow and self.dice.random() < 0.4:
            self.dice.choice(narrow)["type"] = "long"
        else:
            added = f"p{len(fields) + 1}"
            kind = self.dice.choice(["int", "string"])
            fields.append({"id": len(fields) + 1, "name": added, "type": kind, "required": False})
        schema_id = len(self.metadata["schemas"])
        self.metadata["schemas"].append({"schema-id": schema_id, "fields": fields})
        self.metadata["current-schema-id"] = schema_id
        return added

    def value(self, kind: str) -> Any:
        """Some value, out of few, so that rows are often equal."""
        if self.dice.random() < 0.2:
            return None
        return self.dice.choice(LETTERS) if kind == "string" else self.dice.randrange(3)

    def values(self) -> dict[int, Any]:
        """A row."""
        return {one["id"]: self.value(one["type"]) for one in self.fields()}

    def change(self) -> None:
        """Commit something to main."""
        before, dice = self.now(), self.dice
        rows = before.rows()
        kind = dice.choice(["append", "append", "overwrite", "update", "delete", "replace", "noop"])
        if kind == "append" or not rows:
            self._commit("append", before, [self._new() for _ in range(dice.randrange(1, 4))])
        elif kind == "overwrite":
            gone = {n for n in before.files if dice.random() < 0.7}
            fresh = [self._new() for _ in range(dice.randrange(4))]
            fresh += [self._again(row) for row in rows if row[0] in gone and dice.random() < 0.5]
            self._commit("overwrite", before, fresh, gone)
        elif kind in ("update", "delete"):
            hit = [row for row in rows if dice.random() < 0.4] or rows[:1]
            fresh = [self._changed(row) for row in hit] if kind == "update" else []
            if self.how.endswith("mor"):
                hidden = {(row[0], row[1]) for row in hit}
                self._commit("overwrite", before, fresh, hidden=hidden)
            else:
                gone = {row[0] for row in hit}
                places = {(row[0], row[1]) for row in hit}
                fresh += [
                    row[2:] for row in rows if row[0] in gone and (row[0], row[1]) not in places
                ]
                self._commit("overwrite", before, fresh, gone)
        elif kind == "replace":
            gone = {n for n in before.files if dice.random() < 0.7}
            self._commit("replace", before, [r[2:] for r in rows if r[0] in gone], gone)
        else:
            self._commit("overwrite", before, [])

    def back(self) -> None:
        """Move main to some older snapshot."""
        kept = [one["snapshot-id"] for one in self.metadata["snapshots"]]
        self.head = self.dice.choice([None, *kept])

    def forget(self, pinned: set[int]) -> None:
        """Expire some snapshots that nothing pins."""
        self.metadata["snapshots"] = [
            one
            for one in self.metadata["snapshots"]
            if one["snapshot-id"] in {*pinned, self.head} or self.dice.random() < 0.5
        ]

    def _new(self) -> tuple[int, int, dict[int, Any]]:
        self.next_row += 1
        return self.next_row, self.sequence + 1, self.values()

    def _again(self, row: Any) -> tuple[int, int, Mapping[int, Any]]:
        """Write the same values as another row."""
        self.next_row += 1
        return self.next_row, self.sequence + 1, row[4]

    def _changed(self, row: Any) -> tuple[int, int, dict[int, Any]]:
        field = self.dice.choice(self.fields())
        values = {**row[4], field["id"]: self.value(field["type"])}
        return row[2], self.sequence + 1, values

    def _commit(
        self,
        operation: str,
        before: State,
        rows: list[Any],
        gone: set[int] = frozenset(),  # type: ignore[assignment]
        hidden: set[tuple[int, int]] = frozenset(),  # type: ignore[assignment]
    ) -> None:
        self.sequence += 1
        snapshot_id = 1000 * int(self.name[1:]) + self.sequence
        files = {number: file for number, file in before.files.items() if number not in gone}
        new: set[int] = set()
        while rows:
            size = self.dice.randrange(1, len(rows) + 1)
            files[self.next_file] = File(tuple(rows[:size]))
            new.add(self.next_file)
            rows, self.next_file = rows[size:], self.next_file + 1
        still = {one for one in {*before.hidden, *hidden} if one[0] in files}
        state = State(files, frozenset(still))
        counted = {
            "added-data-files": len(new),
            "deleted-data-files": len(gone),
            "added-records": sum(len(files[one].rows) for one in new),
            "deleted-records": sum(len(before.files[one].rows) for one in gone),
            "added-position-deletes": len(hidden),
            "total-records": sum(len(file.rows) for file in files.values()),
            "total-delete-files": len({one[0] for one in still}),
            "total-position-deletes": len(still),
            "total-equality-deletes": 0,
        }
        said = {name: str(value) for name, value in counted.items()}
        snapshot: dict[str, Any] = {
            "snapshot-id": snapshot_id,
            "sequence-number": self.sequence,
            "schema-id": self.metadata["current-schema-id"],
            "summary": {"operation": operation, **said},
        }
        if self.head is not None:
            snapshot["parent-snapshot-id"] = self.head
        if self.metadata["format-version"] == 3:
            snapshot["first-row-id"] = 0
        self.metadata["snapshots"].append(snapshot)
        self.states[snapshot_id] = state
        self.added[snapshot_id] = (new, set() if operation == "replace" else set(gone))
        if operation == "replace":
            self.added[snapshot_id] = (set(), set())
        self.parents = {**getattr(self, "parents", {}), snapshot_id: (self.head, before)}
        self.head = snapshot_id

    def log(self, since: int | None, until: int) -> list[tuple[str, Mapping[int, Any]]]:
        """The log of changes of a range of commits, as Iceberg has it."""
        kept = {one["snapshot-id"] for one in self.metadata["snapshots"]}
        out: list[tuple[str, Mapping[int, Any]]] = []
        at: int | None = until
        while at is not None and at != since:
            assert at in kept, "the range has a commit that is not kept"
            parent, before = self.parents[at]
            assert not self.states[at].hidden, "delete files are not supported"
            assert not before.hidden, "delete files are not supported"
            new, gone = self.added[at]
            out += [("INSERT", r[2]) for n in new for r in self.states[at].files[n].rows]
            out += [("DELETE", r[2]) for n in gone for r in before.files[n].rows]
            at = parent
        assert at == since, "the range does not begin where it says"
        return out


@dataclass(frozen=True)
class Shown:
    """A version of the view: a table, a snapshot, and (name, place, meaning) of its columns."""

    table: Table
    pin: Pin
    columns: tuple[tuple[str, str, str], ...]
    keys: tuple[frozenset[str], ...]

    def side(self) -> Side:
        """As the package finds it."""
        metadata, pin = self.table.metadata, self.pin
        types = columns_of(metadata, pin.schema_id)
        found = (s for s in metadata["snapshots"] if s["snapshot-id"] == pin.snapshot_id)
        written = next(found)["schema-id"] if pin.snapshot_id else None
        state = PinnedTable(pin.snapshot_id, types, columns_of(metadata, written))
        own = [(name, name) for name in types]
        inner = pinned_select(f"`lake`.`{self.table.name}`", state, own)
        listed = ", ".join(f"`{place}` AS `{name}`" for name, place, _ in self.columns)
        columns = tuple(
            ViewColumn(name, types[place], version, place) for name, place, version in self.columns
        )
        physical = PhysicalTable(self.table.name, self.table.ref, "v", (), "s")
        query = f"SELECT {listed} FROM ({inner})"
        return Side(query, columns, self.keys, TableAtPin(physical, pin, metadata), None)

    def rows(self) -> Counter[Row]:
        """What readers see, told from the files alone."""
        ids = {one["name"]: one["id"] for one in self.table.fields(self.pin.schema_id)}
        places = [ids[place] for _, place, _ in self.columns]
        if self.pin.snapshot_id is None:
            return Counter()
        state = self.table.states[self.pin.snapshot_id]
        return Counter(tuple(row[4].get(one) for one in places) for row in state.rows())


@dataclass
class World:
    """A view, published again and again.

    Args:
        seed: Says which history.
        hows: Which tables there are: by format version, and by how they are changed.
    """

    seed: int
    hows: tuple[str, ...] = ("v2cow", "v2cow", "v2mor", "v3cow", "v3mor")
    versions: dict[int, Shown | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.tables: list[Table] = []
        self.db = duckdb.connect(":memory:", config={"threads": 1})
        self.made: set[str] = set()
        self.meanings = 0
        self._swap()

    def _swap(self) -> None:
        """Serve the view by a new table, of which some columns mean what those before did."""
        how = self.dice.choice(self.hows)
        kinds = {f"p{i}": self.dice.choice(["int", "string"]) for i in range(1, 4)}
        table = Table(len(self.tables) + 1, kinds, how, self.dice)
        known = dict(self.meaning) if self.tables else {}
        self.tables.append(table)
        self.table = table
        self.meaning = {
            place: known[place] if place in known and self.dice.random() < 0.5 else self._mean()
            for place in kinds
        }
        self._project()
        for _ in range(self.dice.randrange(3)):
            table.change()

    def _mean(self) -> str:
        self.meanings += 1
        return f"m{self.meanings}"

    def _project(self) -> None:
        """Choose, name and order columns anew; columns may be there twice."""
        places = [one["name"] for one in self.table.fields()]
        chosen = self.dice.sample(places, self.dice.randrange(1, len(places) + 1))
        names = self.dice.sample("vwxyz", len(chosen))
        self.columns = tuple(
            (name, place, self.meaning[place]) for name, place in zip(names, chosen, strict=True)
        )
        self.keys = tuple(
            frozenset(self.dice.sample(names, self.dice.randrange(1, len(names) + 1)))
            for _ in range(self.dice.randrange(2))
        )

    def publish(self) -> None:
        """Make the next version, of whatever happened meanwhile."""
        what = self.dice.random()
        if what < 0.15:
            self._swap()
        elif what < 0.25 and self.versions:
            old = self.versions[self.dice.choice(list(self.versions))]
            if old is not None:  # A rollback, with the data or without them.
                self.table, self.columns, self.keys = old.table, old.columns, old.keys
                self.meaning = {place: version for _, place, version in old.columns} | {
                    one["name"]: self.meaning.get(one["name"]) or self._mean()
                    for one in old.table.fields()
                    if one["name"] not in {place for _, place, _ in old.columns}
                }
                if self.dice.random() < 0.6:
                    self.table.head = old.pin.snapshot_id
        elif what < 0.35:
            self._project()
        elif what < 0.45:
            added = self.table.evolve()
            if added is not None:
                self.meaning[added] = self._mean()
                if self.dice.random() < 0.5:
                    free = next(n for n in "vwxyzu" if n not in {c[0] for c in self.columns})
                    self.columns += ((free, added, self.meaning[added]),)
        elif what < 0.5:
            self.table.back()
        for _ in range(self.dice.randrange(4)):
            self.table.change()
        gone = self.dice.random() < 0.05
        number = len(self.versions) + 1
        schema_id = self.table.metadata["current-schema-id"]
        pin = Pin(self.table.name, self.table.head, schema_id, None, number)
        shown = Shown(self.table, pin, self.columns, self.keys)
        self.versions[number] = None if gone else shown
        if self.dice.random() < 0.3:
            for table in self.tables:
                table.forget(
                    {
                        one.pin.snapshot_id
                        for one in self.versions.values()
                        if one is not None and one.table is table and one.pin.snapshot_id
                    }
                )

    def changes(self, since: int, until: int) -> ModelChanges:
        """What the package says of two versions."""
        at = datetime(2024, 1, 1, tzinfo=timezone.utc)
        later = Environment("prod", until, {}, f"p{until}", at, "me")
        one, two = self.versions[since], self.versions[until]
        before, after = (version.side() if version else None for version in (one, two))
        return ComparedSides("lake", later, NAME, since, before, after).changes()

    def steps(self, since: int, until: int, *, pinned_only: bool = False) -> ModelChanges:
        """What the package says of each version from one to another."""
        at = datetime(2024, 1, 1, tzinfo=timezone.utc)
        shown = []
        for number in range(since, until + 1):
            version = self.versions[number] if number else None
            side = version.side() if version else None
            shown.append((Environment("prod", number, {}, f"p{number}", at, "me"), side))
        whole = ModelChanges(
            *("prod", NAME, since, until, f"p{until}", "nothing", None, (), (), (), "")
        )
        return version_steps("lake", NAME, shown, whole, pinned_only=pinned_only)

    def read(self, changes: ModelChanges) -> list[Row]:
        """Run the query of changes."""
        sql = re.sub(
            r"(?:`lake`\.)?`lake`\.`(\w+)` VERSION AS OF (\d+)", self._snapshot, changes.query
        )
        logs = re.findall(r"\.`changes` ", sql, re.IGNORECASE)
        assert len(set(logs)) == len(logs), "Spark would read one log twice"
        log = r"(?i)`lake`\.`lake`\.`(\w+)`\.`changes` WITH \(([^)]*)\)"
        sql = re.sub(log, self._log, sql)
        return self.db.execute(sqlglot.transpile(sql, read="spark", write="duckdb")[0]).fetchall()

    def _snapshot(self, match: re.Match[str]) -> str:
        table, snapshot_id = self.tables[int(match[1][1:]) - 1], int(match[2])
        name = f"{table.name}_{snapshot_id}"
        schema_id = next(
            s["schema-id"] for s in table.metadata["snapshots"] if s["snapshot-id"] == snapshot_id
        )
        rows = [
            (*(row[4].get(one["id"]) for one in table.fields(schema_id)), row[2], row[3])
            for row in table.states[snapshot_id].rows()
        ]
        extra = "" if table.metadata["format-version"] < 3 else "_row_id BIGINT, "
        extra += "_last_updated_sequence_number BIGINT" if extra else ""
        self._make(name, table.fields(schema_id), rows, extra)
        return name

    def _log(self, match: re.Match[str]) -> str:
        table = self.tables[int(match[1][1:]) - 1]
        said = dict(re.findall(r"`(\w+)-snapshot-id` = '(\d+)'", match[2]))
        since = int(said["start"]) if "start" in said else None
        name = f"{table.name}_{since}_{said['end']}_{table.metadata['current-schema-id']}"
        rows = [
            (*(values.get(one["id"]) for one in table.fields()), change)
            for change, values in table.log(since, int(said["end"]))
        ]
        self._make(name, table.fields(), rows, "_change_type VARCHAR")
        return name

    def _make(self, name: str, fields: list[dict[str, Any]], rows: list[Row], extra: str) -> None:
        if name in self.made:
            return
        self.made.add(name)
        columns = [f"{one['name']} {TYPES[one['type']][1]}" for one in fields]
        columns += [extra] if extra else []
        width = len(fields) + extra.count(",") + bool(extra)
        self.db.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
        if rows:
            marks = f"({', '.join('?' * width)})"
            flat = [value for row in rows for value in row[:width]]
            self.db.execute(f"INSERT INTO {name} VALUES {', '.join([marks] * len(rows))}", flat)

    def close(self) -> None:
        """Free the database."""
        self.db.close()


def migrated(
    columns: list[str], rows: Counter[Row], events: tuple[ColumnEvent, ...], wanted: list[str]
) -> Counter[Row]:
    """Do to a copy's columns what was told, and nothing else."""
    renamed = {event.was: event.column for event in events if event.what == "renamed"}
    removed = {event.column for event in events if event.what == "removed"}
    added = {event.column for event in events if event.what == "added"}
    now = [renamed.get(name, name) for name in columns if name not in removed]
    assert len(set(now)) == len(now)
    assert {*now, *added} == {*wanted}
    assert not {*now} & added
    kept = [i for i, name in enumerate(columns) if name not in removed]
    out: Counter[Row] = Counter()
    for row, count in rows.items():
        values = dict(zip(now, (row[i] for i in kept), strict=True))
        out[tuple(values.get(name) for name in wanted)] += count
    return out


__all__ = ["Shown", "World", "migrated"]
