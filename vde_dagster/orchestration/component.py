"""Dagster component that loads a project as a code location, and its scaffolder.

Dagster evaluates the fields' annotations, so they are not postponed here.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any
from weakref import WeakKeyDictionary

import dagster as dg
from dagster.components.component_scaffolding import scaffold_component
from dagster.components.utils.translation import TranslationFn, TranslationFnResolver
from pydantic import BaseModel, Field, field_validator

from vde_dagster.errors import UsageError
from vde_dagster.orchestration.definitions import vde_definitions
from vde_dagster.orchestration.instance import require_models
from vde_dagster.orchestration.jobs.jobs import EXECUTOR
from vde_dagster.orchestration.models.live import LiveModel
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.project.loading.loader import read_settings
from vde_dagster.project.settings import Settings

_COMPONENT = """import dagster as dg

from vde_dagster.orchestration import VdeProjectComponent


@dg.component_instance
def load(context: dg.ComponentLoadContext) -> VdeProjectComponent:
    return VdeProjectComponent(project={project!r})
"""


class ScaffoldParams(BaseModel):
    """Options of `dg scaffold defs vde_dagster.orchestration.VdeProjectComponent`."""

    project: str = Field(description="Folder of a project with models; `vde init` creates one.")

    # Dagster validates the options before it creates a folder: a refusal leaves nothing behind.
    @field_validator("project")
    @classmethod
    def _has_models(cls, value: str) -> str:
        require_models(Path(value).resolve())
        return value


class VdeProjectScaffolder(dg.Scaffolder[ScaffoldParams]):
    """Writes the file of a component for one project."""

    @classmethod
    def get_scaffold_params(cls) -> type[ScaffoldParams]:
        return ScaffoldParams

    def scaffold(self, request: dg.ScaffoldRequest[ScaffoldParams]) -> None:
        """Write `defs.yaml` or `component.py`, with a relative path to the project's folder."""
        folder = request.target_path.parent if request.append else request.target_path
        relative = os.path.relpath(Path(request.params.project).resolve(), folder.resolve())
        project = Path(relative).as_posix()
        if request.scaffold_format == "python":
            text = _COMPONENT.format(project=project)
            (folder / "component.py").write_text(text, "utf-8")
        else:
            scaffold_component(request, {"project": project})


def _scope(model: LiveModel) -> Mapping[str, Any]:
    return {"model": model.snapshot.model, "kind": model.snapshot.model.kind.name}


@dg.scaffold_with(VdeProjectScaffolder)
@dataclass
class VdeProjectComponent(dg.Component, dg.Resolvable):
    """Models, plans, environments, jobs, sensors and schedules of one project.

    ```yaml
    type: vde_dagster.orchestration.VdeProjectComponent
    attributes:
      project: ../../warehouse
      translation:
        group_name: "{{ model.name.namespace }}_models"
        tags: {team: analytics}
    ```
    """

    project: Annotated[
        str,
        dg.Resolver.default(
            description="The project's folder, relative to this file's folder.",
            examples=["../../warehouse"],
        ),
    ] = "."
    translation: (
        Annotated[TranslationFn[LiveModel], TranslationFnResolver[LiveModel](_scope)] | None
    ) = None
    in_process: Annotated[
        bool,
        dg.Resolver.default(
            description="Run every job in one process, so that all its steps share one Spark "
            "session. Turn it off when other definitions set the executor."
        ),
    ] = True

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        here = Path(context.path)  # a folder for defs.yaml, a file for component.py
        root = ((here.parent if here.is_file() else here) / self.project).resolve()
        if not root.is_dir():
            raise UsageError(
                f"the component's project folder {root} does not exist",
                hint="set `project` in defs.yaml, relative to the folder of defs.yaml",
            )
        settings = read_settings(root)
        _take_prefix(context, settings)
        translator = None
        if self.translation is not None:
            translator = _Translated(root, settings.catalog, self.translation)
        return vde_definitions(root, translator, executor=EXECUTOR if self.in_process else None)


_PREFIXES: WeakKeyDictionary[Any, dict[str, tuple[Path, Path]]] = WeakKeyDictionary()
"""Keys: state tracker of a component tree, then prefix. Values: paths of component and project."""


def _take_prefix(context: dg.ComponentLoadContext, settings: Settings) -> None:
    prefix, own = settings.dagster.prefix, Path(context.path)
    taken = _PREFIXES.setdefault(context.component_tree.state_tracker, {})
    component, project = taken.setdefault(prefix, (own, settings.root))
    # Dagster itself would fail only on the first equal name.
    if component != own:
        raise UsageError(
            f"{project} and {settings.root} would define the same names in this code location",
            hint='set prefix = "a_name" under [tool.vde.dagster] in the pyproject.toml of one '
            "project",
        )


class _Translated(VdeTranslator):
    def __init__(self, root: Path, catalog: str, translation: TranslationFn[LiveModel]) -> None:
        super().__init__(root, catalog)
        self._translation = translation

    def get_asset_spec(self, model: LiveModel) -> dg.AssetSpec:
        return self._translation(super().get_asset_spec(model), model)
