"""Report of a failed apply by model, with lines of the models' files and stack traces."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster import errors
from vde_dagster.base.failures import ModelFailure, QueryPlace
from vde_dagster.base.names import ModelName
from vde_dagster.base.secrets import mask
from vde_dagster.base.texts import count
from vde_dagster.planning.checks.diagnostics import audit_place
from vde_dagster.planning.plan.plan import Plan, PlanKind
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Audit, Model
from vde_dagster.spark.session.failures import project_frame, whole_stack
from vde_dagster.sql.alignment import find_in_query
from vde_dagster.sql.reading import read_query

KEPT_LOGS = 50
"""Maximum number of files with stack traces; the oldest are deleted."""


def plan_failure(
    plan: Plan,
    failed: Mapping[ModelName, Exception],
    skipped: Mapping[ModelName, ModelName],
    folder: Path,
) -> errors.VdeError:
    """Return the error that lists the failed models of a plan.

    Args:
        failed: Exception of each failed model. A `StoreError` among them is returned unchanged.
        skipped: Models that were not started, each with the failed model that it depends on.
    """
    for error in failed.values():
        if isinstance(error, errors.StoreError):
            return error
    failures = tuple(
        model_failure(
            plan, name, error, [later for later, first in skipped.items() if first == name]
        )
        for name, error in failed.items()
    )
    only_audits = all(isinstance(error, errors.AuditFailedError) for error in failed.values())
    kind = errors.AuditFailedError if only_audits else errors.ExecutionError
    lines = [f"plan {plan.id} was not published: {count(len(failures), 'model')} failed"]
    lines += [f"  {failure}" for failure in failures]
    if skipped:
        lines.append(f"  skipped because of them: {', '.join(sorted(map(str, skipped)))}")
    again = f"vde apply {plan.environment} --plan {plan.id}"
    if plan.kind is PlanKind.RUN:
        again = f"vde run {plan.environment}"
    elif plan.kind is PlanKind.PLAN:
        again += f"; after a change of the files: vde apply {plan.environment}"
    raised = kind(
        "\n".join(lines), hint=f"completed ranges are kept: fix the cause, then run: {again}"
    )
    raised.failures = failures
    raised.log = write_stacks(folder, plan.id, failed)
    raised.__cause__ = next(iter(failed.values()))
    return raised


def model_failure(
    plan: Plan, name: ModelName, error: Exception, skipped: Collection[ModelName] = ()
) -> ModelFailure:
    """Describe why one model of a plan failed, with the line of its file."""
    snapshot = plan.target.get(name)
    known = error if isinstance(error, errors.VdeError) else None
    message = known.message if known else f"{type(error).__name__}: {error}"
    return ModelFailure(
        model=name,
        message=" ".join(message.split()),
        hint=known.hint if known else None,
        location=failure_location(error, plan, snapshot) if snapshot else None,
        audits=error.audits if isinstance(error, errors.AuditFailedError) else (),
        skipped=tuple(skipped),
    )


def failure_location(
    error: BaseException, plan: Plan, snapshot: Snapshot, audit: Audit | None = None
) -> errors.SourceLocation:
    """Return the line of a model's audit, function or query that caused an error."""
    model = snapshot.model
    if audit is not None:
        return audit_place(model, audit)
    if isinstance(error, errors.AuditFailedError) and error.audits:
        labels = {one.audit for one in error.audits}
        return audit_place(model, next((a for a in model.audits if a.label in labels), None))
    known = project_frame(error) or (error.location if isinstance(error, errors.VdeError) else None)
    if known is not None and known != model.location:
        return known
    place = error.place if isinstance(error, errors.ExecutionError) else None
    if place is not None:
        found = find_place(place, [model, *_inlined_models(plan, snapshot)])
        if found is not None:
            return found
    return query_start(model)


@contextmanager
def query_errors_of_model(snapshot: Snapshot) -> Iterator[None]:
    """Add the model's name and a line of its file to query errors raised in the block."""
    try:
        yield
    except errors.ExecutionError as error:
        if error.location is None:
            found = find_place(error.place, [snapshot.model]) if error.place else None
            error.location = found or query_start(snapshot.model)
            error.message = f"{snapshot.name}: {error.message}"
        raise


def write_stacks(folder: Path, plan_id: str, failed: Mapping[ModelName, Exception]) -> Path | None:
    """Write the stack traces of failed models to a log file. Returns None if that fails."""
    target = folder / f"{plan_id}.log"
    text = "\n".join(f"{name}\n\n{whole_stack(error)}" for name, error in failed.items())
    try:
        folder.mkdir(parents=True, exist_ok=True)
        target.write_text(mask(text), "utf-8", errors="replace")
        files = sorted(folder.glob("*.log"), key=lambda path: path.stat().st_mtime)
        for old in files[:-KEPT_LOGS]:
            old.unlink(missing_ok=True)
    except OSError:
        return None
    return target


def _inlined_models(plan: Plan, snapshot: Snapshot) -> Iterator[Model]:
    seen = {snapshot.name}
    left = list(snapshot.parents)
    while left:
        name = left.pop()
        entry = plan.entries.get(name)
        if name in seen or entry is None or entry.table_id is not None:
            continue
        seen.add(name)
        parent = plan.snapshots[entry.snapshot_id]
        if parent.model.query is not None:
            yield parent.model
            left.extend(parent.parents)


def find_place(place: QueryPlace, models: Iterable[Model]) -> errors.SourceLocation | None:
    """Find the line in a model's file that a part of a rendered query comes from, or None.

    Args:
        models: The model with the query, then the models that are inlined into it.
    """
    offset = place.offset if place.offset is not None else _column_offset(place)
    if offset is None:
        return None
    candidates = list(models)
    # A partial match is weak evidence: search only the model's own query.
    for whole, among in ((True, candidates), (False, candidates[:1])):
        for model in among:
            found = find_in_query(
                model.query or "", place.query, offset, offset + len(place.words), whole=whole
            )
            if found is not None:
                return model.place(found)
    return None


def query_start(model: Model) -> errors.SourceLocation:
    """Return the first line of a model's query, or the model's place if it has no query."""
    return errors.SourceLocation(model.location.path, model.place(0).line)


def _column_offset(place: QueryPlace) -> int | None:
    wanted = (place.column or "").lower()
    try:
        tree = read_query(place.query).tree
    except SqlglotError:
        return None
    for projection in tree.selects if isinstance(tree, exp.Query) else ():
        if projection.alias_or_name.lower() == wanted:
            named = projection.args.get("alias") or projection.this
            start = named.meta.get("start") if isinstance(named, exp.Expression) else None
            return int(start) if start is not None else None
    return None
