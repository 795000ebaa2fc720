"""Values of a document: models, tables, environments, publications, differences.

All values are plain data. Models and tables are named by text, as `schema.name`; instants are UTC,
and ranges are half-open.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Literal

DOCUMENT_VERSION = 1
"""Increased when a field of a document changes its meaning or is removed."""

_PART = "part of a document"

Whose = Literal["own", "shared", "held", "view", "external"]


@dataclass(frozen=True, slots=True)
class Range:
    """Half-open range of instants (UTC)."""

    start: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class DocumentedColumn:
    """Output column of a model.

    Args:
        type: Spark SQL type, if known: from the analysis, or else from the published table or view.
        version: Hash of the definition of its value (hex).
        description: The column's own description, or the description of the column that it copies.
        inherited_from: `schema.model.column` that the description comes from; None for its own.
    """

    name: str
    type: str | None
    version: str
    description: str | None = None
    inherited_from: str | None = None


@dataclass(frozen=True, slots=True)
class ColumnFlow:
    """Dependency of a model's column, or of its rows, on a parent's column.

    Args:
        column: The model's column; None if all its rows depend on the parent's column.
        parent: The model or table that is read, as `schema.name`.
        source: The parent's column; `*` if unknown columns are read.
        how: Kind of the dependency. `identity`, `transformation` and `aggregation` compute a value
            from the parent's column. `conditional`, `join`, `filter`, `group`, `sort` and `window`
            are conditions on the column. `python` and `unknown` could not be analyzed.
    """

    column: str | None
    parent: str
    source: str
    how: str


@dataclass(frozen=True, slots=True)
class DocumentedAudit:
    """Audit that a model declares.

    Args:
        name: Name with its arguments, unique within the model.
        query: Query for the failing rows, which still contains `@this_model`.
    """

    name: str
    blocking: bool
    query: str


@dataclass(frozen=True, slots=True)
class DocumentedModel:
    """Model as defined by one snapshot.

    Args:
        snapshot: Id of the snapshot.
        version: Short hash of the content of the model's table or view.
        kind: Name of the kind. `kind_text` also has its properties.
        unit: Interval unit; None if the model is not filled by intervals.
        path: The model's file, relative to the project's root.
        source: Original text of the file.
        query: Query with macros expanded and time variables unexpanded; None if the model has no
            SQL.
        opaque: Reason why the query was not analyzed and is versioned as a whole.
        tests: Names of its unit tests, if the files were read.
        parents: Models and tables that it reads, sorted.
        readers: Models that read it, sorted.
        exposures: Names of dashboards, syncs, metrics and other readers, sorted.
        seed: File with a seed's rows, relative to the project's root.
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
    """Dashboard, sync, metric, or other reader outside of the project's models.

    Args:
        what: `exposure`, `sync` or `metric`.
        reads: (model, column), with None for all columns.
    """

    name: str
    what: str
    owner: str | None
    url: str | None
    reads: tuple[tuple[str, str | None], ...]
    description: str | None


@dataclass(frozen=True, slots=True)
class FillCost:
    """Duration and size of one fill of a table, if known.

    Args:
        at: Time (UTC) at which it was recorded.
        skipped: Whether nothing was computed, because the inputs were unchanged.
        commit: Iceberg snapshot that it created.
        task_seconds: Total time of Spark's tasks.
        bytes_read: Size of the files that the tasks scanned.
        refresh: How its rows were computed, for a model that may refresh from changes.
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
    refresh: str | None = None


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """Latest result of one audit of a model's rows.

    Args:
        audit: The audit with its arguments, as in `DocumentedAudit.name`.
        plan: The plan, or the run of audits, that produced this result.
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
    """Physical table of an environment in the document.

    Args:
        name: Name in the catalog, as `namespace.name`. `branch` is the Iceberg branch of previews.
        snapshot: Id of the snapshot whose definition fills it.
        filled: Ranges that are filled and audited.
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
    """One model in one environment.

    Args:
        version: Short hash of the content of the model's table or view.
        view: Name of the view in the catalog, `namespace.name`; None if it is not published.
        table: Id of the table that serves the model; None for views and external tables.
        whose: `own`, `shared` with production, `held` at an earlier commit, `view` or `external`.
        change: Difference of the definition from production's, or None if they are equal or not
            compared. Its `category` is the effect on the data.
        filled: Filled ranges that readers of the environment see.
        missing: Ranges that are due by the document's instant but not filled.
        rows: Number of rows of the pinned Iceberg snapshot.
        pinned: Iceberg snapshot that this version of the environment pins.
        since: Time (UTC) since which the model has this content, if known.
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
    """Version of an environment with its models, sorted.

    Args:
        frozen: Version that a frozen environment serves (`prod@41`); None if the environment may
            change.
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
    """Model that two versions define differently.

    Args:
        change: `added`, `modified`, `affected` or `removed`. `category` is the effect of the change
            on the data.
        old: Id of the earlier snapshot; None for an added model. A removed model has no `new`.
        reasons: Reasons of the difference, in sentences, the most important reason first.
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
    """Table whose rows a publication changed.

    Unknown numbers are None.

    Args:
        what: `new`, `changed`, or `back` after a rollback.
        added: Rows written since the previous version. A rewritten row counts as added and removed.
        removed: Rows deleted or rewritten.
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
        plan: The applied plan; None for a rollback.
        models_added, models_changed, models_removed: Numbers of models.
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
    """Model whose rows differ, or may differ, in two environments or versions.

    Unknown numbers are None.

    Args:
        before: Number of rows of the old version at its publication. `after` is for the new
            version.
        added: Number of rows written by commits between the two versions; known only if both use
            one table.
        removed: Number of rows that these commits deleted or rewrote.
    """

    model: str
    before: int | None
    after: int | None
    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class EnvironmentDifference:
    """Differences of one environment or version from another.

    Args:
        new: Name of the first environment or version (`dev`, `prod@41`). `old` names the second.
        tables: Models with equal definitions, but different tables or different states of a table.
        data: Models whose rows differ or may differ, if both versions still have their data.
    """

    new: str
    old: str
    definitions: tuple[DefinitionDifference, ...]
    tables: tuple[str, ...]
    data: tuple[RowsDiffer, ...]


@dataclass(frozen=True, slots=True)
class FailedPlan:
    """Plan that failed after the environment's current version was published.

    Args:
        at: Time (UTC) at which it ended.
        message: Reason for the failure, if it was recorded.
    """

    environment: str
    plan: str
    at: datetime
    message: str | None


@dataclass(frozen=True, slots=True)
class Document:
    """Documentation of a project.

    Args:
        of: Origin of its models: `files`, or the requested environment or version.
        as_of: Instant (UTC). A range that is due then and not filled is missing.
        models: Parents before children, external tables included.
        tables: All tables of the environments, sorted by name.
        environments: Production first.
        publications: Newest first, by environment.
        differences: Differences between environments, in both directions. Requested versions are
            compared with each environment and with each other.
        failures: Failed plans by environment, newest first. Empty if the
            document describes an earlier version.
    """

    # Types of its parts, for annotations: `Document.Model`.
    Span = Annotated[Range, _PART]
    Column = Annotated[DocumentedColumn, _PART]
    Flow = Annotated[ColumnFlow, _PART]
    Audit = Annotated[DocumentedAudit, _PART]
    Model = Annotated[DocumentedModel, _PART]
    Exposure = Annotated[DocumentedExposure, _PART]
    Outcome = Annotated[AuditOutcome, _PART]
    Table = Annotated[DocumentedTable, _PART]
    Cell = Annotated[ShownModel, _PART]
    Environment = Annotated[DocumentedEnvironment, _PART]
    Difference = Annotated[DefinitionDifference, _PART]
    Version = Annotated[Publication, _PART]

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
    failures: tuple[FailedPlan, ...]

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """Return the JSON Schema of documents as `msgspec.json.encode` writes them."""
        import msgspec

        schema = msgspec.json.schema(cls)
        for part in schema["$defs"].values():
            part["description"] = inspect.cleandoc(part["description"])
        version = schema["$defs"]["Document"]["properties"]["document_version"]
        version["const"] = DOCUMENT_VERSION
        dialect = "https://json-schema.org/draft/2020-12/schema"
        return {"$schema": dialect, "title": "A project of vde-dagster", **schema}
