"""INCREMENTAL_BY_TIME_RANGE and INCREMENTAL_BY_UNIQUE_KEY: tables that grow by intervals."""

from __future__ import annotations

from vde_dagster.base.hashing import digest
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.kinds.base import Meaning, version_of
from vde_dagster.planning.time_column import TimeColumn
from vde_dagster.project.kinds import IncrementalByTimeRange, IncrementalByUniqueKey, Kind
from vde_dagster.project.model import Model
from vde_dagster.semantics import SemanticVersion


class IncrementalMeaning(Meaning):
    """A table that is filled piece by piece.

    An audit looks at one piece at a time, so it proves nothing about the table.
    """

    def fill(self, model: Model, rows: str) -> str:
        """Hash the rows and how many earlier intervals each new one fills again."""
        kind = model.kind
        return digest("fill", rows, kind.name, str(kind.earlier_intervals), model.stamp)

    def metadata(self, model: Model) -> list[str | None]:
        """Return how the work is cut."""
        size = model.kind.most_intervals
        return ["batches", str(size)] if size else []


class TimeRangeMeaning(IncrementalMeaning):
    """Each interval's rows replace those that were there."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the time column: rows outside of the filled intervals never get in."""
        kind = model.kind
        assert isinstance(kind, IncrementalByTimeRange)
        column = version_of(model, version, kind.time_column)
        return digest("time", version.rows, column, kind.time_format)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the query's keys that tell the pieces apart: those with the time column."""
        kind = model.kind
        assert isinstance(kind, IncrementalByTimeRange)
        time = kind.time_column.lower()
        return tuple(key for key in version.unique_keys if time in key)

    def audited_rows(self, kind: Kind, rows: str, interval: Interval, time_type: str | None) -> str:
        """Return the interval's rows."""
        assert isinstance(kind, IncrementalByTimeRange)
        column = TimeColumn(kind.time_column, time_type or "TIMESTAMP", kind.time_format)
        return f"SELECT * FROM ({rows}) WHERE {column.condition(interval)}"


class UniqueKeyMeaning(IncrementalMeaning):
    """One row per key: the newest that was merged."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        """Add the key, and what decides which of a key's rows is kept."""
        kind = model.kind
        assert isinstance(kind, IncrementalByUniqueKey)
        key = sorted(version_of(model, version, name) for name in kind.unique_key)
        rows = digest("key", version.rows, *key)
        if _one_row_per_key(kind, version):
            return rows
        # Which of a key's rows is kept is decided by all columns in their order.
        return digest("one of several", rows, *version.columns.values())

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the key."""
        kind = model.kind
        assert isinstance(kind, IncrementalByUniqueKey)
        return (frozenset(name.lower() for name in kind.unique_key),)


def _one_row_per_key(kind: IncrementalByUniqueKey, version: SemanticVersion) -> bool:
    """Say whether the query itself returns no key twice."""
    key = {name.lower() for name in kind.unique_key}
    return any({name.lower() for name in known} <= key for known in version.unique_keys)
