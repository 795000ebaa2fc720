"""Differences of a model's rows between two versions of an environment, without a JVM.

A data file that both versions have, with the same deleted rows, contains no changes, so PyIceberg
reads only the other files. Views without a table are compared by Spark, see `vde changes`.
"""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.compute as pc

from vde_dagster.api.errors import UsageError
from vde_dagster.api.values import digest, quote

if TYPE_CHECKING:
    from vde_dagster.api.plans import Environment
    from vde_dagster.api.workspace import Workspace
    from vde_dagster.plugins.sync.definitions import SyncDefinition
    from vde_dagster.plugins.sync.ledger import SyncCursor

Batches = Callable[[Sequence[str]], Iterable[pa.Table]]
"""Reads some columns of rows, in batches."""
Rows = Callable[[Sequence[str]], Iterator[dict[str, Any]]]
"""Reads some columns of rows, as Python's values."""

Change = tuple[Literal["row", "gone", "same"], dict[str, Any]]
"""A row to write (`row`), the key of a row to remove (`gone`), or an unchanged row (`same`)."""


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Rows that were added and removed between two versions of an environment.

    An unchanged row may be both added and removed.

    Args:
        shape: Hash of the model, mode, key, columns and address.
        since: The earlier version; 0 if all rows of the later version are added.
        why: Why all rows are sent again; None if only changes are sent, or on the first run.
        key: The sync's key columns, spelled as in the model's file.
        names: For each column name in `schema`, the name of the same column in the view.
    """

    schema: pa.Schema
    shape: str
    since: int
    why: str | None
    added: Rows
    removed: Rows
    key: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)

    def net_changes(self, key: Sequence[str]) -> Iterator[Change]:
        """Yield `row` for a new or changed row, `same` for an equal row, `gone` for a lost key.

        Without a key, rows are counted: for a row that occurred once and occurs three times, yield
        `same` once and `row` twice.
        """
        names = self.schema.names
        with open_key_store() as held:
            if not key:
                held.count(_hash_row(row, names) for row in self.removed(names))
                for row in self.added(names):
                    yield ("same" if held.take_counted(_hash_row(row, names)) else "row"), row
                return
            held.put(
                (_hash_row(row, key), _hash_row(row, names), [row[name] for name in key])
                for row in self.removed(names)
            )
            for row in self.added(names):
                yield (
                    ("same" if held.take(_hash_row(row, key)) == _hash_row(row, names) else "row"),
                    row,
                )
            for gone in held.remaining():
                yield "gone", dict(zip(key, gone, strict=True))

    def require_key(self, key: Sequence[str]) -> None:
        """Check that a key identifies the added rows.

        Raises:
            UsageError: The key has NULL, or the same value in two rows.
        """
        if not key:
            return
        with open_key_store() as held:
            for row in self.added(key):
                is_null = None in row.values()
                if not is_null and held.is_new(_hash_row(row, key)):
                    continue
                values = ", ".join(f"{name} = {one!r}" for name, one in row.items())
                what = "is NULL in a row" if is_null else "is not unique"
                raise UsageError(
                    f"the key {what}: {values}; this version is not sent",
                    hint="choose another key, or give the model audits: "
                    f"unique_combination_of_columns(columns := ({', '.join(key)})), not_null(…)",
                )


@contextmanager
def changed_rows(
    workspace: Workspace,
    definition: SyncDefinition,
    version: Environment,
    cursor: SyncCursor,
    place: str,
) -> Iterator[ChangedRows]:
    """Yield the changes between the version that the outside system has and the given version.

    Raises:
        UsageError: The version lacks the model or a column of the key, or its data is gone.
    """
    name = definition.source
    earlier = workspace.store.versions.at(version.name, cursor.version) if cursor.version else None
    entry = version.entries.get(name)
    if entry is not None and entry.table_id is None:
        yield _compare_by_spark(workspace, definition, version, cursor, place, earlier)
        return
    with ExitStack() as opened:
        after = opened.enter_context(workspace.queries.open_rows(version, name))
        form = _row_format(workspace, definition, version, place, after.schema)
        since, why = cursor.version, _reason_to_resend(cursor, form.shape, earlier)
        before = None
        if earlier is not None and why is None:
            try:
                before = opened.enter_context(workspace.queries.open_rows(earlier, name))
            except UsageError as error:
                why = error.message
        same = before.files_shared_with(after) if before is not None else frozenset()
        yield ChangedRows(
            form.schema,
            form.shape,
            since if before is not None else 0,
            why,
            form.read(lambda columns: after.batches(columns, same)),
            form.read(lambda columns: before.batches(columns, same) if before is not None else ()),
            form.key,
            form.names,
        )


def _compare_by_spark(
    workspace: Workspace,
    definition: SyncDefinition,
    version: Environment,
    cursor: SyncCursor,
    place: str,
    earlier: Environment | None,
) -> ChangedRows:
    name, until, model = version.name, version.version, definition.source

    def ask(since: int) -> tuple[pa.Table, pa.Table, str | None]:
        read = workspace.changes.read_arrow(name, str(model), since=since, until=until)
        if read.changes.method == "resync":
            query = f"SELECT * FROM {quote(model.namespace, model.name)}"
            rows = workspace.queries.run_arrow(f"{name}@{until}", query).value
            return rows, rows.slice(0, 0), read.changes.why
        own = read.rows.drop_columns([mark for mark, _ in read.changes.change_columns])
        added = pc.is_in(read.rows["_change_type"], pa.array(["insert", "update_after"]))
        return own.filter(added), own.filter(pc.invert(added)), None

    since = cursor.version if earlier is not None else 0
    added, removed, why = ask(since)
    form = _row_format(workspace, definition, version, place, added.schema)
    if (reason := _reason_to_resend(cursor, form.shape, earlier)) is not None:
        if why is None:
            added, removed, _ = ask(0)
        why = reason
    since = since if why is None else 0
    return ChangedRows(
        form.schema,
        form.shape,
        since,
        why,
        form.read(lambda names: [added.select(names)]),
        form.read(lambda names: [removed.select(names)]),
        form.key,
        form.names,
    )


@dataclass(frozen=True, slots=True)
class _RowFormat:
    """The columns of the sent rows.

    Args:
        schema: The columns, spelled as in the model's file.
        shape: See `ChangedRows.shape`.
        names: See `ChangedRows.names`.
    """

    queries: Any
    schema: pa.Schema
    shape: str
    key: tuple[str, ...]
    names: Mapping[str, str]

    def read(self, batches: Batches) -> Rows:
        return lambda columns: (
            row
            for rows in batches([self.names[name] for name in columns])
            for row in self.queries.python_rows(rows.rename_columns(list(columns)))
        )


def _row_format(
    workspace: Workspace,
    definition: SyncDefinition,
    version: Environment,
    place: str,
    schema: pa.Schema,
) -> _RowFormat:
    source = definition.source
    spelling = workspace.environments.column_spelling(version, source)
    spelled = [spelling.get(name, name) for name in schema.names]
    known = {name.lower(): name for name in spelled}
    missing = [name for name in definition.key if name.lower() not in known]
    if missing:
        raise UsageError(
            f"{source} has no column '{missing[0]}', which is in the key of the sync "
            f"'{definition.name}'",
            hint=f"{definition.place}: {source} has the columns {', '.join(spelled)}",
        )
    parts = [str(source), definition.mode, place, *definition.key, ""]
    columns = [f"{one.name} {one.type}" for one in schema]
    return _RowFormat(
        workspace.queries,
        pa.schema([field.with_name(name) for field, name in zip(schema, spelled, strict=True)]),
        digest(*parts, *columns),
        tuple(known[name.lower()] for name in definition.key),
        dict(zip(spelled, schema.names, strict=True)),
    )


def _reason_to_resend(cursor: SyncCursor, shape: str, earlier: Environment | None) -> str | None:
    if not cursor.version:
        return None
    if cursor.shape != shape:
        return "the columns, or the sync's definition, changed"
    if earlier is None or earlier.publication_id != cursor.publication:
        return f"version {cursor.version} is no longer kept, or a later version was sent in part"
    return None


def _hash_row(row: dict[str, Any], names: Sequence[str]) -> bytes:
    return blake2b(repr([row[name] for name in names]).encode(), digest_size=16).digest()


_CACHE = 64 * 1024
"""Size of the file's cache in memory, in KiB."""


@dataclass(frozen=True, slots=True)
class KeyStore:
    """Rows' keys in a temporary SQLite file. Each key has its values and a digest of its row."""

    database: sqlite3.Connection

    def put(self, rows: Iterable[tuple[bytes, bytes, Any]]) -> None:
        """Store (digest of the key, digest of the row, values of the key), replacing equal keys."""
        self.database.executemany(
            "INSERT OR REPLACE INTO held VALUES (?, ?, ?)",
            ((key, row, pickle.dumps(values)) for key, row, values in rows),
        )

    def take(self, key: bytes) -> bytes | None:
        """Remove a key and return the digest of its row, or None for an unknown key."""
        found = self.database.execute("SELECT row FROM held WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        self.database.execute("DELETE FROM held WHERE key = ?", (key,))
        return bytes(found[0])

    def remaining(self) -> Iterator[Any]:
        """Yield the values of each key that `take` has not removed, in the order of the digests."""
        for (values,) in self.database.execute("SELECT known FROM held ORDER BY key"):
            yield pickle.loads(values)

    def is_new(self, key: bytes) -> bool:
        """Store a key, and return whether it was new."""
        put = "INSERT OR IGNORE INTO held VALUES (?, x'', x'')"
        return self.database.execute(put, (key,)).rowcount == 1

    def count(self, keys: Iterable[bytes]) -> None:
        self.database.executemany(
            "INSERT INTO counted VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET n = n + 1",
            ((key,) for key in keys),
        )

    def take_counted(self, key: bytes) -> bool:
        """Decrease the count of a key and return True, or return False if the count is 0."""
        take = "UPDATE counted SET n = n - 1 WHERE key = ? AND n > 0"
        return self.database.execute(take, (key,)).rowcount == 1


@contextmanager
def open_key_store() -> Iterator[KeyStore]:
    """Yield an empty store of keys, and delete its temporary file afterwards."""
    # A database without a name is a temporary file; threads use it one after the other.
    # SQLite deletes the file when it is closed.
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute(f"PRAGMA cache_size = -{_CACHE}")
        database.execute("CREATE TABLE held (key BLOB PRIMARY KEY, row, known) WITHOUT ROWID")
        database.execute("CREATE TABLE counted (key BLOB PRIMARY KEY, n) WITHOUT ROWID")
        database.execute("BEGIN")
        yield KeyStore(database)
    finally:
        database.close()
