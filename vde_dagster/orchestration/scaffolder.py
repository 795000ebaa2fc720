"""What `dg scaffold defs` writes for a project."""

from __future__ import annotations

import os
from pathlib import Path

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from pydantic import BaseModel, Field, field_validator

from vde_dagster.orchestration.require_models import require_models

_COMPONENT = """import dagster as dg

from vde_dagster.orchestration import VdeProjectComponent


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> VdeProjectComponent:
    return VdeProjectComponent(project={project!r})
"""


class ScaffoldParams(BaseModel):
    """The options of `dg scaffold defs vde_dagster.orchestration.VdeProjectComponent`."""

    project: str = Field(description="The folder of a project with models; `vde init` makes one.")

    # Dagster reads the options before it makes a folder, so a refusal leaves nothing behind.
    @field_validator("project")
    @classmethod
    def _has_models(cls, value: str) -> str:
        require_models(Path(value).resolve())
        return value


class VdeProjectScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes the file of a component that is one project."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        """Return the options."""
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write `defs.yaml` or `component.py`, with the project's folder relative to it."""
        folder = request.target_path.parent if request.append else request.target_path
        relative = os.path.relpath(Path(request.params.project).resolve(), folder.resolve())
        project = Path(relative).as_posix()
        if request.scaffold_format == "python":
            text = _COMPONENT.format(project=project)
            (folder / "component.py").write_text(text, "utf-8")
        else:
            scaffold_component(request, {"project": project})
