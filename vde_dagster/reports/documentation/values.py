"""The values of a document: models, tables, environments, publications, differences.

All of them are plain data. Models, columns and tables are named by text, as `schema.name`;
instants are UTC, ranges half-open; tuples are sorted or in the order that is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

DOCUMENT_VERSION = 1
"""Raised when a field of a document gets another meaning or goes."""

Whose = Literal["own", "shared", "held", "view", "external"]


@dataclass(frozen=True, slots=True)
class Range:
    """A half-open range of instants (UTC)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class DocumentedColumn:
    """An output column of a model.

    Args:
        type: Spark SQL type as far as it is known.
        version: Hash of how its value is made (hex).
        description: Its own, or that of the column that it is a copy of.
        inherited_from: `schema.model.column` whose description it is; None for its own.
    """

    name: str
    type: str | None
    version: str
    description: str | None = None
    inherited_from: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnFlow:
    """A column of a parent that a column of a model, or its rows, are made of or decided by.

    Args:
        column: The model's column; None where all its rows depend on what is read.
        parent: The model or table that is read, as `schema.name`.
        how: `identity`, `transformation` or `aggregation` for what a value is made of;
            `conditional`, `join`, `filter`, `group`, `sort`, `window` for what decides it;
            `python` and `unknown` where nobody knows how.
    """

    column: str | None
    parent: str
    source: str
    how: str


@dataclass(frozen=True, slots=True)
class DocumentedAudit:
    """An audit that a model declares.

    Args:
        name: With its arguments, unique within the model.
        query: Returns the failing rows; `@this_model` is still in it.
    """

    name: str
    blocking: bool
    query: str


@dataclass(frozen=True, slots=True)
class DocumentedModel:
    """A model as one snapshot defines it.

    Args:
        snapshot: Id of the snapshot.
        version: Short hash of what its table or view holds, as people see it everywhere.
        kind: The kind's name, and `kind_text` that with its properties.
        unit: Interval unit; None for what is not filled by intervals.
        path: Its file, relative to the project's root.
        source: The file's text as its author wrote it.
        query: The query with macros expanded and the time variables still in it; None for what
            has no SQL.
        opaque: Why the query was not understood and is versioned as a whole.
        flows: What its columns and rows are made of and decided by.
        tests: Names of its unit tests, where the files were read.
        parents: Models and tables that it reads, sorted.
        readers: Models that read it, sorted.
        exposures: Names of dashboards, syncs, metrics and whatever else reads it, sorted.
        seed: The file that a seed's rows are in, relative to the project's root.
    """

    name: str
    snapshot: str
    version: str
    kind: str
    kind_text: str
    is_shown: bool
    has_table: bool
    cron: str
    cron_tz: str | None
    unit: str | None
    owner: str | None
    tags: tuple[str, ...]
    grains: tuple[tuple[str, ...], ...]
    partitioned_by: tuple[str, ...]
    description: str | None
    path: str
    line: int | None
    source: str
    query: str | None
    opaque: str | None
    columns: tuple[DocumentedColumn, ...]
    flows: tuple[ColumnFlow, ...]
    audits: tuple[DocumentedAudit, ...]
    tests: tuple[str, ...]
    parents: tuple[str, ...]
    readers: tuple[str, ...]
    exposures: tuple[str, ...]
    seed: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentedExposure:
    """A dashboard, sync, metric, or whatever else outside of the project reads its models.

    Args:
        what: `exposure`, `sync` or `metric`.
        reads: (model, column); the column is None for who reads all of them.
    """

    name: str
    what: str
    owner: str | None
    url: str | None
    reads: tuple[tuple[str, str | None], ...]
    description: str | None


@dataclass(frozen=True, slots=True)
class FillCost:
    """One fill of a table: how long it took and how much it wrote, as far as is known.

    Args:
        at: When it was recorded (UTC).
        skipped: Whether nothing was computed, as nothing that it reads had changed.
        commit: The Iceberg snapshot that it made.
        task_seconds: How long Spark's tasks ran, added up.
        bytes_read: The size of the files that they scanned.
    """

    range: Range
    plan: str
    at: datetime
    rows: int | None
    bytes: int | None
    seconds: float | None
    skipped: bool
    commit: int | None
    task_seconds: float | None = None
    bytes_read: int | None = None


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The last result of one audit of a model's rows.

    Args:
        audit: The audit with its arguments, as in `DocumentedAudit.name`.
        plan: The plan, or run of audits, that it is of.
    """

    model: str
    audit: str
    blocking: bool
    failed_rows: int
    range: Range
    plan: str
    at: datetime


@dataclass(frozen=True, slots=True)
class DocumentedTable:
    """A physical table that an environment of the document shows.

    Args:
        name: In the catalog, as `namespace.name`; `branch` is the Iceberg branch for previews.
        snapshot: Id of the snapshot whose definition fills it.
        filled: What is filled and audited by now.
        fills: The newest fills, newest first.
        audits: The last result of each audit, by model and audit.
    """

    id: str
    name: str
    branch: str | None
    snapshot: str
    filled: tuple[Range, ...]
    fills: tuple[FillCost, ...]
    audits: tuple[AuditOutcome, ...]


@dataclass(frozen=True, slots=True)
class ShownModel:
    """What one environment shows of one model: a cell of the matrix.

    Args:
        version: Short hash of what its table or view holds.
        view: The view's name in the catalog, `namespace.name`; None for what is not shown.
        table: Id of the table that serves it; None for views and external tables.
        whose: `own`, `shared` with production, `held` as it was, `view` or `external`.
        change: How the definition differs from production's, and `category` what that means for
            the data; None where it does not.
        filled: Ranges that readers find.
        missing: Ranges that should be there by the document's instant and are not.
        rows: Rows of the Iceberg snapshot that this version of the environment pins.
        pinned: That Iceberg snapshot.
        since: Since when it shows this, as far as is known (UTC).
    """

    model: str
    snapshot: str
    version: str
    view: str | None
    table: str | None
    whose: Whose
    change: str | None
    category: str | None
    filled: tuple[Range, ...]
    missing: tuple[Range, ...]
    rows: int | None
    pinned: int | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class DocumentedEnvironment:
    """A version of an environment with what it shows, models sorted.

    Args:
        frozen: The version that it shows for ever (`prod@41`); None for one that may change.
    """

    name: str
    version: int
    published_at: datetime
    published_by: str
    plan: str | None
    note: str
    frozen: str | None
    expires_at: datetime | None
    models: tuple[ShownModel, ...]


@dataclass(frozen=True, slots=True)
class DefinitionDifference:
    """A model that two versions do not define alike.

    Args:
        change: `added`, `modified`, `affected` or `removed`; `category` what that means for data.
        old: Id of the earlier snapshot; None for an added model, and `new` for a removed one.
        reasons: Why it is another one, in sentences, the cause first.
    """

    model: str
    change: str
    category: str | None
    old: str | None
    new: str | None
    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A table whose rows a publication shows otherwise than the one before; numbers as known.

    Args:
        what: `new`, `changed`, or `back` after a rollback.
        added: Rows written since; one that is written anew counts twice.
        removed: Rows deleted or written anew.
    """

    models: tuple[str, ...]
    what: str
    rows: int | None
    added: int | None
    removed: int | None
    filled: tuple[Range, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """One version of an environment's history.

    Args:
        what: `definitions`, `data`, `both` or `nothing`.
        plan: The plan that was applied; None for a rollback.
        models_added: How many models it added; `models_changed`, `models_removed` likewise.
    """

    environment: str
    version: int
    what: str
    published_at: datetime
    published_by: str
    plan: str | None
    note: str
    dropped: bool
    models_added: int
    models_changed: int
    models_removed: int
    definitions: tuple[DefinitionDifference, ...]
    data: tuple[RowsChanged, ...]


@dataclass(frozen=True, slots=True)
class RowsDiffer:
    """A model of which two environments or versions have other rows; numbers as known.

    Args:
        before: Rows of the old one as it was published, and `after` of the new one.
        added: Rows that commits in between wrote, where one table serves both.
        removed: Rows that they deleted or wrote anew.
    """

    model: str
    before: int | None
    after: int | None
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """What one environment, or a version of one, shows otherwise than another.

    Args:
        new: Name of the one (`dev`, `prod@41`), and `old` of the other.
        tables: Models of equal definition that another table serves, or the same at another state.
        data: Models whose rows differ, or may, as far as both versions keep what they showed.
    """

    new: str
    old: str
    definitions: tuple[DefinitionDifference, ...]
    tables: tuple[str, ...]
    data: tuple[RowsDiffer, ...]


@dataclass(frozen=True, slots=True)
class Document:
    """The documentation of a project.

    Args:
        of: What its models are: `files`, or the environment or version that was asked for.
        as_of: The instant by which ranges are missing (UTC).
        models: Parents before children, external tables included.
        tables: All that the environments show, sorted by name.
        environments: Production first.
        publications: Newest first, by environment.
        differences: Of each pair of environments that are not alike, both ways, and of versions
            that were asked for with each of them and each other.
    """

    document_version: int
    project: str
    of: str
    as_of: datetime
    catalog: str
    models: tuple[DocumentedModel, ...]
    exposures: tuple[DocumentedExposure, ...]
    tables: tuple[DocumentedTable, ...]
    environments: tuple[DocumentedEnvironment, ...]
    publications: tuple[Publication, ...]
    differences: tuple[EnvironmentDifference, ...]
