"""Models as they are in a unit test: with its variables, and in the stage of testing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.load import ProjectLoad
from vde_dagster.project.macros.this_model import STAGE, TESTING
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings
from vde_dagster.project.unit_values import UnitTest


def with_variables(test: UnitTest, root: Path, models: Mapping[ModelName, Model]) -> UnitTest:
    """Return a test with its model read anew, where that gives another one.

    So it is with variables of the test's own, and where the model's file or a macro asks for
    `@runtime_stage`, which is `testing` then.

    Args:
        test: The test.
        root: The project's folder.
        models: The project's models.

    Raises:
        ProjectError: With these variables the model has a mistake; points at the test, too.
    """
    model = models.get(test.model)
    if model is None:
        return test
    load = ProjectLoad(root, False, variables={STAGE: TESTING, **dict(test.variables)})
    if not (test.variables or _asks_for_stage(model, load.settings)):
        return test
    path = model.location.path.as_posix()
    try:
        tested = load.load_model(test.model, path)
    except ProjectError as error:
        given = "variables" if test.variables else f"the stage '{TESTING}',"
        raise ProjectError(
            f"the test '{test.name}' gives {test.model} {given} with which it has a mistake: "
            f"{error.message}",
            hint=error.hint,
            location=test.location,
        ) from error
    if tested is None:
        raise ProjectError(
            f"with the variables of the test '{test.name}' there is no model {test.model}",
            hint=f"variables in a model's name keep their values: see {path}",
            location=test.location,
        )
    return replace(test, tested=replace(tested, session=model.session))


def _asks_for_stage(model: Model, settings: Settings) -> bool:
    """Whether a model's file, or any macro of the project, has the variable's name in it."""
    code = model.python.files.values() if model.python is not None else ()
    if any(STAGE in text.lower() for text in (model.source, *code)):
        return True
    within = (settings.root, settings.root / settings.models_dir)
    files = (path for folder in within for path in (folder / settings.macros_dir).rglob("*.*"))
    return any(STAGE.encode() in path.read_bytes() for path in files if path.is_file())
