"""What others do to tables in a day: rows, nothing at all, files written anew, back to what was."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from vde_dagster_tests.planning.oracle_data import EXTERNAL


class Lake(Protocol):
    """Where statements run."""

    def sql(self, text: str) -> list[tuple[object, ...]]:
        """Run a statement."""
        ...


Deed = Callable[[Lake], None]


@dataclass(slots=True)
class Others:
    """Those who write the external tables.

    Args:
        rng: Chance.
        ids: How many ids were given out.
        added: Columns that they added to tables.
    """

    rng: random.Random
    ids: int = 1000
    added: dict[str, str] = field(default_factory=dict)

    def day(self, today: datetime) -> Iterator[tuple[str, str, Deed]]:
        """Yield (table, what is done, how) for everything that happens in a day."""
        for table in EXTERNAL:
            if self.rng.random() < 0.45:
                what = self.rng.choice(list(_DEEDS))
                yield table, what, _DEEDS[what](self, table, today)

    def values(self, table: str, today: datetime) -> str:
        """Return a row, as SQL; some come late."""
        cells = []
        for name, type_ in EXTERNAL[table]:
            if name == "id":
                self.ids += 1
                cells.append(str(self.ids))
            elif type_ == "DATE":
                late = self.rng.choice([0, 0, 1, 1, 2, 3, 6])
                cells.append(f"DATE '{today - timedelta(days=late):%Y-%m-%d}'")
            elif type_ == "INT":
                cells.append(str(self.rng.randint(-1, 5)))
            else:
                cells.append(self.rng.choice(["'a'", "'b'", "'A'", "''", "NULL"]))
        extra = ["7"] if table in self.added else []
        return f"({', '.join([*cells, *extra])})"


def statements(*texts: str) -> Deed:
    """Return what runs statements."""

    def run(lake: Lake) -> None:
        for text in texts:
            lake.sql(text)

    return run


def _insert(others: Others, table: str, today: datetime) -> Deed:
    rows = ", ".join(others.values(table, today) for _ in range(others.rng.randint(1, 2)))
    return statements(f"INSERT INTO lakehouse.{table} VALUES {rows}")


def _delete(others: Others, table: str, today: datetime) -> Deed:
    k, other = others.rng.randint(-1, 5), EXTERNAL[table][2][0]
    return statements(
        f"DELETE FROM lakehouse.{table} WHERE k = {k} AND {other} = {others.rng.randint(-1, 5)}"
    )


def _update(others: Others, table: str, today: datetime) -> Deed:
    name = others.rng.choice([n for n, t in EXTERNAL[table] if t == "INT" and n not in ("id", "k")])
    k = others.rng.randint(-1, 5)
    return statements(f"UPDATE lakehouse.{table} SET {name} = {name} + 1 WHERE k = {k}")


def _insert_nothing(others: Others, table: str, today: datetime) -> Deed:
    return statements(
        f"INSERT INTO lakehouse.{table} SELECT * FROM lakehouse.{table} WHERE k > 99",
        f"DELETE FROM lakehouse.{table} WHERE k = 99",
        f"UPDATE lakehouse.{table} SET k = 98 WHERE k = 99",
    )


def _compact(others: Others, table: str, today: datetime) -> Deed:
    return statements(
        f"CALL lakehouse.system.rewrite_data_files(table => '{table}', "
        "options => map('rewrite-all', 'true'))",
        f"CALL lakehouse.system.rewrite_manifests('{table}')",
    )


def _come_and_go(others: Others, table: str, today: datetime) -> Deed:
    before = f"SELECT snapshot_id FROM lakehouse.{table}.refs WHERE name = 'main'"
    change = _insert(others, table, today)

    def run(lake: Lake) -> None:
        ((snapshot,),) = lake.sql(before)
        change(lake)
        lake.sql(f"CALL lakehouse.system.rollback_to_snapshot('{table}', {snapshot})")

    return run


def _go_back(others: Others, table: str, today: datetime) -> Deed:
    steps = others.rng.randint(1, 4)

    def run(lake: Lake) -> None:
        ancestors = lake.sql(f"CALL lakehouse.system.ancestors_of('{table}')")
        snapshot = ancestors[min(steps, len(ancestors) - 1)][0]
        lake.sql(f"CALL lakehouse.system.rollback_to_snapshot('{table}', {snapshot})")

    return run


def _restore_by_hand(others: Others, table: str, today: datetime) -> Deed:
    lost = "k = 2"
    kept = f"CREATE OR REPLACE TABLE lakehouse.raw.kept AS SELECT * FROM lakehouse.{table}"
    return statements(
        f"{kept} WHERE {lost}",
        f"DELETE FROM lakehouse.{table} WHERE {lost}",
        f"INSERT INTO lakehouse.{table} SELECT * FROM lakehouse.raw.kept",
    )


def _overwrite_with_itself(others: Others, table: str, today: datetime) -> Deed:
    return statements(f"INSERT OVERWRITE lakehouse.{table} SELECT * FROM lakehouse.{table}")


def _change_columns(others: Others, table: str, today: datetime) -> Deed:
    name = others.added.pop(table, None)
    if name is not None:
        return statements(f"ALTER TABLE lakehouse.{table} DROP COLUMN {name}")
    others.ids += 1
    others.added[table] = f"z{others.ids}"
    return statements(f"ALTER TABLE lakehouse.{table} ADD COLUMN z{others.ids} INT")


def _forget_history(others: Others, table: str, today: datetime) -> Deed:
    return statements(
        f"CALL lakehouse.system.expire_snapshots(table => '{table}', "
        "older_than => TIMESTAMP '2999-01-01 00:00:00', retain_last => 1)"
    )


def _tag(others: Others, table: str, today: datetime) -> Deed:
    others.ids += 1
    return statements(f"ALTER TABLE lakehouse.{table} CREATE TAG seen_{others.ids}")


_DEEDS: dict[str, Callable[[Others, str, datetime], Deed]] = {
    "rows": _insert,
    "more rows": _insert,
    "rows deleted": _delete,
    "rows updated": _update,
    "inserts of nothing": _insert_nothing,
    "compaction": _compact,
    "rows that are rolled back": _come_and_go,
    "rollback": _go_back,
    "rows that go and come back": _restore_by_hand,
    "overwritten with itself": _overwrite_with_itself,
    "columns": _change_columns,
    "expired snapshots": _forget_history,
    "tag": _tag,
}
