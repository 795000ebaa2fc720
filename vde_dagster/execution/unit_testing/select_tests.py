"""Which unit tests somebody means: by their names, or by their models as plans select them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vde_dagster.base.names import ModelName
from vde_dagster.project.model import Model
from vde_dagster.project.selection import Changed, select
from vde_dagster.project.unit_values import UnitTest


def select_tests(
    tests: Sequence[UnitTest],
    models: Mapping[ModelName, Model],
    patterns: Sequence[str],
    changed: Changed | None = None,
) -> list[UnitTest]:
    """Return the tests that patterns name, in order; all where there are none.

    Args:
        tests: The project's tests.
        models: The project's models.
        patterns: Names of tests, and patterns of models, see `project.selection`.
        changed: Returns which files differ from a branch.

    Raises:
        UsageError: A pattern is no test's name and selects no model.
    """
    if not patterns:
        return list(tests)
    named = {test.name.lower() for test in tests} & {text.lower() for text in patterns}
    others = [text for text in patterns if text.lower() not in named]
    chosen = select(models, others, changed) if others else set()
    return [test for test in tests if test.name.lower() in named or test.model in chosen]
