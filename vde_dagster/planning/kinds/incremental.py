"""Rules of kinds whose tables are filled in parts: by time range, by partition, unmanaged."""

from __future__ import annotations

from collections.abc import Iterator

from vde_dagster.base.hashing import digest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks.diagnostics import place_in_header
from vde_dagster.planning.intervals.cadence import Cadence, IntervalUnit
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.intervals.time_column import MOST_VALUES, TimeColumn
from vde_dagster.planning.kinds.base import Meaning, meaning_for
from vde_dagster.project.kinds import (
    IncrementalByPartition,
    IncrementalByTimeRange,
    IncrementalUnmanaged,
    Kind,
)
from vde_dagster.project.kinds.time_format import (
    SECONDS,
    expand_aliases,
    finest_directive,
    sorts_by_time,
)
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion
from vde_dagster.sql.expressions import Expression, read_expression


class IncrementalMeaning(Meaning):
    """Rules of a table that is filled in parts."""

    # An audit of one part covers only that part.
    def fill(self, model: Model, rows: str) -> str:
        kind = model.kind
        return digest("fill", rows, kind.name, str(kind.lookback), *model.marks)

    def metadata(self, model: Model) -> list[str | None]:
        kind = model.kind
        parts: list[str | None] = ["batches", str(kind.batch_size)] if kind.batch_size else []
        if (kind.batch_concurrency or 1) > 1:
            parts += ["at once", str(kind.batch_concurrency)]
        if kind.auto_restatement_cron:
            parts += ["again", kind.auto_restatement_cron, str(kind.auto_restatement_intervals)]
        return [*parts, "never again"] if kind.disable_restatement else parts


@meaning_for(IncrementalByTimeRange)
class TimeRangeMeaning(IncrementalMeaning):
    """Rules for kinds that replace the rows of one interval in each fill."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        # Rows outside of filled intervals are never written.
        kind = IncrementalByTimeRange.from_model(model)
        column = self.column_version(model, version, kind.time_column)
        return digest("time", version.rows, column, kind.time_format)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        # Keys without the time column may repeat across intervals.
        kind = IncrementalByTimeRange.from_model(model)
        time = kind.time_column.lower()
        return tuple(key for key in version.unique_keys if time in key)

    def audited_rows(self, kind: Kind, rows: str, interval: Interval, time_type: str | None) -> str:
        assert isinstance(kind, IncrementalByTimeRange)
        column = TimeColumn(kind.time_column, time_type or "TIMESTAMP", kind.time_format, True)
        return f"SELECT * FROM ({rows}) WHERE {column.reading_condition(interval)}"

    def is_cut_freely(self, model: Model) -> bool:
        # Otherwise rows depend only on their interval.
        return not model.reads_itself or super().is_cut_freely(model)

    def most_intervals(self, model: Model) -> int | None:
        # If the texts of the time column do not sort by time, a condition must list them, which
        # limits the number of intervals.
        kind = IncrementalByTimeRange.from_model(model)
        per_interval = listed_values(kind.time_format, Cadence.of(model).unit)
        most = super().most_intervals(model)
        if per_interval is None:
            return most
        listed = max(1, MOST_VALUES // per_interval)
        return min(listed, most or listed)


def listed_values(time_format: str | None, unit: IntervalUnit) -> int | None:
    """Count a time format's values in one interval unit: 31 for `%d-%m-%Y` in a month.

    Returns None if a condition need not list the values, as when their texts sort by time.
    """
    if time_format is None or sorts_by_time(expand_aliases(time_format)):
        return None
    shortest = finest_directive(expand_aliases(time_format))
    if shortest is None:
        return None
    longest = {IntervalUnit.MONTH: 31 * 86400, IntervalUnit.YEAR: 366 * 86400}
    return max(1, round(longest.get(unit, unit.value) / SECONDS[shortest]))


@meaning_for(IncrementalByPartition)
class PartitionMeaning(IncrementalMeaning):
    """Rules for kinds in which a fill replaces whole partitions."""

    def rows(self, model: Model, version: SemanticVersion) -> str:
        return digest("partitions", version.rows, *_over_versions(model, version))

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        # Keys without the partition may repeat across partitions.
        by = {
            name.lower()
            for text in model.partitioned_by
            for name in _mentioned_columns(_read(model, text))
        }
        keys = (key for key in version.unique_keys if by <= {name.lower() for name in key})
        return tuple(keys)


@meaning_for(IncrementalUnmanaged)
class UnmanagedMeaning(PartitionMeaning):
    """Rules for INCREMENTAL_UNMANAGED, which appends rows or replaces whole partitions."""

    # With `insert_overwrite`, fills replace rows.
    def rows(self, model: Model, version: SemanticVersion) -> str:
        kind = IncrementalUnmanaged.from_model(model)
        if kind.insert_overwrite:
            return digest("overwritten", super().rows(model, version))
        return digest("appended", version.rows)

    def fill(self, model: Model, rows: str) -> str:
        # Without the unit, runs would fill existing rows again after a change to a smaller unit.
        filled = super().fill(model, rows)
        return digest("fill", filled, Cadence.of(model).unit.name)

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the query's keys that contain all partition columns; none if fills append rows."""
        kind = IncrementalUnmanaged.from_model(model)
        return super().unique_keys(model, version) if kind.insert_overwrite else ()


def _read(model: Model, text: str) -> Expression:
    try:
        return read_expression(text)
    except ValueError as error:
        raise ProjectError(
            f"{model.name}: '{text}' in partitioned_by is not an expression: {error}",
            hint="write columns, or Iceberg's transforms of them such as days(at)",
            location=place_in_header(model, "partitioned_by"),
        ) from error


def _mentioned_columns(expression: Expression) -> Iterator[str]:
    return (parts[0] for parts, _ in expression.mentions)


def _over_versions(model: Model, version: SemanticVersion) -> list[str]:
    out = []
    for text in model.partitioned_by:
        found = _read(model, text)
        names = {
            name.lower(): Meaning.column_version(model, version, name, named_in="partitioned_by")
            for name in _mentioned_columns(found)
        }
        out.append(found.renamed(names))
    return sorted(out)
