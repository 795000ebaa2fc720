"""What an apply has written so far: threads that fill tell it, threads that read look at it."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vde_dagster.planning.table import PhysicalTable


class Written:
    """The tables that an apply has written.

    Each look is a value that never changes: what others write meanwhile is in the next one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._branches: Mapping[str, str] = MappingProxyType({})
        self._filled: frozenset[str] = frozenset()
        self._tables: Mapping[str, PhysicalTable] = MappingProxyType({})

    def branches(self) -> Mapping[str, str]:
        """Return the branch by table id of what waits for the publication."""
        return self._branches

    def filled(self) -> frozenset[str]:
        """Return the ids of the tables in which ranges were computed."""
        return self._filled

    def put_branch(self, table_id: str, branch: str) -> None:
        """Let readers of a table read a branch from now on."""
        with self._lock:
            if self._branches.get(table_id) != branch:
                self._branches = MappingProxyType({**self._branches, table_id: branch})

    def drop_branch(self, table_id: str) -> None:
        """Let readers of a table read `main` again."""
        with self._lock:
            rest = {key: branch for key, branch in self._branches.items() if key != table_id}
            self._branches = MappingProxyType(rest)

    def tables(self) -> Mapping[str, PhysicalTable]:
        """Return by id the tables that got columns since the plan was made, as they are now."""
        return self._tables

    def put_table(self, table: PhysicalTable) -> None:
        """Let readers of a table know its columns from now on."""
        with self._lock:
            self._tables = MappingProxyType({**self._tables, table.id: table})

    def note_filled(self, table_id: str) -> None:
        """Note that a range of a table was computed."""
        with self._lock:
            self._filled |= {table_id}
