"""What tables of slowly changing dimensions hold, in plain Python: one key after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any

from vde_dagster.project.kinds import ScdType2

Row = dict[str, Any]
COLUMNS = {"id": "int", "part": "string", "v": "int", "w": "string", "updated_at": "timestamp_ntz"}
LONG_AGO = datetime(1970, 1, 1)


@dataclass
class Version:
    """A row from one instant until another; until None when it is current."""

    row: Row
    since: date
    until: date | None = None


@dataclass
class History:
    """All versions of all keys.

    Args:
        kind: How they are kept; the key is (id, part) or an expression of them.
    """

    kind: ScdType2
    keys: dict[tuple[Any, ...], list[Version]] = field(default_factory=dict)
    loaded: bool = False

    def load(self, rows: Sequence[Row], instant: datetime) -> None:
        """Take in what the source says at an instant."""
        now = self._time(instant)
        taken: dict[tuple[Any, ...], Row] = {}
        for row in sorted(rows, key=_greatest):
            taken[self.key(row)] = row
        for key, row in taken.items():
            self._take(key, row, now)
        if self.kind.invalidate_hard_deletes and self.loaded:
            for key, versions in self.keys.items():
                if key not in taken and versions and versions[-1].until is None:
                    _end(versions, now)
        self.loaded = True

    def rows(self) -> list[tuple[Any, ...]]:
        """Everything, as the table has it."""
        return sorted(
            (
                (*version.row.values(), version.since, version.until)
                for versions in self.keys.values()
                for version in versions
            ),
            key=str,
        )

    def key(self, row: Row) -> tuple[Any, ...]:
        """Return what a row's versions share."""
        if self.kind.unique_key == ("COALESCE(id, -1)",):
            return (-1 if row["id"] is None else row["id"],)
        return (row["id"], row["part"])

    def _take(self, key: tuple[Any, ...], row: Row, now: date) -> None:
        versions = self.keys.setdefault(key, [])
        since = self._since(row, now)
        if not versions:
            at_first = not self.loaded and not self.kind.dates_first_load
            versions.append(Version(row, self._time(LONG_AGO) if at_first else since))
            return
        last = versions[-1]
        if last.until is not None:
            versions.append(Version(row, max(since, last.until)))
        elif self._differs(last.row, row):
            if since > last.since:
                last.until = since
                versions.append(Version(row, since))
            else:
                last.row = row

    def _since(self, row: Row, now: date) -> date:
        if self.kind.updated_at_name is None:
            return now
        unknown = self._time(LONG_AGO) if self.kind.compared is None else now
        return self._updated(row) or unknown

    def _updated(self, row: Row) -> date | None:
        updated = row["updated_at"]
        return None if updated is None else self._time(updated)

    def _time(self, instant: datetime) -> date:
        """Return an instant as the table has it."""
        return instant.date() if self.kind.time_data_type == "DATE" else instant

    def _differs(self, old: Row, new: Row) -> bool:
        if self.kind.compared is None:
            return _later(self._updated(new), self._updated(old))
        names = list(self.kind.compared)
        if names == ["*"]:
            names = [name for name in COLUMNS if name != self.kind.updated_at_name]
        if self.kind.updated_at_name and _later(self._updated(old), self._updated(new)):
            return False
        return any(old[name] != new[name] for name in names)


def _end(versions: list[Version], now: date) -> None:
    if now > versions[-1].since:
        versions[-1].until = now
    else:
        versions.pop()


def _later(one: date | None, other: date | None) -> bool:
    return one is not None and (other is None or one > other)


def _greatest(row: Row) -> tuple[Any, ...]:
    """Order rows of a key: the last one is taken."""
    order = ("updated_at", "id", "part", "v", "w")
    return tuple((row[name] is not None, row[name] or _least(row[name])) for name in order)


def _least(value: Any) -> Any:
    return value if value is not None else 0


def states(seed: int, number: int, keys: int) -> Iterator[list[Row]]:
    """Make up what a source says, again and again: late, deleted, back, NULL, and twice.

    Args:
        seed: Of the randomness.
        number: How many states.
        keys: How many keys there are.
    """
    chance = random.Random(seed)
    start = datetime(2024, 1, 1)
    known = [(n if n % 8 else None, chance.choice([None, "a", "b"])) for n in range(keys)]
    rows = {key: _row(chance, key, start) for key in known}
    for step in range(number):
        now = start + timedelta(days=step)
        for key in known:
            what = chance.random()
            if what < 0.25 or (key not in rows and what < 0.6):
                rows[key] = _row(chance, key, now)
            elif what < 0.45:
                rows.pop(key, None)
            elif what < 0.55 and key in rows:
                rows[key] = {**rows[key], "v": chance.choice([None, 1, 2])}
        twice = [_row(chance, key, now) for key in chance.sample(sorted(rows, key=str), 3)]
        found = [*rows.values(), *twice]
        chance.shuffle(found)
        yield found


def _row(chance: random.Random, key: tuple[int | None, str | None], now: datetime) -> Row:
    late = timedelta(hours=chance.choice([0, 6, 12, -12, -30, -60, 30]))
    return {
        "id": key[0],
        "part": key[1],
        "v": chance.choice([None, 1, 2, 3]),
        "w": chance.choice([None, "x", "y"]),
        "updated_at": None if chance.random() < 0.1 else now + late,
    }


def query(rows: Sequence[Row]) -> str:
    """Write rows as a query."""
    return f"SELECT * FROM VALUES {', '.join(map(_values, rows))} t({', '.join(COLUMNS)})"


def _values(row: Row) -> str:
    return f"({', '.join(_literal(row[name], type_) for name, type_ in COLUMNS.items())})"


def _literal(value: Any, type_: str) -> str:
    if isinstance(value, datetime):
        return f"TIMESTAMP_NTZ '{value:%Y-%m-%d %H:%M:%S}'"
    text = "NULL" if value is None else repr(value)
    return f"CAST({text} AS {type_})"
