"""Keys of compared rows, in a temporary file to save memory."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

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
