"""One load of a project: which files are as they were, and reading those that are not."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from vde_dagster.base.outside import hash_variables
from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.cache import ProjectCache
from vde_dagster.project.loading.codec import file_from_json, file_to_json
from vde_dagster.project.loading.files import Hasher, ProjectFiles, find_files
from vde_dagster.project.loading.loaded import LoadedFile, with_what_was_read
from vde_dagster.project.loading.parsed import ParsedQueries
from vde_dagster.project.loading.settings_json import settings_from_json, settings_to_json
from vde_dagster.project.loading.time_limit import TooSlow, time_limit
from vde_dagster.project.python.watching import Seen, watching
from vde_dagster.project.reading.text_files import decoded
from vde_dagster.project.settings import Settings, set_in_environment
from vde_dagster.sql.nesting import nested_too_deeply
from vde_dagster.sql.scanner import SourceText

_FOLLOWING = ("macro", "audit")
"""What a broken file of macros or audits may have defined."""

_SETTINGS_FILES = ("pyproject.toml", "config.yaml")


def _may_follow(mistake: ProjectError) -> bool:
    """Say whether a mistake may only follow from a broken file of macros or audits."""
    return mistake.unknown is not None and mistake.unknown.what in _FOLLOWING


class ProjectLoad:
    """One load: what was read, and what is still to be read.

    Args:
        root: The project's folder.
        use_cache: Whether to use and to write `.vde/cache`.
    """

    def __init__(self, root: Path, use_cache: bool) -> None:
        self.root = Path(root).resolve()
        if not self.root.is_dir():
            raise ProjectError(
                f"there is no folder {self.root}", hint="give a folder that has models/ in it"
            )
        self.use_cache = use_cache
        self._index_changed = False
        self.cache = ProjectCache.open(self.root, use=use_cache)
        self.hasher = Hasher(self.root, self.cache.stats)
        self._environment = dict(os.environ)  # The project's own code may change it.
        self.settings = self._settings()
        self.files: ProjectFiles = find_files(self.settings)
        self.known_problems: list[ProjectError] | None = None
        self.problems: list[ProjectError] = []
        self.records: dict[str, list[Any]] = {}
        self._records_read = False
        self._roles: dict[str, str] = {}
        self.parsed = ParsedQueries()

    def _settings(self) -> Settings:
        key = hashlib.blake2b(
            f"{self.root}\0{self.hasher.combined(_SETTINGS_FILES)}".encode(), digest_size=16
        ).hexdigest()
        overridden = set_in_environment()
        if not overridden and self.cache.settings.get("key") == key:
            return settings_from_json(self.root, self.cache.settings["values"])
        from vde_dagster.project.reading.settings_source import load_settings

        settings = load_settings(self.root)
        if not overridden:
            self.cache.settings = {"key": key, "values": settings_to_json(settings)}
            self._index_changed = True
        return settings

    # -- hashes ----------------------------------------------------------------------------

    def files_hash(self) -> str:
        """Hash all files, those outside the project's folders included that others use."""
        self._read_records()
        uses = [use for path in self._sources() for use in self._uses(path)]
        found = self.hasher.combined([*_SETTINGS_FILES, *self.files.all(), *uses, *self.macro_uses])
        variables = {name for path in self._sources() for name in self._variables(path)}
        return f"{found}{hash_variables(variables, self._environment)}" if variables else found

    def _uses(self, path: str) -> list[str]:
        """Return the files that a file draws in: as its record says, else by its imports."""
        record = self._known(path)
        if record is not None:
            return list(record["uses"])
        return self._imports(path) if path in self.files.python else []

    def _variables(self, path: str) -> list[str]:
        record = self._known(path)
        return [] if record is None else list(record["variables"])

    def _known(self, path: str) -> dict[str, Any] | None:
        return self.records[path][1] if path in self.records else self._cached(path)

    def _imports(self, path: str) -> list[str]:
        from vde_dagster.project.python.files import with_local_imports

        try:
            return list(with_local_imports(self.root, path, self._text(path)))
        except ProjectError:
            return []  # a file that cannot be read draws in nothing; loading it says why

    @cached_property
    def macro_uses(self) -> list[str]:
        """The modules that the macros' files import, remembered while none of them changes."""
        known = self.cache.macro_uses
        uses = [str(use) for use in known.get("uses", ())]
        if known.get("key") == self.hasher.combined([*self.files.macros, *uses]):
            return uses
        found = {use for path in self.files.macros for use in self._imports(path)}
        uses = sorted(found - set(self.files.macros))
        key = self.hasher.combined([*self.files.macros, *uses])
        self.cache.macro_uses = {"key": key, "uses": uses}
        self._index_changed = True
        return uses

    @cached_property
    def shared_key(self) -> str:
        """Hash everything that decides what any one file means, beyond its own text."""
        settings = self.settings
        deciding = (
            settings.models_dir,
            settings.seeds_dir,
            settings.catalog,
            settings.default_namespace,
            settings.dialect,
            str(settings.start),
            settings.cron,
            settings.owner,
            sorted(settings.variables.items()),
        )
        state = hashlib.blake2b(repr(deciding).encode(), digest_size=16)
        state.update(self.hasher.combined([*self.files.macros, *self.macro_uses]).encode())
        audits = [path for path in self.files.sql if self._role(path) == "audit"]
        state.update(self.hasher.combined(audits).encode())
        return state.hexdigest()

    def _role(self, path: str) -> str:
        """Say whether a SQL file holds audits or models; remembered by its content."""
        role = self._roles.get(path)
        if role is None:
            role = self._roles[path] = self._read_role(path)
        return role

    def _read_role(self, path: str) -> str:
        found = self.cache.records.get(path)
        if found is not None and found[1].get("content") == self.hasher.hash(path):
            return str(found[1]["role"])
        from vde_dagster.project.reading.statements import is_audit_file

        try:
            return "audit" if is_audit_file(self._text(path)) else "model"
        except ProjectError:
            return "model"  # the error shows again, with its place, when the file is read

    def _key(self, path: str, record: dict[str, Any]) -> str:
        content = self.hasher.hash(path)
        own = f"{content}{self.shared_key}{self.hasher.combined(record['uses'])}"
        if record["variables"]:
            own += hash_variables(record["variables"], self._environment)
        return hashlib.blake2b(own.encode(), digest_size=16).hexdigest()

    # -- reading ---------------------------------------------------------------------------

    def _read_records(self) -> None:
        if not self._records_read and self.use_cache:
            self.cache.load_records()
        self._records_read = True

    def _sources(self) -> list[str]:
        roles = [path for path in self.files.sql if self._role(path) == "model"]
        return [*roles, *self.files.python, *self.files.externals, *self.files.tests]

    def stale(self) -> bool:
        """Say whether any file has to be read anew."""
        self._read_records()
        return any(self._cached(path) is None for path in self._sources())

    def _cached(self, path: str) -> dict[str, Any] | None:
        found = self.cache.records.get(path)
        if found is None:
            return None
        key, record = found
        return record if key == self._key(path, record) else None

    def load_files(self) -> list[LoadedFile]:
        """Read all files; mistakes go to `problems`."""
        self._read_records()
        loaded: list[LoadedFile] = []
        fresh = False
        sources = self._sources()
        for path in sources:
            record = self._cached(path)
            file = file_from_json(record["file"]) if record is not None else None
            if file is None and self.known_problems is None:
                fresh = True
                file = self._read_file(path)
                record = self._record(path, file) if file is not None else None
                self.hasher.forget(path)
            if file is not None and record is not None:
                if file.repeatable:
                    self.records[path] = [self._key(path, record), record]
                loaded.append(file)
        if self.known_problems is not None:
            self.problems = self.known_problems
        else:
            self.problems += self._macro_problems
            gone = set(self.cache.records) - set(self.records)
            if (fresh or gone) and self.use_cache and not self._macro_problems:
                self.cache.records = self.records
                self.cache.save_records()
        self.save_stats()
        return loaded

    def save_stats(self) -> None:
        """Remember the files' hashes for the next process."""
        if self.use_cache and (self.hasher.changed or self._index_changed):
            self.cache.stats = self.hasher.stats
            self.cache.save_index()

    def _read_file(self, path: str) -> LoadedFile | None:
        try:
            read = self._reader(path)
            with self._in_time(path), watching() as seen:
                file = read(Path(path), self._text(path))
            if path in self.files.sql or path in self.files.python:
                seen.add(self._macros_saw)
            return with_what_was_read(file, seen, self.root)
        except ProjectError as error:
            self.problems += [
                mistake
                for mistake in error.mistakes
                if not (self._macro_problems and _may_follow(mistake))
            ]
        except RecursionError:
            self.problems.append(nested_too_deeply(SourceText(Path(path), self._text(path))))
        return None

    @contextmanager
    def _in_time(self, path: str) -> Iterator[None]:
        seconds = self.settings.load_seconds
        try:
            with time_limit(seconds):
                yield
        except TooSlow as error:
            from vde_dagster.project.python.files import where_raised

            raise ProjectError(
                f"the file was not read within {seconds} seconds",
                hint="look for a loop without an end; slow work belongs into a model's function; "
                "or raise the setting 'load_seconds'",
                location=where_raised(error, Path(path)),
            ) from None

    def _record(self, path: str, file: LoadedFile) -> dict[str, Any]:
        return {
            "content": self.hasher.hash(path),
            "role": "model",
            "uses": list(file.uses),
            "variables": list(file.variables),
            "file": file_to_json(file),
        }

    def _reader(self, path: str) -> Callable[[Path, str], LoadedFile]:
        context = self.context
        if path in self.files.tests:
            from vde_dagster.project.reading.unit_tests import load_unit_tests

            return lambda p, text: LoadedFile(p, tests=load_unit_tests(p, text, context.rules))
        if path in self.files.externals:
            from vde_dagster.project.reading.external_models import load_external_models

            dialect = self.settings.dialect
            return lambda p, text: load_external_models(p, text, context.rules, dialect)
        if path in self.files.python:
            from vde_dagster.project.python.models import load_python_file

            return lambda p, text: load_python_file(self.root, p, text, context, self.hasher.hash)
        from vde_dagster.project.reading.sql_models import load_sql_file

        return lambda p, text: load_sql_file(p, text, context)

    @cached_property
    def context(self) -> Any:
        """Execute the macros and read the audits; only when some file has to be read."""
        from vde_dagster.project.python.files import execute
        from vde_dagster.project.reading.audits import read_audit
        from vde_dagster.project.reading.sql_models import FileContext
        from vde_dagster.project.reading.statements import split_blocks

        macros: dict[str, Callable[..., Any]] = {}
        for path in self.files.macros:
            try:
                text = self._text(path)
                with self._in_time(path), watching(self._macros_saw):
                    collector, _ = execute(self.root, path, text)
            except ProjectError as error:
                self._macro_problems.append(error)
                continue
            macros.update(collector.macros)
        audits = {}
        for path in self.files.sql:
            if self._role(path) != "audit":
                continue
            try:
                blocks = split_blocks(
                    SourceText(Path(path), self._text(path)), self.settings.dialect
                )
                for block in blocks:
                    audit = read_audit(block, self.settings.dialect)
                    audits[audit.name] = audit
            except ProjectError as error:
                self._macro_problems.append(error)
        return FileContext(self.settings, macros, audits, self.parsed)

    @cached_property
    def _macros_saw(self) -> Seen:
        """What the files of macros read when they were executed."""
        return Seen()

    @cached_property
    def _macro_problems(self) -> list[ProjectError]:
        return []

    def _text(self, path: str) -> str:
        return decoded(Path(path), self.hasher.content(path))
