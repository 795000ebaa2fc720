"""Keys of rows that are compared, in a temporary file: however many there are, in little memory."""

from __future__ import annotations

import pickle
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_CACHE = 64 * 1024
"""KiB of the file that are in memory."""


@dataclass(frozen=True, slots=True)
class HeldKeys:
    """Digests of keys, each with what is known of it."""

    database: sqlite3.Connection

    def put(self, rows: Iterable[tuple[bytes, bytes, Any]]) -> None:
        """Keep keys; of two that are equal the last.

        Args:
            rows: Of each the digest of its key, that of its row, and the values of the key.
        """
        self.database.executemany(
            "INSERT OR REPLACE INTO held VALUES (?, ?, ?)",
            ((key, row, pickle.dumps(values)) for key, row, values in rows),
        )

    def take(self, key: bytes) -> bytes | None:
        """Return the digest of a key's row, and forget it; None where it is not there."""
        found = self.database.execute("SELECT row FROM held WHERE key = ?", (key,)).fetchone()
        if found is None:
            return None
        self.database.execute("DELETE FROM held WHERE key = ?", (key,))
        return bytes(found[0])

    def rest(self) -> Iterator[Any]:
        """Return the values of the keys that are there still, in one order for the same keys."""
        for (values,) in self.database.execute("SELECT known FROM held ORDER BY key"):
            yield pickle.loads(values)

    def is_new(self, key: bytes) -> bool:
        """Keep a key; say whether it was not there."""
        put = "INSERT OR IGNORE INTO held VALUES (?, x'', x'')"
        return self.database.execute(put, (key,)).rowcount == 1

    def count(self, keys: Iterable[bytes]) -> None:
        """Keep how often each key comes."""
        self.database.executemany(
            "INSERT INTO counted VALUES (?, 1) ON CONFLICT (key) DO UPDATE SET n = n + 1",
            ((key,) for key in keys),
        )

    def take_one(self, key: bytes) -> bool:
        """Say whether a key that was counted is left, and take it once."""
        take = "UPDATE counted SET n = n - 1 WHERE key = ? AND n > 0"
        return self.database.execute(take, (key,)).rowcount == 1


@contextmanager
def held_keys() -> Iterator[HeldKeys]:
    """Lend a file for keys that SQLite deletes as it is closed."""
    # Without a name it is a file of its own; threads take it one after another.
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
