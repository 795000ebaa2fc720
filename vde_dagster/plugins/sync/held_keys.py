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
class HeldKeys:
    """Digests of keys, each with the digest of its row and the values of the key."""

    database: sqlite3.Connection

    def put(self, rows: Iterable[tuple[bytes, bytes, Any]]) -> None:
        """Store keys, replacing equal keys.

        Args:
            rows: The digest of the key, the digest of the row, and the values of the key.
        """
        self.database.executemany(
            "INSERT OR REPLACE INTO held VALUES (?, ?, ?)",
            ((key, row, pickle.dumps(values)) for key, row, values in rows),
        )

    def take(self, key: bytes) -> bytes | None:
        """Remove a key and return its row's digest; None for an unknown key."""
        found = self.database.execute("SELECT row FROM held WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        self.database.execute("DELETE FROM held WHERE key = ?", (key,))
        return bytes(found[0])

    def rest(self) -> Iterator[Any]:
        """Yield the values of the remaining keys, in the order of their digests."""
        for (values,) in self.database.execute("SELECT known FROM held ORDER BY key"):
            yield pickle.loads(values)

    def is_new(self, key: bytes) -> bool:
        """Store a key, and return whether it is new."""
        put = "INSERT OR IGNORE INTO held VALUES (?, x'', x'')"
        return self.database.execute(put, (key,)).rowcount == 1

    def count(self, keys: Iterable[bytes]) -> None:
        """Count the occurrences of each key."""
        self.database.executemany(
            "INSERT INTO counted VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET n = n + 1",
            ((key,) for key in keys),
        )

    def take_one(self, key: bytes) -> bool:
        """Remove one occurrence of a key, and return whether there was one."""
        take = "UPDATE counted SET n = n - 1 WHERE key = ? AND n > 0"
        return self.database.execute(take, (key,)).rowcount == 1


@contextmanager
def held_keys() -> Iterator[HeldKeys]:
    """Provide a temporary store for keys."""
    # A database without a name is a temporary file; threads use it one after the other.
    # SQLite deletes the file when it is closed.
    database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
    try:
        database.execute("PRAGMA journal_mode = OFF")
        database.execute(f"PRAGMA cache_size = -{_CACHE}")
        database.execute("CREATE TABLE held (key BLOB PRIMARY KEY, row, known) WITHOUT ROWID")
        database.execute("CREATE TABLE counted (key BLOB PRIMARY KEY, n) WITHOUT ROWID")
        database.execute("BEGIN")
        yield HeldKeys(database)
    finally:
        database.close()
