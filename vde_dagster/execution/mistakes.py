"""All errors of a project's files, collected over all files that can be read."""

from __future__ import annotations

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Model
from vde_dagster.sql.trees import ParsedQueries


def all_mistakes(project: Project, parsed: ParsedQueries) -> ProjectError:
    """Collect the errors of all files of a project into one error."""
    from vde_dagster.planning.build_snapshots import build_snapshots, sort_mistakes
    from vde_dagster.planning.checks.unit_tests import find_test_mistakes
    from vde_dagster.planning.environments.contracts import find_reader_mistakes

    models, found = models_without_errors(project), list(project.problems)
    try:
        build_snapshots(
            models,
            lambda name: (),  # The state is not opened for this: assume that tables exist.
            parsed=parsed,
            scalar_functions=project.settings.scalar_functions,
            functions=project.settings.functions,
            warnings=[],
            more=lambda known: (
                *find_test_mistakes(project.tests, models, known),
                *find_reader_mistakes(project.exposures, known, []),
            ),
        )
    except ProjectError as error:
        known = {str(mistake) for mistake in found}
        found += (mistake for mistake in error.mistakes if str(mistake) not in known)
    return ProjectError.combine(sort_mistakes(found))


def models_without_errors(project: Project) -> dict[ModelName, Model]:
    """Return the models without errors in their own files or in files of their ancestors."""
    models = project.models
    own = {name.namespace for name, m in models.items() if not m.kind.is_external}
    unknown = {name for problem in project.problems for name in problem.models}
    for name, model in models.items():  # Parents come first.
        undeclared = model.kind.is_external and not model.columns
        doubtful = undeclared and name.namespace in own
        if doubtful or not unknown.isdisjoint((*model.depends_on, *model.audited_against)):
            unknown.add(name)
    return {name: model for name, model in models.items() if name not in unknown}
