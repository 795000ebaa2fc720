"""The kinds of model: what decides how a model's table is filled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Full:
    """Rebuilt whole, once per cron tick."""

    name: Literal["FULL"] = "FULL"


@dataclass(frozen=True, slots=True)
class View:
    """A query without a table of its own: every environment's view holds it."""

    name: Literal["VIEW"] = "VIEW"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A query that is only ever inlined into its readers: neither a table nor a view."""

    name: Literal["EMBEDDED"] = "EMBEDDED"


@dataclass(frozen=True, slots=True)
class Seed:
    """Rows from a CSV file of the project, loaded once per version.

    Args:
        path: The CSV file, relative to the project's root, with forward slashes.
        content_hash: SHA-256 hex of the file's bytes when the project was loaded.
        row_count: Rows in the file.
        rows_hash: Hash of the number and order of rows (see semantics).
        column_hashes: Hash of each column's values, in the file's order.
        delimiter: The field separator.
        null_values: Texts read as NULL beside the empty one.
    """

    path: str
    content_hash: str = ""
    row_count: int = 0
    rows_hash: str = ""
    column_hashes: tuple[tuple[str, str], ...] = ()
    delimiter: str = ","
    null_values: tuple[str, ...] = ()
    name: Literal["SEED"] = "SEED"


@dataclass(frozen=True, slots=True)
class External:
    """A table that others write; models only read it."""

    name: Literal["EXTERNAL"] = "EXTERNAL"


@dataclass(frozen=True, slots=True)
class IncrementalByTimeRange:
    """Filled interval by interval; filling one overwrites exactly its rows.

    Args:
        time_column: The output column that holds each row's time.
        time_format: strftime format of the column when it is text, else None.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
    """

    time_column: str
    time_format: str | None = None
    lookback: int = 0
    batch_size: int | None = None
    name: Literal["INCREMENTAL_BY_TIME_RANGE"] = "INCREMENTAL_BY_TIME_RANGE"


@dataclass(frozen=True, slots=True)
class IncrementalByUniqueKey:
    """Filled interval by interval; rows are merged on a key.

    Args:
        unique_key: Output columns that identify a row; NULLs count as equal.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
    """

    unique_key: tuple[str, ...]
    lookback: int = 0
    batch_size: int | None = None
    name: Literal["INCREMENTAL_BY_UNIQUE_KEY"] = "INCREMENTAL_BY_UNIQUE_KEY"


Kind = Full | View | Embedded | Seed | External | IncrementalByTimeRange | IncrementalByUniqueKey

KIND_NAMES = (
    "FULL",
    "VIEW",
    "EMBEDDED",
    "SEED",
    "EXTERNAL",
    "INCREMENTAL_BY_TIME_RANGE",
    "INCREMENTAL_BY_UNIQUE_KEY",
)


def is_incremental(kind: Kind) -> bool:
    """Say whether the kind is filled by time intervals."""
    return isinstance(kind, IncrementalByTimeRange | IncrementalByUniqueKey)


def has_table(kind: Kind) -> bool:
    """Say whether models of this kind own a physical table."""
    return not isinstance(kind, View | Embedded | External)
