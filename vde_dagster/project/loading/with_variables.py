"""Models as they are with the variables of a unit test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.load import ProjectLoad
from vde_dagster.project.model import Model
from vde_dagster.project.unit_values import UnitTest


def with_variables(test: UnitTest, root: Path, models: Mapping[ModelName, Model]) -> UnitTest:
    """Return a test with its model read anew with the test's variables, where it has any.

    Args:
        test: The test.
        root: The project's folder.
        models: The project's models.

    Raises:
        ProjectError: With these variables the model has a mistake; points at the test, too.
    """
    model = models.get(test.model)
    if not test.variables or model is None:
        return test
    path = model.location.path.as_posix()
    try:
        tested = ProjectLoad(root, False, variables=dict(test.variables)).load_model(
            test.model, path
        )
    except ProjectError as error:
        raise ProjectError(
            f"the test '{test.name}' gives {test.model} variables with which it has a mistake: "
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
