"""All mistakes of a project at once: in its files, in what models mean, and in tests."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.execution.unit_testing.check import mistakes_in_tests
from vde_dagster.planning.build_snapshots import build_snapshots, in_order
from vde_dagster.project.loading.loader import Project, load_project
from vde_dagster.project.model import Model
from vde_dagster.sql.parsed import ParsedQueries


def all_mistakes(root: Path, found: ProjectError) -> ProjectError:
    """Add what is wrong in the models of the files that could be read.

    Args:
        root: The project's folder.
        found: What loading it raised.

    Returns:
        One error that has all mistakes.
    """
    try:
        parsed = ParsedQueries()
        project = load_project(root, strict=False, parsed=parsed)
        models = _understood(project)
        build_snapshots(
            models,
            lambda name: (),  # The state is not opened for this: any table may be there.
            parsed=parsed,
            scalar_functions=project.settings.scalar_functions,
            functions=project.settings.functions,
            warnings=[],
            more=lambda known: mistakes_in_tests(project.tests, models, known),
        )
    except ProjectError as error:
        known = {str(mistake) for mistake in found.mistakes}
        more = [mistake for mistake in error.mistakes if str(mistake) not in known]
        return ProjectError.of(in_order([*found.mistakes, *more]))
    return ProjectError.of(in_order(found.mistakes))


def _understood(project: Project) -> dict[ModelName, Model]:
    """Leave out what a file with a mistake may define, and all that reads it."""
    models = project.models
    own = {name.namespace for name, m in models.items() if not m.kind.is_external}
    unknown = {name for problem in project.problems for name in problem.models}
    for name, model in models.items():  # Parents come first.
        undeclared = model.kind.is_external and not model.columns
        doubtful = undeclared and name.namespace in own
        if doubtful or not unknown.isdisjoint((*model.depends_on, *model.audited_against)):
            unknown.add(name)
    return {name: model for name, model in models.items() if name not in unknown}
