"""Messages about changes in place: errors for refused changes, and warnings."""

from __future__ import annotations

from collections.abc import Iterable

from vde_dagster.errors import ProjectError
from vde_dagster.planning.plan.forward_only import InPlaceFinding, InPlaceFindingCode
from vde_dagster.reports.reasons import describe_column_change


def warnings_in_place(findings: Iterable[InPlaceFinding]) -> list[str]:
    """Return the warnings about changes in place, in sentences.

    Raises:
        ProjectError: A change is refused.
    """
    refused = [finding for finding in findings if finding.refuses]
    if refused:
        raise ProjectError.combine(list(map(_refusal, refused)))
    return list(map(_warning, findings))


def _refusal(finding: InPlaceFinding) -> ProjectError:
    model, name = finding.model, finding.model.name
    is_dbt = model.tool == "dbt"
    if finding.code is InPlaceFindingCode.SHARED_TABLE:
        message = (
            f"{name} cannot change forward-only: in production it shares a table with "
            f"{', '.join(finding.names)}, because their definitions were equal"
        )
        hint = "give this model a physical_version and publish it, so that it gets its own table"
    elif finding.code is InPlaceFindingCode.UNNAMED_FIELDS:
        message = (
            f"{name} cannot add fields to column {', '.join(finding.names)} in place: the "
            "published view reads the column as a whole, because it contains an array or a map "
            "and the model is not forward-only"
        )
        setting = "full_refresh: false in dbt" if is_dbt else "forward_only true in its kind"
        hint = (
            f"set {setting}, publish that, and then add the field; without "
            "--forward-only the change makes a new table"
        )
    elif finding.code in (InPlaceFindingCode.KIND_CHANGED, InPlaceFindingCode.KEY_RETYPED):
        message = (
            f"{name} cannot keep its table of physical_version {model.physical_version}: "
            f"{_obstacle(finding)}, which requires a new table"
        )
        hint = "give it another physical_version, so that it gets a new table"
    else:
        what = finding.code.value
        message = (
            f"{_policy_warning(finding)}, which the setting on_{what}_change of its kind forbids"
        )
        setting = f"on_{what}_change allow in its kind"
        if is_dbt:
            setting = "on_schema_change: sync_all_columns in dbt"
        hint = f"add --allow-{what}-model {name} to allow it once, or set {setting}"
    return ProjectError(message, hint=hint, location=model.location)


def _warning(finding: InPlaceFinding) -> str:
    model, name = finding.model, finding.model.name
    if finding.code is InPlaceFindingCode.RECOMPUTED_ELSEWHERE:
        return (
            f"{name} is recomputed here and in {', '.join(finding.others)}, although it changes "
            f"forward-only in {', '.join(finding.names)}; add --forward-only to keep its rows"
        )
    if finding.code is InPlaceFindingCode.ROWS_STAY:
        return (
            f"{name} ignores --effective-from: its kind {model.kind.name} would add rows to the "
            "existing rows instead of replacing them"
        )
    if finding.code in (InPlaceFindingCode.KIND_CHANGED, InPlaceFindingCode.KEY_RETYPED):
        return (
            f"{name} is recomputed instead of changing forward-only: {_obstacle(finding)}, which "
            "requires a new table"
        )
    return _policy_warning(finding)


def _obstacle(finding: InPlaceFinding) -> str:
    if finding.code is InPlaceFindingCode.KIND_CHANGED:
        return "its kind or a setting that determines its rows changed"
    (column,) = finding.changes
    return (
        f"column {column.column}, which identifies its rows, changed its type from {column.was} "
        f"to {column.becomes}"
    )


def _policy_warning(finding: InPlaceFinding) -> str:
    changes = "; ".join(map(describe_column_change, finding.changes))
    return f"{finding.model.name} changes forward-only, and {changes}"
