"""Putting the files of a project together: one graph of models, with every mistake found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vde_dagster.base.names import ModelName
from vde_dagster.base.suggestions import closest
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.dag import topological_order
from vde_dagster.project.kinds import External
from vde_dagster.project.loaded import LoadedFile, LoadedModel
from vde_dagster.project.model import Model
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.unit_values import UnitTest


def assemble(
    files: Iterable[LoadedFile], names: TableNames, *, complete: bool, any_table: bool = False
) -> tuple[dict[ModelName, Model], tuple[UnitTest, ...], list[ProjectError]]:
    """Join the models of all files, in topological order.

    A table that nobody declares becomes an external model, unless its namespace is one of the
    project's own: then it is a mistake.

    Args:
        files: What the files yielded.
        names: Knows the tables of other catalogs.
        complete: Whether every file could be read; if not, a missing parent may be in a file
            that could not, and is no mistake of its own.
        any_table: Whether namespaces of models may have tables that others write, as in SQLMesh.

    Returns:
        The models, the unit tests, and the mistakes; models with mistakes are left out.
    """
    problems: list[ProjectError] = []
    loaded: dict[ModelName, LoadedModel] = {}
    tests: list[UnitTest] = []
    for file in files:
        tests.extend(file.tests)
        for item in file.models:
            other = loaded.get(item.model.name)
            if other is None:
                loaded[item.model.name] = item
            elif (
                other.model.kind.is_external != item.model.kind.is_external
                and other.model.kind.is_read
                and item.model.kind.is_read
            ):
                # A declared external table that the project builds itself: the model wins.
                if other.model.kind.is_external:
                    loaded[item.model.name] = item
            else:
                problems.append(_duplicate(item.model, other.model))
    models = {name: item.model for name, item in loaded.items()}
    _add_externals(models, loaded, problems, complete and not any_table)
    models = _without_cycles(_in_their_catalogs(models, names), problems)
    if complete:
        problems.extend(_unknown_tests(models, tests))
    return models, tuple(test for test in tests if test.model in models), problems


def _duplicate(model: Model, other: Model) -> ProjectError:
    return ProjectError(
        f"model {model.name} is defined twice: in {other.location} and here",
        hint="rename one of them, or delete it",
        location=model.location,
        models=(model.name,),
    )


def _add_externals(
    models: dict[ModelName, Model],
    loaded: dict[ModelName, LoadedModel],
    problems: list[ProjectError],
    complete: bool,
) -> None:
    own = {
        name.namespace
        for name, model in models.items()
        if not model.kind.is_external and model.kind.is_read
    }
    names = set(models)
    for name, item in loaded.items():
        for parent in (*item.model.depends_on, *item.model.audited_against):
            location = item.reads.get(parent, item.model.location)
            if parent in names:
                if not models[parent].kind.is_read:
                    problems.append(_unreadable(name, parent, location))
                continue
            if parent.namespace in own and complete:
                problems.append(_missing(name, parent, location, names))
            elif parent not in models:
                models[parent] = Model(name=parent, kind=External(), location=location)


def _in_their_catalogs(models: dict[ModelName, Model], names: TableNames) -> dict[ModelName, Model]:
    if not names.catalogs:
        return models
    return {
        name: replace(model, table=names.foreign_table(name) or ())
        if model.kind.is_external
        else model
        for name, model in models.items()
    }


def _unreadable(name: ModelName, parent: ModelName, location: SourceLocation) -> ProjectError:
    return ProjectError(
        f"{name} reads {parent}, which is a standalone audit",
        hint="an audit has no rows to read: read what it reads",
        location=location,
        models=(name,),
    )


def _missing(
    name: ModelName, parent: ModelName, location: SourceLocation, names: set[ModelName]
) -> ProjectError:
    near = closest(str(parent), [str(known) for known in names if known != name])
    hint = f"did you mean '{near}'? " if near else ""
    return ProjectError(
        f"{name} reads {parent}, which is neither a model nor a declared external table",
        hint=f"{hint}declare tables that others write in external_models.yaml".strip(),
        location=location,
        models=(name,),
    )


def _without_cycles(
    models: dict[ModelName, Model], problems: list[ProjectError]
) -> dict[ModelName, Model]:
    while True:
        try:
            return {name: models[name] for name in topological_order(models)}
        except ProjectError as error:
            problems.append(error)
            models = {name: model for name, model in models.items() if name not in error.models}


def _unknown_tests(
    models: dict[ModelName, Model], tests: Iterable[UnitTest]
) -> Iterable[ProjectError]:
    for test in tests:
        if test.model not in models:
            near = closest(str(test.model), [str(name) for name in models])
            yield ProjectError(
                f"test '{test.name}' is of {test.model}, which is no model",
                hint=f"did you mean '{near}'?" if near else "name a model of the project",
                location=test.location,
            )
