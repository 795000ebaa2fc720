"""Builds a document from a workspace's files and state, without an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import VdeError
from vde_dagster.execution.plans.keepers import find_readers
from vde_dagster.execution.published_version import named_environment, stored_snapshots
from vde_dagster.overviews.documentation import values
from vde_dagster.overviews.documentation.environments import EnvironmentContents
from vde_dagster.planning.intervals.cadence import require_time_for_ticks
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds.seed import Seed

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.project.model import Exposure, UnitTest

PUBLICATIONS = 30
"""Default number of publications per environment in a document."""

FILLS = 20
"""Default number of fills per table in a document."""


def gather_document(
    workspace: Workspace,
    of: str | None = None,
    *,
    as_of: datetime | None = None,
    compare: Sequence[str] = (),
    publications: int = PUBLICATIONS,
    fills: int = FILLS,
) -> values.Document:
    """Read the documentation of a project's files, or of one environment.

    Args:
        of: Environment or version (`prod@41`) to document from its stored definitions, without
            other environments. Default: the project's files, with all environments.
        as_of: Instant (UTC). A range that is due then and not filled is missing. Default: now, or
            the time of the version's publication.
        compare: Versions (`prod@41`) to compare with all environments of the document and with each
            other.

    Raises:
        ProjectError: The project's files have errors.
        UsageError: An environment or version does not exist, or `as_of` is before
            the year 10 or on 9999-12-31.
    """
    if as_of is not None:
        require_time_for_ticks(as_of, "the time")
    # A version is described as it was when published.
    store, settings = workspace.store, workspace.settings
    is_past = of is not None and "@" in of
    tests: Sequence[UnitTest] = ()
    if of is None:
        snapshots = workspace.snapshots()
        exposures: Sequence[Exposure] = workspace.project.exposures
        tests = workspace.project.tests
        named, shown = "files", store.environments.all()
    else:
        environment = named_environment(workspace, of)
        snapshots = stored_snapshots(workspace, environment)
        of_files = () if is_past else _declared_exposures(workspace)
        exposures = find_readers(workspace, environment, of_files)
        named = f"{environment.name}@{environment.version}" if is_past else environment.name
        shown = [environment]
        if is_past:
            as_of = as_of or environment.published_at
    as_of = as_of or store.database.clock.now()
    known = {one.id: one for one in snapshots.values()}
    compared = [named_environment(workspace, one) for one in compare]
    environments = EnvironmentContents(
        workspace, shown, as_of, is_past, known, publications, compared
    )
    return values.Document(
        values.DOCUMENT_VERSION,
        settings.name,
        named,
        as_of,
        settings.catalog,
        tuple(document_models(snapshots, exposures, tests, environments.published_types)),
        tuple(_exposure(one) for one in sorted(exposures, key=lambda one: one.name)),
        tuple(environments.documented_tables(fills)),
        tuple(environments.documented()),
        tuple(environments.recent_publications()),
        tuple(environments.differences()),
        tuple(environments.failed_plans()),
    )


def _declared_exposures(workspace: Workspace) -> Sequence[Exposure]:
    try:
        return workspace.readable_project.exposures
    except VdeError:
        return ()


def document_models(
    snapshots: Mapping[ModelName, Snapshot],
    exposures: Sequence[Exposure] = (),
    tests: Iterable[UnitTest] = (),
    published: Callable[[Snapshot], Mapping[str, str]] | None = None,
) -> list[values.DocumentedModel]:
    """Describe each snapshot's model for a document, in the order of the snapshots.

    Args:
        snapshots: Parents before children.
        published: Returns the published types of a snapshot's columns, to use if a type is unknown.
    """
    readers: dict[str, list[str]] = {}
    for name, snapshot in snapshots.items():
        for parent in snapshot.model.depends_on:
            readers.setdefault(str(parent), []).append(str(name))
    outside: dict[str, set[str]] = {}
    for exposure in exposures:
        for model, _, _ in exposure.reads:
            outside.setdefault(str(model), set()).add(exposure.name)
    tested: dict[str, list[str]] = {}
    for test in tests:
        tested.setdefault(str(test.model), []).append(test.name)
    described: dict[str, dict[str, values.DocumentedColumn]] = {}
    found = []
    for name, snapshot in snapshots.items():
        columns = _columns(snapshot, described)
        if published is not None and any(column.type is None for column in columns):
            types = published(snapshot)
            columns = tuple(
                column if column.type else replace(column, type=types.get(column.version))
                for column in columns
            )
        described[str(name)] = {column.name.lower(): column for column in columns}
        own = str(name)
        labels = (readers.get(own, ()), outside.get(own, ()), tested.get(own, ()))
        found.append(_model(snapshot, columns, labels))
    return found


def _columns(
    snapshot: Snapshot, described: Mapping[str, Mapping[str, values.DocumentedColumn]]
) -> tuple[values.DocumentedColumn, ...]:
    # A copied column without a description inherits one.
    copied: dict[str, list[tuple[str, str]]] = {}
    made: set[str] = set()
    for read in snapshot.reads:
        if read.output is None:
            continue
        if read.how == "identity":
            copied.setdefault(read.output.lower(), []).append((read.parent, read.column.lower()))
        elif read.how in ("transformation", "aggregation", "python", "unknown"):
            made.add(read.output.lower())
    columns = []
    for column in snapshot.columns:
        origins = copied.get(column.name.lower(), ())
        text, inherited = column.description, None
        if not text and len(origins) == 1 and column.name.lower() not in made:
            parent, source = origins[0]
            origin = described.get(parent, {}).get(source)
            if origin is not None and origin.description:
                text = origin.description
                inherited = origin.inherited_from or f"{parent}.{origin.name}"
        columns.append(
            values.DocumentedColumn(
                column.name, column.type, column.version, text or None, inherited
            )
        )
    return tuple(columns)


def _model(
    snapshot: Snapshot,
    columns: tuple[values.DocumentedColumn, ...],
    labels: tuple[Iterable[str], Iterable[str], Iterable[str]],
) -> values.DocumentedModel:
    model = snapshot.model
    readers, exposures, tests = labels
    path, line = model.location.path, model.location.line
    return values.DocumentedModel(
        name=str(snapshot.name),
        snapshot=snapshot.id,
        version=snapshot.table_version,
        kind=model.kind.name,
        kind_text=model.kind.text,
        is_shown=model.kind.is_shown,
        has_table=snapshot.has_table,
        cron=model.cron,
        cron_tz=model.cron_tz,
        unit=snapshot.cadence.unit.text if snapshot.is_incremental else None,
        owner=model.owner,
        tags=model.tags,
        grains=model.grains,
        partitioned_by=model.partitioned_by,
        description=model.description,
        path=path.as_posix() if path is not None else "",
        line=line,
        source=model.source,
        query=model.query,
        opaque=snapshot.version.opaque,
        columns=columns,
        flows=tuple(
            values.ColumnFlow(read.output, read.parent, read.column, read.how)
            for read in snapshot.reads
        ),
        audits=tuple(
            values.DocumentedAudit(audit.label, audit.blocking, audit.query)
            for audit in model.audits
        ),
        tests=tuple(sorted(tests)),
        parents=tuple(map(str, model.depends_on)),
        readers=tuple(sorted(readers)),
        exposures=tuple(sorted(exposures)),
        seed=model.kind.path if isinstance(model.kind, Seed) else None,
    )


def _exposure(one: Exposure) -> values.DocumentedExposure:
    reads = tuple((str(model), column) for model, column, _ in one.reads)
    return values.DocumentedExposure(one.name, one.what, one.owner, one.url, reads, one.description)
