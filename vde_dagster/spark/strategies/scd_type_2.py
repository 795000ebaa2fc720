"""SCD_TYPE_2_BY_TIME and SCD_TYPE_2_BY_COLUMN: one MERGE ends and begins versions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from vde_dagster.base.names import quote
from vde_dagster.planning.engine_tasks import FillTask
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.nested_fields import ShownFields
from vde_dagster.project.kinds import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.project.kinds.scd_type_2 import ALL
from vde_dagster.spark.strategies.base import Layout, Strategy, Write, latest_first, strategy_for
from vde_dagster.spark.strategies.changed_keys import KeysView, changed_keys, select_rows


@strategy_for(ScdType2ByTime, ScdType2ByColumn)
class Scd(Strategy):
    """Compares a query's rows with the latest version of each key, and writes the differences.

    If a key has several rows, `latest_first` chooses one, except for dbt's snapshots.
    """

    own_session = True

    def layout(self, snapshot: Snapshot, types: Mapping[str, str]) -> Layout:
        """Return a layout that merges on read, so that unchanged rows are not written again."""
        return Layout(properties={"write.merge.mode": "merge-on-read"})

    def write(self, write: Write) -> None:
        kind = ScdType2.from_model(write.task.snapshot.model)
        for name in (*kind.named_columns, *(column.name for column in kind.added_columns)):
            write.physical_name(name)
        written = DbtVersions if kind.as_dbt else Versions
        shown = write.compared_fields()
        with (
            changed_keys(write) as keys,
            write.source(select_rows(write, keys)) as source,
            write.committing(),
            write.in_utc(),
        ):
            now = _now(kind, write.task)
            versions = written(kind, write.types, write.physical, now, shown, keys)
            rows = f"SELECT * FROM {source}"
            # Changes are computed from the table and then merged into it. The table must not change
            # in between, so both happen on a branch without other writers.
            write.staged(lambda at: _write(write, versions, rows, at), "merged")


def _now(kind: ScdType2, task: FillTask) -> datetime:
    # A batch reads the state at its interval's start, any other query the state when it runs.
    return task.execution_time if kind.batch_size is None else task.interval.start


def _write(write: Write, versions: Versions, source: str, staging: str) -> None:
    if write.task.anew or not write.table.was_filled(staging):
        # The table is loaded for the first time, or again from its beginning.
        rows = write.session.sql(versions.first_rows(source))
        write.overwrite(rows, staging)
    else:
        write.session.sql(versions.merge(write.target(staging), source))


UNKNOWN_START = datetime(1970, 1, 1)
"""Start of versions whose start is unknown, as in a first load."""


@dataclass(frozen=True, slots=True)
class Versions:
    """Writes the SQL of a fill that compares new rows with stored versions, for a session in UTC.

    Args:
        types: Spark SQL type by physical column.
        physical: Physical column by output column in lower case.
        at: The instant that this fill uses as the current one (UTC).
        fields: The fields to compare, by physical column; see `Write.compared_fields`.
        keys: The keys to compare; None if the source has the rows of all keys.
    """

    kind: ScdType2
    types: Mapping[str, str]
    physical: Mapping[str, str]
    at: datetime
    fields: Mapping[str, ShownFields] = field(default_factory=dict)
    keys: KeysView | None = None

    @property
    def valid_from(self) -> str:
        return self._physical(self.kind.valid_from_name)

    @property
    def valid_to(self) -> str:
        return self._physical(self.kind.valid_to_name)

    @property
    def key(self) -> list[str]:
        return [self._physical(name) for name in self.kind.key_columns]

    @property
    def data(self) -> list[str]:
        added = {self._physical(column.name) for column in self.kind.added_columns}
        return [name for name in self.types if name not in added]

    def first_rows(self, source: str) -> str:
        """Write the query for an empty table's first rows: one current version per key."""
        begin = self._row_start() if self.kind.dates_first_load else self._literal(UNKNOWN_START)
        given = {self.valid_from: begin, self.valid_to: f"CAST(NULL AS {self._type})"}
        return self._select(given, self._newest_rows(source))

    def _select(self, given: Mapping[str, str], source: str) -> str:
        """Write a query of all columns, with given SQL values in place of the source's columns."""
        columns = (
            f"{given.get(name) or f'r.{quote(name)}'} AS {quote(name)}" for name in self.types
        )
        return f"SELECT {', '.join(columns)} FROM ({source}) r"

    def merge(self, target: str, source: str) -> str:
        same = [f"t.{quote(name)} <=> s.{quote('vde_old_' + name)}" for name in self.key]
        same.append(f"t.{quote(self.valid_from)} = s.vde_began")
        updates = [f"t.{quote(name)} = s.{quote('vde_new_' + name)}" for name in self.data]
        given = {self.valid_from: "s.vde_begins", self.valid_to: "NULL"}
        values = [given.get(name) or f"s.{quote('vde_new_' + name)}" for name in self.types]
        return (
            f"MERGE INTO {target} t\nUSING ({self._changes(target, source)}) s\n"
            f"ON s.vde_act <> 'begin' AND {' AND '.join(same)}\n"
            f"WHEN MATCHED AND s.vde_act = 'end' THEN UPDATE SET "
            f"t.{quote(self.valid_to)} = s.vde_ends\n"
            f"WHEN MATCHED AND s.vde_act = 'replace' THEN UPDATE SET {', '.join(updates)}\n"
            f"WHEN MATCHED AND s.vde_act = 'forget' THEN DELETE\n"
            f"WHEN NOT MATCHED AND s.vde_act = 'begin' THEN INSERT "
            f"({', '.join(map(quote, self.types))}) VALUES ({', '.join(values)})"
        )

    def _changes(self, target: str, source: str) -> str:
        # Both are read once, because a second read of the query may return other rows.
        old, new = self._latest_versions(target), self._newest_rows(source)
        keys = range(len(self.kind.unique_key))
        on = " AND ".join(f"l.vde_key_{n} <=> r.vde_key_{n}" for n in keys)
        columns = [
            *(f"l.{quote(name)} AS {quote('vde_old_' + name)}" for name in self.key),
            *(f"r.{quote(name)} AS {quote('vde_new_' + name)}" for name in self.data),
            f"l.{quote(self.valid_from)} AS vde_began",
        ]
        begins, ends, acts = self._next_start(), self._last_end(), self._difference()
        joined = (
            f"SELECT {', '.join(columns)}, {begins} AS vde_begins, {ends} AS vde_gone, "
            f"{acts} AS vde_what\nFROM ({old}) l FULL OUTER JOIN ({new}) r ON {on}"
        )
        # A version that would have zero length is overwritten, or deleted.
        return (
            "SELECT *, COALESCE(vde_gone, vde_begins) AS vde_ends, EXPLODE(CASE vde_what\n"
            "WHEN 'new' THEN ARRAY('begin')\n"
            "WHEN 'changed' THEN IF(vde_begins > vde_began, ARRAY('end', 'begin'), "
            "ARRAY('replace'))\n"
            "WHEN 'gone' THEN IF(vde_gone > vde_began, ARRAY('end'), ARRAY('forget'))\n"
            f"END) AS vde_act FROM ({joined}) WHERE vde_what IS NOT NULL"
        )

    def _difference(self) -> str:
        """Write a key's difference from its latest version: 'new', 'changed', 'gone' or NULL."""
        ended = f"l.{quote(self.valid_to)} IS NOT NULL"
        gone = "'gone'" if self.kind.invalidate_hard_deletes else "NULL"
        return (
            f"CASE WHEN l.vde_there IS NULL OR (r.vde_there AND {ended}) THEN 'new' "
            f"WHEN {ended} THEN NULL WHEN r.vde_there IS NULL THEN {gone} "
            f"WHEN {self._has_changed()} THEN 'changed' END"
        )

    def _next_start(self) -> str:
        """Write the start of a key's next version, at or after the latest version's end."""
        earlier = f"l.{quote(self.valid_to)}, l.{quote(self.valid_from)}"
        # GREATEST ignores NULLs.
        # A version never starts before the latest version's end.
        return f"GREATEST({self._row_start()}, COALESCE({earlier}))"

    def _row_start(self) -> str:
        """Write the start of a row's version: `updated_at`, or now if the kind has no such column.

        For a NULL in `updated_at`, the start is 1970 if rows are compared by time, otherwise now.
        """
        if self.kind.updated_at_name is None:
            return self._now
        unknown = self._literal(UNKNOWN_START) if self.kind.compared is None else self._now
        return f"COALESCE({self._updated_at('r')}, {unknown})"

    def _last_end(self) -> str:
        """Write the end of a key's last version if the key has disappeared, otherwise NULL."""
        return f"IF(r.vde_there, NULL, GREATEST({self._now}, l.{quote(self.valid_from)}))"

    def _has_changed(self) -> str:
        if self.kind.compared is None:
            return _is_later(self._updated_at("r"), self._updated_at("l"))
        pairs = (
            [self._compared_value(side, name) for side in "rl"]
            for name in self._compared_columns(self.kind.compared)
        )
        same = " AND ".join(map(" <=> ".join, pairs))
        if self.kind.updated_at_name is None:
            return f"NOT ({same})"
        return f"NOT ({same}) AND NOT {_is_later(self._updated_at('l'), self._updated_at('r'))}"

    def _compared_value(self, side: str, name: str) -> str:
        """Write the SQL of a value to compare, without struct fields that the definition lacks."""
        return Write.sortable(f"{side}.{quote(name)}", self.types[name], self.fields.get(name))

    def _compared_columns(self, names: tuple[str, ...]) -> list[str]:
        """Return the physical columns to compare. ALL means all columns except `updated_at`."""
        if names != ALL:
            return [self._physical(name) for name in names]
        updated = self.kind.updated_at_name
        return [name for name in self.data if not updated or name != self._physical(updated)]

    def _latest_versions(self, target: str) -> str:
        which = "true"
        if self.kind.updated_at_name is None:
            # Versions begin now or later, so versions that ended before do not matter.
            end = quote(self.valid_to)
            which = f"({end} IS NULL OR {end} > {self._now})"
        if self.keys is not None:
            which += f" AND {self.keys.is_in('target')}"
        order = f"{quote(self.valid_to)} DESC NULLS FIRST"
        return self._latest_by_key(f"SELECT * FROM {target} AS target WHERE {which}", order)

    def _newest_rows(self, source: str) -> str:
        """Write the query of the newest row of each key.

        Of several newest rows, the row with the greatest values is chosen.
        """
        first = self._physical(self.kind.updated_at_name) if self.kind.updated_at_name else ""
        return self._latest_by_key(source, latest_first(self.types, self.data, first))

    def _latest_by_key(self, rows: str, order: str) -> str:
        by = ", ".join(f"vde_key_{n}" for n in range(len(self.kind.unique_key)))
        numbered = (
            f"SELECT *, ROW_NUMBER() OVER (PARTITION BY {by} ORDER BY {order}) AS vde_number "
            f"FROM ({self._with_keys(rows)})"
        )
        return f"SELECT * FROM ({numbered}) WHERE vde_number = 1"

    def _with_keys(self, rows: str) -> str:
        """Write a query with a column for each part of the key. A part may be an expression."""
        key = [f"{quote(self._physical(name))} AS {quote(name)}" for name in self.kind.key_columns]
        hidden = [f"{quote(name)} AS vde_column_{n}" for n, name in enumerate(self.types)]
        shown = [f"vde_column_{n} AS {quote(name)}" for n, name in enumerate(self.types)]
        made = [f"{part} AS vde_key_{n}" for n, part in enumerate(self.kind.unique_key)]
        apart = f"SELECT {', '.join([*hidden, *key])} FROM ({rows})"
        return f"SELECT {', '.join([*shown, *made])}, true AS vde_there FROM ({apart})"

    def _updated_at(self, side: str) -> str:
        assert self.kind.updated_at_name is not None
        return f"CAST({side}.{quote(self._physical(self.kind.updated_at_name))} AS {self._type})"

    @property
    def _now(self) -> str:
        return self._literal(self.at)

    @property
    def _type(self) -> str:
        return self.types[self.valid_from]

    def _literal(self, instant: datetime) -> str:
        """Write an instant (UTC) as a literal, in the type of the columns with validity times."""
        date = f"{instant.year:04d}-{instant.month:02d}-{instant.day:02d}"
        if self._type == "date":
            return f"DATE '{date}'"
        text = f"{date} {instant:%H:%M:%S.%f}"
        if self._type == "timestamp_ntz":
            return f"TIMESTAMP_NTZ '{text}'"
        return f"TIMESTAMP '{text}Z'"

    def _physical(self, name: str) -> str:
        return self.physical[name.lower()]


class DbtVersions(Versions):
    """Writes versions in the same way as dbt's snapshots.

    A row that is new or changed begins a version at its `updated_at`, or now, and ends the current
    versions of its key at the same instant. With `invalidate_hard_deletes`, versions of a missing
    key end now. Rows with a NULL in their key begin a version each time.

    Source: macros/materializations/snapshots of dbt-adapters, dbt-duckdb's `snapshot_merge_sql`.
    """

    def first_rows(self, source: str) -> str:
        return self._select(self._dbt_columns(self._row_start(), "False"), source)

    def merge(self, target: str, source: str) -> str:
        same = [f"t.{quote(name)} <=> s.{quote('vde_old_' + name)}" for name in self.key]
        same.append(f"t.{quote(self.valid_from)} <=> s.vde_began")
        same.append(f"{self._is_deletion('t')} = s.vde_record")
        new = self._dbt_columns("s.vde_begins", "False")
        gone = self._dbt_columns("s.vde_gone", "True")
        new = {name: "s." + quote("vde_new_" + name) for name in self.data} | new
        gone = {name: "s." + quote("vde_old_" + name) for name in self.data} | gone
        values = (f"IF(s.vde_act = 'begin', {new[name]}, {gone[name]})" for name in self.types)
        return (
            f"MERGE INTO {target} t\nUSING ({self._changes(target, source)}) s\n"
            f"ON s.vde_act = 'end' AND {' AND '.join(same)} AND t.{quote(self.valid_to)} IS NULL\n"
            f"WHEN MATCHED THEN UPDATE SET t.{quote(self.valid_to)} = s.vde_ends\n"
            f"WHEN NOT MATCHED AND s.vde_act <> 'end' THEN INSERT "
            f"({', '.join(map(quote, self.types))}) VALUES ({', '.join(values)})"
        )

    def _changes(self, target: str, source: str) -> str:
        keys = range(len(self.kind.unique_key))
        old = self._with_keys(f"SELECT * FROM {target} WHERE {quote(self.valid_to)} IS NULL")
        on = " AND ".join(f"l.vde_key_{n} = r.vde_key_{n}" for n in keys)
        columns = [
            *(f"l.{quote(name)} AS {quote('vde_old_' + name)}" for name in self.data),
            *(f"r.{quote(name)} AS {quote('vde_new_' + name)}" for name in self.data),
            f"l.{quote(self.valid_from)} AS vde_began",
            f"{self._is_deletion('l')} AS vde_record",
            f"IF(r.vde_there, {self._row_start()}, NULL) AS vde_begins",
            f"IF(r.vde_there, NULL, {self._now}) AS vde_gone",
        ]
        joined = (
            f"SELECT {', '.join(columns)}, EXPLODE({self._act_list()}) AS vde_act\n"
            f"FROM ({old}) l FULL OUTER JOIN ({self._with_keys(source)}) r ON {on}"
        )
        which = ", ".join(quote("vde_old_" + name) for name in self.key)
        ends = "COALESCE(vde_gone, vde_begins)"
        # If several rows end one version, only the latest one counts.
        return (
            f"SELECT * FROM (SELECT *, {ends} AS vde_ends, ROW_NUMBER() OVER (PARTITION BY "
            f"vde_act, {which}, vde_began, vde_record ORDER BY {ends} DESC) AS vde_number "
            f"FROM ({joined})) WHERE vde_act <> 'end' OR vde_number = 1"
        )

    def _act_list(self) -> str:
        deleted, gone = self._is_deletion("l"), "'end'"
        if self.kind.deleted_name:
            gone = "'end', 'gone'"
        acts = f"IF({deleted}, ARRAY(), ARRAY({gone}))"
        if not self.kind.invalidate_hard_deletes:
            acts = "ARRAY()"
        return (
            f"CASE WHEN l.vde_there IS NULL THEN ARRAY('begin') WHEN r.vde_there IS NULL "
            f"THEN {acts} WHEN {deleted} OR {self._has_changed()} THEN ARRAY('end', 'begin') END"
        )

    def _is_deletion(self, side: str) -> str:
        """Write the condition that a row records a deletion and is not a version."""
        if not self.kind.deleted_name:
            return "false"
        return f"COALESCE({side}.{quote(self._physical(self.kind.deleted_name))} = 'True', false)"

    def _row_start(self) -> str:
        return self._now if self.kind.updated_at_name is None else self._updated_at("r")

    def _has_changed(self) -> str:
        if self.kind.compared is None:
            began = f"l.{quote(self.valid_from)} < {self._updated_at('r')}"
            return f"COALESCE({began}, false)"
        pairs = (
            [self._compared_value(side, name) for side in "rl"]
            for name in self._compared_columns(self.kind.compared)
        )
        return f"NOT ({' AND '.join(map(' <=> '.join, pairs))})"

    def _compared_columns(self, names: tuple[str, ...]) -> list[str]:
        return self.data if names == ALL else [self._physical(name) for name in names]

    def _dbt_columns(self, begins: str, deleted: str) -> dict[str, str]:
        types = {self.valid_from: begins, self.valid_to: "NULL"}
        if self.kind.deleted_name:
            types[self._physical(self.kind.deleted_name)] = f"'{deleted}'"
        return {name: f"CAST({value} AS {self.types[name]})" for name, value in types.items()}


def _is_later(left: str, right: str) -> str:
    """Write the condition that `left` is later than `right`. NULL counts as the earliest value."""
    return f"({left} IS NOT NULL AND ({right} IS NULL OR {left} > {right}))"
