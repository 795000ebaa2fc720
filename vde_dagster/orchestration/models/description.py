"""Description of a model in Dagster's catalog: its definition, and how it differs from the file."""

from __future__ import annotations

from vde_dagster.orchestration.models.live import LiveModel
from vde_dagster.planning.plan.compare_snapshots import definition_changes
from vde_dagster.reports.document import diff_lines
from vde_dagster.reports.markdown import diff_block
from vde_dagster.reports.reasons import describe_reason


def describe_model(model: LiveModel) -> str:
    definition, edited = (model.published or model.snapshot).model, model.snapshot.model
    parts = [definition.description] if definition.description else []
    if model.error:
        error = model.error.replace(" Hint: ", "\n\nHint: ")
        parts.append(f"**This model's file has an error:** {error}")
    if not model.in_project:
        parts.append("*Removed from the project; an environment still contains it.*")
    elif model.published is None and model.versions:
        parts.append("*No environment contains it yet.*")
    shown = [
        f"Snapshot `{version.key}` is published in {', '.join(version.environments)}."
        for version in model.listed
        if version.environments
    ]
    if shown:
        parts.append(" ".join(shown))
    if definition.source:
        language = "python" if definition.python else "sql"
        parts.append(f"```{language}\n{definition.source.strip()}\n```")
    if diff := diff_lines(definition.source.strip(), edited.source.strip()):
        why = definition_changes(model.snapshot, model.published) if model.published else []
        difference = f" {'; '.join(map(describe_reason, why))}." if why else ""
        parts.append(f"**The file has changes that are not published:**{difference}")
        parts.append(diff_block(diff))
    return "\n\n".join(parts)
