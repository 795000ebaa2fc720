"""Loading of a project as one graph of models; unchanged files come from the cache."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName, find_name_flaw
from vde_dagster.base.texts import closest, did_you_mean, printable
from vde_dagster.base.workers import Workers
from vde_dagster.errors import Fix, Hint, ProjectError, SourceLocation, Unknown, UsageError
from vde_dagster.project.dag import topological_order
from vde_dagster.project.files import find_files
from vde_dagster.project.kinds import External
from vde_dagster.project.loading import load
from vde_dagster.project.loading.load import OTHER_TOOLS, ProjectLoad
from vde_dagster.project.macros.variables import STAGE, TESTING
from vde_dagster.project.model import Exposure, LoadedFile, LoadedModel, Model, UnitTest
from vde_dagster.project.serialise import from_text, to_text
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.own_files import own_files
from vde_dagster.project.sources.source import SourceFactory
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.trees import ParsedQueries, collect_rarely


def read_with_test_variables(
    test: UnitTest, root: Path, models: Mapping[ModelName, Model]
) -> UnitTest:
    """Read the tested model again with the variables of a unit test, and attach it to the test.

    A test without variables is returned unchanged, unless the model may use `@runtime_stage`.

    Raises:
        ProjectError: With these variables the model is invalid; the message also names the test.
    """
    model = models.get(test.model)
    if model is None:
        return test
    load = ProjectLoad(root, False, variables={STAGE: TESTING, **dict(test.variables)})
    # In tests, `@runtime_stage` is `testing`.
    if not (test.variables or _uses_stage(model, load.settings)):
        return test
    path = model.location.path.as_posix()
    try:
        tested = load.load_model(test.model, path)
    except ProjectError as error:
        given = "variables" if test.variables else f"the stage '{TESTING}'"
        raise ProjectError(
            f"the test '{test.name}' sets {given}, which makes {test.model} invalid: "
            f"{error.message}",
            hint=error.hint,
            location=test.location,
        ) from error
    if tested is None:
        raise ProjectError(
            f"with the variables of the test '{test.name}', model {test.model} does not exist",
            hint=f"in the test, do not set variables that the model's name contains: see {path}",
            location=test.location,
        )
    return replace(test, tested=replace(tested, session=model.session))


def _uses_stage(model: Model, settings: Settings) -> bool:
    code = model.python.files.values() if model.python is not None else ()
    if any(STAGE in text.lower() for text in (model.source, *code)):
        return True
    within = (settings.root, settings.root / settings.models_dir)
    files = (path for folder in within for path in (folder / settings.macros_dir).rglob("*.*"))
    return any(STAGE.encode() in path.read_bytes() for path in files if path.is_file())


def join_models(
    files: Iterable[LoadedFile], names: TableNames, *, complete: bool, any_table: bool = False
) -> tuple[dict[ModelName, Model], tuple[UnitTest, ...], list[ProjectError]]:
    """Join the models of all files into one graph, parents before children.

    An undeclared table becomes an external model, or an error if its namespace has models.

    Args:
        complete: Whether every file could be read; if not, missing parents are not reported.
        any_table: Whether namespaces of models may contain undeclared tables, as in SQLMesh.

    Returns:
        The models, the unit tests, and the errors.
    """
    problems: list[ProjectError] = []
    loaded: dict[ModelName, LoadedModel] = {}
    tests: list[UnitTest] = []
    for file in files:
        tests.extend(file.tests)
        for item in file.models:
            model = item.model
            flaw = _name_error(model)
            if flaw is not None:
                problems.append(flaw)
                continue
            other = loaded.setdefault(model.name, item).model
            if other is model:
                continue
            kinds = (other.kind, model.kind)
            if all(k.is_read for k in kinds) and len({k.is_external for k in kinds}) == 2:
                # If the project builds a declared external table itself, the model wins.
                if other.kind.is_external:
                    loaded[model.name] = item
                continue
            problems.append(
                ProjectError(
                    f"model {model.name} is defined twice: in {other.location} and here",
                    hint="rename or delete one of them",
                    location=model.location,
                    models=(model.name,),
                )
            )
    models = {name: item.model for name, item in loaded.items()}
    problems += _add_externals(models, loaded, complete and not any_table)
    problems += _private_reads(loaded)
    if names.catalogs:
        external = (model for model in models.values() if model.kind.is_external)
        models |= {m.name: replace(m, table=names.foreign_table(m.name) or ()) for m in external}
    models = _without_cycles(models, problems)
    if complete:
        problems += _unknown_tests(models, tests)
    return models, tuple(test for test in tests if test.model in models), problems


def _name_error(model: Model) -> ProjectError | None:
    for part in () if model.kind.is_external else model.name:
        flaw = find_name_flaw(part)
        if flaw is not None:
            return ProjectError(
                f"'{printable(part)}' in the name of a model {flaw}",
                hint="use letters, digits and underscores, because model names become folder names",
                location=model.location,
                models=(model.name,),
            )
    return None


def _add_externals(
    models: dict[ModelName, Model], loaded: Mapping[ModelName, LoadedModel], complete: bool
) -> Iterator[ProjectError]:
    namespaces = {name.namespace for name, model in models.items() if _is_own(model)}
    names = set(models)
    for name, item in loaded.items():
        for parent in (*item.model.depends_on, *item.model.audited_against):
            location = item.reads.get(parent, item.model.location)
            if parent in names and not models[parent].kind.is_read:
                yield ProjectError(
                    f"{name} reads {parent}, which is a standalone audit and has no rows",
                    hint="read a table that the audit reads",
                    location=location,
                    models=(name,),
                )
            elif parent not in names and parent.namespace in namespaces and complete:
                near = closest(str(parent), [str(known) for known in names if known != name])
                declare = "declare external tables in external_models.yaml"
                yield ProjectError(
                    f"{name} reads {parent}, which is neither a model nor a declared external "
                    "table",
                    hint=did_you_mean(str(parent), near, f" {declare}") if near else declare,
                    location=location,
                    models=(name,),
                )
            elif parent not in models:
                models[parent] = Model(name=parent, kind=External(), location=location)


def _private_reads(loaded: Mapping[ModelName, LoadedModel]) -> Iterator[ProjectError]:
    private = {name: item.group for name, item in loaded.items() if item.is_private}
    for name, item in loaded.items() if private else ():
        for parent, location in item.reads.items():
            if parent == name or parent not in private:
                continue
            group = private[parent]
            if group is None or item.group != group:
                whose = f"to the group '{group}'" if group else "and has no group"
                yield ProjectError(
                    f"{name} reads {parent}, which is private {whose}",
                    hint=f"read a model that is not private, or change the access of {parent}",
                    location=location,
                    models=(name,),
                )


def _is_own(model: Model) -> bool:
    return model.kind.is_read and not model.kind.is_external


def _without_cycles(
    models: dict[ModelName, Model], problems: list[ProjectError]
) -> dict[ModelName, Model]:
    while True:
        try:
            return {name: models[name] for name in topological_order(models)}
        except ProjectError as error:
            problems.append(error)
            models = {name: model for name, model in models.items() if name not in error.models}


def _unknown_reads(
    models: Mapping[ModelName, Model], exposures: Iterable[Exposure]
) -> Iterator[ProjectError]:
    told: set[tuple[ModelName, object]] = set()
    for exposure in exposures:
        for name, _, place in exposure.reads:
            # Metrics share a semantic model, and an exposure reads many columns: report each once.
            keys = {(name, place), (name, (exposure.what, exposure.name))}
            if name not in models and told.isdisjoint(keys):
                told |= keys
                near = closest(str(name), [str(known) for known in models])
                yield ProjectError(
                    f"the {exposure.what} '{exposure.name}' reads {name}, which is not a model",
                    hint=did_you_mean(str(name), near) if near else "use a model of the project",
                    location=place,
                )


def _unknown_tests(
    models: dict[ModelName, Model], tests: Iterable[UnitTest]
) -> Iterator[ProjectError]:
    for test in tests:
        if test.model not in models:
            near = closest(str(test.model), [str(name) for name in models])
            yield ProjectError(
                f"test '{test.name}' tests {test.model}, which is not a model",
                hint=did_you_mean(str(test.model), near) if near else "use a model of the project",
                location=test.location,
            )


@dataclass(frozen=True, slots=True)
class Project:
    """All models, tests and settings of a project, as read from its files.

    Args:
        models: Parents before children, including external models.
        problems: Errors in the project's files; empty for strict loads.
        warnings: Warnings of sources on their files.
        around: Spark SQL statements of sources to run (before, after) an apply, in addition to the
            settings' `before_all` and `after_all`.
        around_dialect: SQLGlot dialect that these statements were written in.
    """

    root: Path
    settings: Settings
    names: TableNames
    models: dict[ModelName, Model]
    tests: tuple[UnitTest, ...]
    problems: tuple[ProjectError, ...]
    files_hash: str
    warnings: tuple[Problem, ...] = ()
    exposures: tuple[Exposure, ...] = ()
    around: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    around_dialect: str = "spark"


def load_project(
    root: Path,
    *,
    strict: bool = True,
    use_cache: bool = True,
    parsed: ParsedQueries | None = None,
    sources: Sequence[SourceFactory] | None = None,
    instead: Mapping[str, bytes] | None = None,
    workers: Workers | None = None,
) -> Project:
    """Load a project: read its changed files, and join all models into one graph.

    Args:
        strict: Whether an error in any file raises; otherwise the rest of the project is loaded,
            and `problems` has the errors.
        use_cache: Whether to use and to write `.vde/cache`.
        parsed: Receives the syntax trees of the queries that are read, for planning.
        sources: Sources of models; by default all, see `load.project_sources`.
        instead: Contents to use instead of the files' contents.

    Raises:
        ProjectError: The settings are invalid; if strict, all errors as one.
    """
    load = ProjectLoad(root, use_cache, parsed, sources, instead=instead, workers=workers)
    return _build_project(load, strict)


def load_project_isolated(root: Path, *, strict: bool = True) -> Project:
    """Load a project; another process reads changed files and runs their Python code.

    Raises:
        ProjectError: As `load_project`.
    """
    load = ProjectLoad(root, use_cache=True)
    if not load.is_stale():
        return _build_project(load, strict)
    command = [sys.executable, "-m", "vde_dagster.project.loading.loader", str(load.root)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ProjectError(
            f"the project's files could not be loaded: {done.stderr.strip()[-2000:]}"
        )
    reported = from_text(list[_ReportedError], done.stdout.splitlines()[-1])
    problems = [told.error() for told in reported]
    load = ProjectLoad(root, use_cache=True)
    if problems or not load.is_stale():
        load.known_problems = problems
    # Results of macros that call other programs are never cached, so they run here again.
    return _build_project(load, strict)


class _ReportedError(NamedTuple):
    message: str
    hint: str | None
    location: SourceLocation | None
    unknown: Unknown | None
    models: tuple[ModelName, ...]
    fixes: tuple[Fix, ...]

    @classmethod
    def from_error(cls, error: ProjectError) -> _ReportedError:
        told = error.message, error.hint, error.location, error.unknown, error.models
        return cls(*told, error.fixes)

    def error(self) -> ProjectError:
        said = self._asdict()
        fixes = said.pop("fixes")
        said["hint"] = Hint(self.hint, *fixes) if self.hint else None
        return ProjectError(said.pop("message"), **said)


def project_hash(root: Path) -> str:
    """Return a hash of the contents of all files of a project."""
    load = ProjectLoad(root, use_cache=True)
    found = load.files_hash()
    load.save_stats()
    return found


def read_settings(root: Path, *, use_cache: bool = True) -> Settings:
    """Read a project's settings, from the cache if it is valid."""
    return ProjectLoad(root, use_cache).settings


def require_files(root: Path) -> None:
    """Check that a folder has files of a project. Errors in the files do not matter."""
    load = ProjectLoad(root, use_cache=True)
    if not load.has_files:
        raise no_models_error(load.settings)


def has_models(settings: Settings) -> bool:
    """Return whether a folder may define models, without parsing its files."""
    if settings.sources or (own_files,) != load.SOURCES:
        return True
    if any((settings.root / file).is_file() for file in OTHER_TOOLS):
        return next(_files_of_other_tool(settings.root), None) is not None
    found = find_files(settings)
    if found.notebooks or found.bad_links:
        return True
    texts = (settings.root / path for path in (*found.sql, *found.python))
    return any(_MODEL.search(path.read_bytes()) for path in texts)


_MODEL = re.compile(rb"\bmodel\b", re.IGNORECASE)
_NOT_MODELS = frozenset({"target", "logs", "dbt_packages", "node_modules", "macros", "tests"})


def _files_of_other_tool(root: Path) -> Iterator[str]:
    for _, folders, names in os.walk(root):
        folders[:] = [n for n in folders if n not in _NOT_MODELS and not n.startswith(".")]
        yield from (name for name in names if name.endswith((".sql", ".py", ".csv")))


def no_models_error(settings: Settings) -> UsageError:
    return UsageError(
        f"there are no models in {settings.root} (searched in '{settings.models_dir}')",
        hint="pass a project's folder with --project, or create a project: vde init",
    )


def _build_project(load: ProjectLoad, strict: bool) -> Project:
    files = load.load_files()
    more = {catalog.lower(): catalog for file in files for catalog in file.catalogs}
    names = replace(load.names, catalogs={**more, **load.names.catalogs})
    models, tests, mistakes = join_models(
        files, names, complete=not load.problems, any_table=load.any_table
    )
    session = load.settings.spark.meaning()
    if session:
        models = {
            name: replace(model, session=session) if _is_own(model) else model
            for name, model in models.items()
        }
    misdescribed: list[Problem] = []
    if any(file.described for file in files):
        from vde_dagster.project.properties.descriptions import with_descriptions

        models, misdescribed = with_descriptions(models, files)
    exposures = tuple(exposure for file in files for exposure in file.exposures)
    if not load.problems:
        mistakes += _unknown_reads(models, exposures)
    shown = {str(problem) for problem in load.problems}
    problems = [*load.problems, *(error for error in mistakes if str(error) not in shown)]
    if strict and problems:
        raise ProjectError.combine(problems)
    return Project(
        load.root,
        load.settings,
        names,
        models,
        tests,
        tuple(problems),
        load.files_hash(),
        (*load.warnings(files), *misdescribed),
        exposures,
        load.around(),
        load.around_dialect(),
    )


def main(arguments: list[str]) -> int:
    """Load the project in a folder into its cache, and print its errors as JSON."""
    collect_rarely()
    project = load_project(Path(arguments[0]), strict=False)
    print(to_text([_ReportedError.from_error(problem) for problem in project.problems]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
