"""Loading a project: files in, models out; unchanged files come from the cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError
from vde_dagster.project.loading.assembly import assemble
from vde_dagster.project.loading.codec import error_from_json, error_to_json
from vde_dagster.project.loading.load import ProjectLoad
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings
from vde_dagster.project.sources.source import SourceFactory
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.unit_values import UnitTest
from vde_dagster.sql.garbage import collect_rarely
from vde_dagster.sql.parsed import ParsedQueries

if TYPE_CHECKING:
    from subprocess import CompletedProcess


@dataclass(frozen=True, slots=True)
class Project:
    """A project as its files define it.

    Args:
        root: Its folder.
        settings: Its settings.
        names: What names of tables mean, over all its sources.
        models: Its models, parents before children, external ones included.
        tests: Its unit tests.
        problems: What is wrong with files that were left out; empty for strict loads.
        files_hash: Hash of the contents of all its files, see `project_hash`.
    """

    root: Path
    settings: Settings
    names: TableNames
    models: dict[ModelName, Model]
    tests: tuple[UnitTest, ...]
    problems: tuple[ProjectError, ...]
    files_hash: str


def load_project(
    root: Path,
    *,
    strict: bool = True,
    use_cache: bool = True,
    parsed: ParsedQueries | None = None,
    sources: Sequence[SourceFactory] | None = None,
    instead: Mapping[str, bytes] | None = None,
) -> Project:
    """Load the project in a folder.

    Args:
        root: The folder.
        strict: Whether a mistake in any file raises; otherwise the rest of the project loads and
            the mistakes are in `problems`.
        use_cache: Whether to use and to write `.vde/cache`.
        parsed: Takes the trees of the queries that are read, for planning; by default none is
            kept.
        sources: What models come from; by default all that there are, see `sources.registry`.
        instead: Contents that count in place of those of files.

    Raises:
        ProjectError: The settings are wrong; when strict, any mistake. Several mistakes are one
            error that has them all, see `ProjectError.mistakes`.
    """
    return _finish(ProjectLoad(root, use_cache, parsed, sources, instead=instead), strict)


def load_project_isolated(root: Path, *, strict: bool = True) -> Project:
    """Load a project without executing its Python files in this process.

    A process of its own does the reading where the cache is stale; long-lived servers keep no
    old modules in this way.

    Raises:
        ProjectError: As `load_project`.
    """
    load = ProjectLoad(root, use_cache=True)
    if not load.stale():
        return _finish(load, strict)
    done = _read_elsewhere(load.root)
    if done.returncode != 0:
        raise ProjectError(
            f"the project's files could not be loaded: {done.stderr.strip()[-2000:]}"
        )
    problems = [error_from_json(item) for item in json.loads(done.stdout.splitlines()[-1])]
    load = ProjectLoad(root, use_cache=True)
    if problems or not load.stale():
        load.known_problems = problems
    # Else a macro asks other programs: its answer is in no cache, so it is asked here too.
    return _finish(load, strict)


def _read_elsewhere(root: Path) -> CompletedProcess[str]:
    import subprocess

    command = [sys.executable, "-m", "vde_dagster.project.loading.loader", str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def project_hash(root: Path) -> str:
    """Hash the contents of all of a project's files, quickly: unchanged files are not read.

    Raises:
        ProjectError: The settings are wrong.
    """
    load = ProjectLoad(root, use_cache=True)
    found = load.files_hash()
    load.save_stats()
    return found


def read_settings(root: Path, *, use_cache: bool = True) -> Settings:
    """Read a project's settings, from the cache when `pyproject.toml` is unchanged.

    Settings that the environment overrides are never written to the cache.

    Raises:
        ProjectError: They are wrong.
    """
    return ProjectLoad(root, use_cache).settings


def require_files(root: Path) -> None:
    """Make sure that a folder has files that define something, be they wrong.

    Raises:
        UsageError: It has none, so it is no project.
        ProjectError: Its settings are wrong.
    """
    load = ProjectLoad(root, use_cache=True)
    if not load.has_files:
        raise no_models(load.settings)


def no_models(settings: Settings) -> UsageError:
    """Return the error that says that a folder has no models."""
    return UsageError(
        f"there are no models in {settings.root} (looked for in '{settings.models_dir}')",
        hint="give a project's folder with --project, or make a project with `vde init`",
    )


def _finish(load: ProjectLoad, strict: bool) -> Project:
    files = load.load_files()
    more = {catalog.lower(): catalog for file in files for catalog in file.catalogs}
    names = replace(load.names, catalogs={**more, **load.names.catalogs})
    models, tests, mistakes = assemble(
        files, names, complete=not load.problems, any_table=bool(load.settings.config_file)
    )
    session = load.settings.spark.meaning()
    if session:
        models = {
            name: replace(model, session=session) if _has_rows_of_its_own(model) else model
            for name, model in models.items()
        }
    shown = {str(problem) for problem in load.problems}
    problems = [*load.problems, *(error for error in mistakes if str(error) not in shown)]
    if strict and problems:
        raise ProjectError.of(problems)
    return Project(
        load.root, load.settings, names, models, tests, tuple(problems), load.files_hash()
    )


def main(arguments: list[str]) -> int:
    """Load the project in a folder, fill its cache, and print its problems as JSON."""
    collect_rarely()
    project = load_project(Path(arguments[0]), strict=False)
    print(json.dumps([error_to_json(problem) for problem in project.problems]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))


def _has_rows_of_its_own(model: Model) -> bool:
    return model.kind.is_read and not model.kind.is_external
