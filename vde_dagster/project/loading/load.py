"""One load of a project, which reads changed files and gets all others from the cache.

Sources interpret the files. This module has the common rules: a file's cache record is valid while
the file, its source's key, and everything read for it are unchanged; each file has a time limit;
errors in one file do not prevent other files from being read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import content_digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.outside import hash_variables
from vde_dagster.base.plugins import Seam
from vde_dagster.errors import ProjectError
from vde_dagster.project.configuration.config_files import (
    CONFIG_FILES,
    DOTENV,
    load_dotenv,
    sqlmesh_variables,
)
from vde_dagster.project.files import Hasher, find_link_error
from vde_dagster.project.loading.cache import FileRecord, ProjectCache
from vde_dagster.project.macros.known_columns import ColumnsWantedError
from vde_dagster.project.model import LoadedFile, Model
from vde_dagster.project.python.watching import watching, with_recorded_reads
from vde_dagster.project.secrets import remember_secrets
from vde_dagster.project.serialise import from_plain, to_bytes, to_plain
from vde_dagster.project.settings import Settings, set_in_environment
from vde_dagster.project.sources.own_files import OwnFiles, own_files
from vde_dagster.project.sources.source import Folder, Source, SourceFactory, Surrounds, Warns
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText, nesting_error
from vde_dagster.sql.trees import ParsedQueries, collect_rarely

if TYPE_CHECKING:
    from vde_dagster.base.workers import Workers
    from vde_dagster.project.loading.waiting_files import WaitingFiles


_MANY_FILES = 500
"""Worker processes are used for at least this many files; with fewer, they save no time."""
_SETTINGS_FILES = ("pyproject.toml", *CONFIG_FILES, DOTENV)


class ProjectLoad:
    """Loads a project once: reads changed files, and takes all others from the cache.

    >>> from tempfile import TemporaryDirectory
    >>> folder = TemporaryDirectory()
    >>> (Path(folder.name) / "models").mkdir()
    >>> file = Path(folder.name) / "models" / "m.sql"
    >>> _ = file.write_text("MODEL (name a.m); SELECT 1 AS one")
    >>> [str(f.path) for f in ProjectLoad(Path(folder.name), use_cache=True).load_files()]
    ['models/m.sql']
    >>> ProjectLoad(Path(folder.name), use_cache=True).is_stale()
    False
    >>> folder.cleanup()

    Args:
        use_cache: Whether to use and to write `.vde/cache`.
        parsed: Receives the syntax trees of the queries that are read; by default none is kept.
        variables: Values that override the settings' variables.
        instead: Contents to use instead of the files' contents; then the cache is not written.
        workers: Processes that read some of the files if many files have changed.
    """

    def __init__(
        self,
        root: Path,
        use_cache: bool,
        parsed: ParsedQueries | None = None,
        sources: Sequence[SourceFactory] | None = None,
        variables: Mapping[str, Any] | None = None,
        instead: Mapping[str, bytes] | None = None,
        workers: Workers | None = None,
    ) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ProjectError(
                f"the folder {self.root} does not exist", hint="pass a folder that contains models/"
            )
        for file in _SETTINGS_FILES:
            flaw = find_link_error(str(self.root), file)
            if flaw is not None:
                raise flaw
        self.use_cache = use_cache
        self._index_changed = False
        self.cache = ProjectCache.open(self.root, use=use_cache)
        load_dotenv(self.root)
        self._environment = dict(os.environ)  # The project's code may change os.environ.
        self._hasher = Hasher(self.root, instead or {}, self.cache.stats)
        self._writes_cache = use_cache and not instead
        self.settings = self._read_settings()
        remember_secrets(self.settings)
        if variables:
            lowered = {name.lower() for name in variables}
            kept = {k: v for k, v in self.settings.variables.items() if k.lower() not in lowered}
            self.settings = replace(self.settings, variables={**kept, **variables})
        self._folder = Folder(
            self.settings,
            self._hasher,
            ParsedQueries(0) if parsed is None else parsed,
            {name: dict(kept) for name, kept in self.cache.memories.items()},
        )
        factories = project_sources(self.settings) if sources is None else sources
        made = (factory(self._folder) for factory in factories)
        self._sources: list[Source] = [source for source in made if source is not None]
        self.known_problems: list[ProjectError] | None = None
        self.problems: list[ProjectError] = []
        self._shared_problems: dict[str, Sequence[ProjectError]] = {}
        self._records: dict[str, FileRecord] = {}
        self._records_read = False
        # Another process could not know these sources, texts and values.
        self._workers = None if sources is not None or variables or instead else workers
        self._waiting: WaitingFiles | None = None

    def _read_settings(self) -> Settings:
        overridden = set_in_environment()
        known = self.cache.settings
        if not overridden and known and known["key"] == self._settings_key(known):
            return replace(from_plain(Settings, known["values"]), root=self.root)
        from vde_dagster.project.configuration.settings_source import read_settings_and_inputs

        settings, seen = read_settings_and_inputs(self.root)
        if not overridden and not seen.unrepeatable:
            made = {
                "values": to_plain(settings),
                "uses": sorted(seen.relative_paths(self.root)),
                "variables": sorted(seen.variables),
            }
            self.cache.settings = {**made, "key": self._settings_key(made)}
            self._index_changed = True
        return settings

    def _settings_key(self, read: Mapping[str, Any]) -> str:
        files = self._hasher.combined_hash([*_SETTINGS_FILES, *read["uses"]])
        variables = hash_variables([*read["variables"], *sqlmesh_variables()], self._environment)
        return content_digest(f"{self.root}\0{files}{variables}".encode())

    @cached_property
    def _files(self) -> dict[str, Source]:
        files: dict[str, Source] = {}
        for source in self._sources:
            for path in source.files():
                files.setdefault(path, source)
        return files

    @property
    def has_files(self) -> bool:
        return bool(self._files)

    @property
    def names(self) -> TableNames:
        """Rules for resolving table names, including the catalogs of all sources."""
        catalogs: dict[str, str] = {}
        for source in reversed(self._sources):
            catalogs.update(source.names.catalogs)
        return TableNames(self.settings.catalog, self.settings.default_namespace, catalogs)

    @property
    def any_table(self) -> bool:
        """Whether queries may read undeclared tables in the namespaces of models."""
        return all(source.names.any_catalog for source in self._sources)

    # -- unchanged files ---------------------------------------------------------------------

    def files_hash(self) -> str:
        """Hash the contents of the project's files, and of outside files that their code reads."""
        self._read_records()
        paths = {*_SETTINGS_FILES, *self.cache.settings.get("uses", ()), *self._files}
        variables: set[str] = set()
        for source in self._sources:
            paths.update(source.other_files())
        for path, source in self._files.items():
            record = self._records.get(path) or self._valid_record(path)
            paths.update(source.draws_in(path) if record is None else record.file.uses)
            variables.update(() if record is None else record.file.variables)
        found = self._hasher.combined_hash(paths)
        return f"{found}{hash_variables(variables, self._environment)}" if variables else found

    def is_stale(self) -> bool:
        """Return whether a file or its inputs changed since the cache was written."""
        self._read_records()
        return any(self._valid_record(path) is None for path in self._files)

    def _read_records(self) -> None:
        if not self._records_read and self.use_cache:
            self.cache.load_records()
        self._records_read = True

    def _valid_record(self, path: str) -> FileRecord | None:
        record = self.cache.records.get(path)
        return record if record and record.key == self._cache_key(path, record.file) else None

    def _cache_key(self, path: str, file: LoadedFile) -> str:
        source = self._files[path]
        content, uses = self._hasher.hash(path), self._hasher.combined_hash(file.uses)
        own = f"{content}{source.name}{source.key}{uses}"
        if file.variables:
            own += hash_variables(file.variables, self._environment)
        return content_digest(own.encode())

    # -- reading ---------------------------------------------------------------------------

    def load_files(self) -> list[LoadedFile]:
        """Read all files, and add their errors to `problems`."""
        self._read_records()
        loaded: list[LoadedFile] = []
        cached = {path: self._valid_record(path) for path in self._files}
        changed = [path for path, record in cached.items() if record is None]
        read = self._read_in_workers(changed)
        for path, record in cached.items():
            record = record or read.get(path)
            if record is not None:
                file: LoadedFile | None = record.file_with_tests()
                if record.file.repeatable:
                    self._records[path] = record
            else:
                file = self._read_and_cache(path) if self.known_problems is None else None
            if file is not None:
                loaded.append(file)
        if self._waiting is not None:
            self.problems += self._waiting.read(loaded, self._read_and_cache)
            places = {path: index for index, path in enumerate(self._files)}
            loaded.sort(key=lambda file: places[file.path.as_posix()])
        if self.known_problems is not None:
            self.problems = self.known_problems
        else:
            self._finish_reading(bool(changed))
        self.save_stats()
        return loaded

    def warnings(self, files: Sequence[LoadedFile]) -> tuple[Problem, ...]:
        found: list[Problem] = []
        for source in self._sources:
            if isinstance(source, Warns):
                own = [file for file in files if self._files.get(file.path.as_posix()) is source]
                found += source.warnings(own)
        return tuple(found)

    def around(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the sources' SQL statements to run before and after every apply."""
        found = [source.around() for source in self._sources if isinstance(source, Surrounds)]
        before, after = ([text for pair in found for text in pair[i]] for i in (0, 1))
        return tuple(before), tuple(after)

    def around_dialect(self) -> str:
        """Return the dialect that the statements of `around` were written in."""
        found = (one for one in self._sources if isinstance(one, Surrounds))
        return next((str(getattr(one, "around_dialect", "spark")) for one in found), "spark")

    def load_model(self, name: ModelName, path: str) -> Model | None:
        """Read a model's file again; return the model, or None if the file no longer has it."""
        file = self._read_and_cache(path) if path in self._files else None
        files = [file] if file is not None else []
        if self._waiting is not None and not self.problems:
            files = self.load_files()
        if self.problems:
            raise ProjectError.combine(self.problems)
        found = (loaded.model for one in files for loaded in one.models)
        return next((model for model in found if model.name == name), None)

    def _read_and_cache(self, path: str) -> LoadedFile | None:
        """Read and cache a file; return None if it has an error or must wait for other files."""
        file = self._read_file(path)
        self._hasher.forget(path)
        if file is not None and file.repeatable:
            self._records[path] = FileRecord.create(self._cache_key(path, file), file)
        return file

    def _read_in_workers(self, paths: Sequence[str]) -> dict[str, FileRecord]:
        if self._workers is None or self.known_problems is not None:
            return {}
        own = (path for path in paths if self._files[path].name == OwnFiles.name)
        paths = [path for path in own if path.endswith(".sql")]
        if len(paths) < _MANY_FILES or not self._workers.count:
            return {}
        from vde_dagster.project.loading.shared_reading import read_in_processes

        project = (str(self.root), self.use_cache)
        found = read_in_processes(paths, self.read_if_valid, self._workers, read_files, project)
        return {
            path: one for path, one in found.items() if one.key == self._cache_key(path, one.file)
        }

    def read_if_valid(self, path: str) -> FileRecord | None:
        """Read a file, unless it has an error or needs columns of a model in another file."""
        source = self._files.get(path)
        if source is None:
            return None
        self._prepare(source)
        if self._shared_problems[source.name]:
            return None
        try:
            file = self._read_by_source(source, path)
        except (ColumnsWantedError, ProjectError, RecursionError):
            self._folder.known_columns.asked.clear()
            return None
        finally:
            self._hasher.forget(path)
        return FileRecord.create(self._cache_key(path, file), file)

    def _finish_reading(self, fresh: bool) -> None:
        for source in self._sources:
            if not source.files():
                self._prepare(source)
        shared = [mistake for found in self._shared_problems.values() for mistake in found]
        self.problems += shared
        gone = set(self.cache.records) - set(self._records)
        if (fresh or gone) and self._writes_cache and not shared:
            self.cache.records = self._records
            self.cache.save_records()

    def save_stats(self) -> None:
        """Write the hashes of files, and the data of sources, to the cache."""
        memories = {name: kept for name, kept in self._folder.memories.items() if kept}
        changed = self._index_changed or memories != self.cache.memories
        # Write nothing to a folder that is not a project.
        worth = self.has_files or self.cache.folder.exists()
        if self._writes_cache and worth and (self._hasher.changed or changed):
            self.cache.stats = self._hasher.stats
            self.cache.memories = memories
            self.cache.save_index()

    def _read_file(self, path: str) -> LoadedFile | None:
        source = self._files[path]
        try:
            self._prepare(source)
            file = self._read_by_source(source, path)
            return file if self._waiting is None else self._waiting.with_column_sources(file)
        except ColumnsWantedError as wanted:
            if self._waiting is None:
                from vde_dagster.project.loading.waiting_files import WaitingFiles

                self._waiting = WaitingFiles(self._folder.known_columns)
            self._waiting.postpone(path, wanted)
        except ProjectError as error:
            shared = self._shared_problems.get(source.name, ())
            self.problems += [
                mistake for mistake in error.mistakes if not (shared and source.follows(mistake))
            ]
        except RecursionError:
            self.problems.append(nesting_error(SourceText(Path(path), self._folder.text(path))))
        return None

    def _read_by_source(self, source: Source, path: str) -> LoadedFile:
        with self._folder.in_time(path), watching() as seen:
            file = source.read(path, self._folder.text(path))
        return with_recorded_reads(file, seen, self.root)

    def _prepare(self, source: Source) -> None:
        if source.name not in self._shared_problems:
            self._shared_problems[source.name] = source.prepare()


# -- in a worker -------------------------------------------------------------------------------


def read_files(argument: tuple[str, bool, list[str]]) -> list[bytes | None]:
    """Return each file as a serialized `SharedFile`, or None if the main process must read it."""
    from vde_dagster.base.workers import call_quietly
    from vde_dagster.project.loading.shared_reading import SharedFile

    collect_rarely()
    root, use_cache, paths = argument
    load, trees = _open_load(root, use_cache), trees_in_worker()

    def read(path: str) -> bytes | None:
        record = load.read_if_valid(path)
        if record is None:
            return None
        queries = (one.model.query or "" for one in record.file.models)
        return to_bytes(SharedFile(record, tuple(text for text in queries if text in trees)))

    return [call_quietly(read, path) for path in paths]


@cache
def _open_load(root: str, use_cache: bool) -> ProjectLoad:
    return ProjectLoad(Path(root), use_cache, trees_in_worker())


@cache
def trees_in_worker() -> ParsedQueries:
    """Return the syntax trees of the queries that this worker process has parsed."""
    return ParsedQueries()


# -- sources -----------------------------------------------------------------------------------

SOURCES: tuple[SourceFactory, ...] = (own_files,)
"""Built-in sources; a file belongs to the first source that accepts it."""
_PLUGINS: Seam[SourceFactory] = Seam("sources")
OTHER_TOOLS = {"dbt_project.yml": "dbt"}
"""Marker files of other tools' projects, each with the source that reads the whole folder."""


def project_sources(settings: Settings) -> tuple[SourceFactory, ...]:
    """Return a project's sources of models.

    The built-in sources come first. If the folder has the file of another tool, such as
    `dbt_project.yml`, the source of that tool replaces the built-in sources. The sources in the
    setting `sources` follow.
    """
    for file, name in OTHER_TOOLS.items():
        if (settings.root / file).is_file():
            # The source of another tool replaces the built-in sources.
            return tuple(_PLUGINS.require(one) for one in dict.fromkeys((name, *settings.sources)))
    return (*SOURCES, *(_PLUGINS.require(name) for name in settings.sources))
