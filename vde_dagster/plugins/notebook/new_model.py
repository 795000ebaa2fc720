"""A query that becomes a model's file, which stays where the project can be planned with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.plan.plan import Plan


def write_model(
    workspace: Workspace,
    name: str,
    kind: str,
    query: str,
    environment: str,
    *,
    replace: bool = False,
) -> tuple[Path, Plan]:
    """Write `models/schema/name.sql`; return its path in the project, and what would come of it.

    Args:
        kind: As a header has it: `FULL`, `INCREMENTAL_BY_TIME_RANGE (time_column day)`.
        environment: For which one it is planned; the plan is not stored.
        replace: Whether a file of the name may be there.

    Raises:
        UsageError: The file or the model is there.
        ProjectError: The model has mistakes, or others have them with it; all files are as before.
    """
    workspace.reload()
    model = ModelName.parse(name, workspace.settings.default_namespace)
    path = Path("models", model.namespace, f"{model.name}.sql")
    text = f"MODEL (\n  name {model},\n  kind {kind}\n);\n\n{query.strip().rstrip(';')}\n"
    there = workspace.project.models.get(model)
    if there is not None:
        path = there.location.path
    if not replace and (there is not None or (workspace.root / path).exists()):
        raise UsageError(
            f"{model} is there already, in {path}",
            hint="give the model another name, or say --replace",
        )
    file = workspace.root / path
    before = file.read_bytes() if file.exists() else None
    made = [folder for folder in file.parents if not folder.exists()]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    workspace.reload()
    try:
        return path, workspace.plans.make(environment, save=False)
    except BaseException:
        if before is not None:
            file.write_bytes(before)
        else:
            file.unlink()
            for folder in made:
                folder.rmdir()
        workspace.reload()
        raise
