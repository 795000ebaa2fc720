"""Built-in source: models in SQL, Python and notebooks, and YAML files.

These files share the macros, the audits, and some of the settings. CSV files are read as seeds of
models.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.plugins import loaded_plugin_files
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.files import FoundFiles, find_files
from vde_dagster.project.model import LoadedFile, PythonSource
from vde_dagster.project.python.watching import Seen, watching, with_recorded_reads
from vde_dagster.project.sources.source import Folder
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    from vde_dagster.project.macros.registry import Collector
    from vde_dagster.project.property_value import Value
    from vde_dagster.project.reading.audits import AuditDefinition, SignalDefinition
    from vde_dagster.project.reading.file_context import FileContext


_SHARED_DEFINITIONS = ("macro", "audit", "signal", "materialization")
"""Kinds of definitions that may be missing because a shared file has an error."""

_STANDALONE = "standalone"

Reader = Callable[[Path, str], LoadedFile]


def own_files(folder: Folder) -> OwnFiles:
    """Create the source for the folders that the settings name, such as `models/`."""
    return OwnFiles(folder, find_files(folder.settings))


class OwnFiles:
    """The source of models in this package's file formats: SQL, Python, notebooks and YAML."""

    name = "files"

    def __init__(self, folder: Folder, found: FoundFiles) -> None:
        self._folder = folder
        self._found = found
        self._memory = folder.memory(self.name)
        self._macro_inputs = Seen()
        self._shared: FileContext | None = None
        settings = folder.settings
        self.names = TableNames(
            settings.catalog,
            settings.default_namespace,
            self._catalogs(),
            any_catalog=bool(settings.config_file),
        )

    # -- files -----------------------------------------------------------------------------

    def _catalogs(self) -> dict[str, str]:
        """Return the catalogs that files may name, including a SQLMesh project's own catalog."""
        settings = self._folder.settings
        given = {name.lower(): catalog for name, catalog in settings.catalogs.items()}
        if not settings.config_file:
            return given
        models = [*self._found.sql, *self._found.python]
        found = self._cached_by_content("catalogs", models, self._named_catalogs)
        named = set(chain.from_iterable(found.values()))
        # The connection defines the own catalog, else it is the only catalog that models name.
        if len(named) == 1 and "" not in given.values():
            given.setdefault(named.pop(), "")
        return given

    def _named_catalogs(self, path: str) -> list[str]:
        pattern = _PYTHON if path.endswith(".py") else _SQL
        written = pattern.findall(self._folder.text(path))
        names = [ModelName.split(name.replace("'", '"')) for name in written]
        catalogs = (name[0] for name in names if len(name) == 3)
        return sorted({name.lower() for name in catalogs if re.fullmatch(r"[\w-]+", name)})

    def _cached_by_content(
        self, key: str, paths: Iterable[str], read: Callable[[str], Any]
    ) -> dict[str, Any]:
        """Return the content read from files, cached by the files' hashes."""
        known: dict[str, list[Any]] = self._memory.get(key) or {}
        found: dict[str, list[Any]] = {}
        for path in paths:
            content, before = self._folder.hasher.hash(path), known.get(path, [None])
            found[path] = before if before[0] == content else [content, read(path)]
        self._memory[key] = found
        return {path: value for path, (_, value) in found.items()}

    def files(self) -> Sequence[str]:
        return list(self._readers)

    def other_files(self) -> Sequence[str]:
        return [*self._shared_files, *self._found.data, *self._found.linter]

    @cached_property
    def _shared_files(self) -> list[str]:
        """Files that affect the meaning of all other files."""
        found = self._found
        return [
            *self._audit_files,
            *found.macros,
            *self._imported_modules(found.macros, "macro uses"),
            *found.signals,
            *self._imported_modules(found.signals, "signal uses"),
            *found.materializations,
            *found.templates,
        ]

    def draws_in(self, path: str) -> Sequence[str]:
        return self._imports(path) if path in self._found.python else ()

    @cached_property
    def _readers(self) -> dict[str, Reader]:
        found = self._found
        audits = set(self._audit_files)
        readers: dict[str, Reader] = {p: self._read_sql for p in found.sql if p not in audits}
        readers |= dict.fromkeys(self._standalone_files, self._standalone)
        readers |= dict.fromkeys(found.python, self._read_python)
        readers |= dict.fromkeys(found.notebooks, partial(self._read_by_plugin, "ipynb"))
        readers |= dict.fromkeys(found.externals, self._read_externals)
        readers |= dict.fromkeys(found.exposures, self._read_exposures)
        readers |= dict.fromkeys(found.docs, self._read_descriptions)
        readers |= dict.fromkeys(found.syncs, partial(self._read_by_plugin, "syncs"))
        readers |= dict.fromkeys(found.metrics, partial(self._read_by_plugin, "metrics"))
        readers |= dict.fromkeys(found.tests, self._read_tests)
        # Reading the text of a refused link raises the reason.
        return readers | dict.fromkeys(found.bad_links, self._read_externals)

    @property
    def _audit_files(self) -> tuple[str, ...]:
        return tuple(path for path, is_audit in self._audits_in.items() if is_audit)

    @property
    def _standalone_files(self) -> tuple[str, ...]:
        return tuple(path for path, what in self._audits_in.items() if what == _STANDALONE)

    @cached_property
    def _audits_in(self) -> dict[str, bool | str]:
        return self._cached_by_content("audit files", self._found.sql, self._has_audits)

    def _has_audits(self, path: str) -> bool | str:
        from vde_dagster.project.reading.statements import is_audit_file

        try:
            text = self._folder.text(path)
            found = is_audit_file(text)
            return _STANDALONE if found and _STANDALONE in text.lower() else found
        except ProjectError:
            return False  # reading the file later raises the error with its place

    def _imported_modules(self, paths: Sequence[str], key: str) -> list[str]:
        """Return the project files that the given files import, except the given files."""
        combined = self._folder.hasher.combined_hash
        known = self._memory.get(key) or {"key": None, "uses": []}
        uses: list[str] = known["uses"]
        if paths and known["key"] != combined([*paths, *uses]):
            found = {use for path in paths for use in self._imports(path)}
            uses = sorted(found - set(paths))
            self._memory[key] = {"key": combined([*paths, *uses]), "uses": uses}
        return uses if paths else []

    def _imports(self, path: str) -> list[str]:
        from vde_dagster.project.python.files import with_local_imports

        try:
            return list(with_local_imports(self._folder.root, path, self._folder.text(path)))
        except ProjectError:
            return []  # an unreadable file imports nothing; loading it reports the error

    @cached_property
    def key(self) -> str:
        settings = self._folder.settings
        deciding = (
            settings.models_dir,
            settings.seeds_dir,
            settings.catalog,
            settings.default_namespace,
            settings.dialect,
            sorted(settings.trusted_functions),
            str(settings.start),
            settings.cron,
            settings.cron_tz,
            settings.owner,
            sorted(settings.variables.items()),
            sorted(settings.model_defaults.items()),
            settings.infer_names,
            settings.time_column_format,
            sorted(self.names.catalogs.items()),
            self.names.any_catalog,
        )
        return digest(repr(deciding), self._folder.hasher.combined_hash(self._shared_files))

    # -- reading ---------------------------------------------------------------------------

    def prepare(self) -> Sequence[ProjectError]:
        from vde_dagster.project.reading.file_context import FileContext

        mistakes: list[ProjectError] = []
        macros = self._macros(mistakes)
        audits = self._audits(mistakes)
        self._shared = FileContext(
            self._folder.settings,
            self.names,
            macros,
            audits,
            self._folder.parsed,
            self._signals(mistakes),
            self._materializations(mistakes),
            known_columns=self._folder.known_columns,
            templates=self._templates(mistakes),
        )
        self._shared = replace(self._shared, defaults=self._defaults(self._shared, mistakes))
        return mistakes

    def _defaults(self, shared: FileContext, mistakes: list[ProjectError]) -> Mapping[str, Value]:
        from vde_dagster.project.reading.model_defaults import default_properties

        settings = self._folder.settings
        try:
            return default_properties(settings, shared.scope(settings.dialect))
        except ProjectError as error:
            mistakes.append(error)
            return {}

    def _run_files(
        self, paths: Iterable[str], mistakes: list[ProjectError]
    ) -> Iterator[tuple[str, Collector, dict[str, str]]]:
        from vde_dagster.project.python.files import run_file

        for path in paths:
            try:
                text = self._folder.text(path)
                with self._folder.in_time(path), watching(self._macro_inputs):
                    _, collector, files = run_file(self._folder.root, path, text)
            except ProjectError as error:
                mistakes.append(error)
            else:
                yield path, collector, files

    def _macros(self, mistakes: list[ProjectError]) -> dict[str, Callable[..., Any]]:
        macros: dict[str, Callable[..., Any]] = {}
        for _, collector, _ in self._run_files(self._found.macros, mistakes):
            macros.update(collector.macros)
        return macros

    def _templates(self, mistakes: list[ProjectError]) -> dict[str, str]:
        texts = {path: self._folder.text(path) for path in self._found.templates}
        if not texts:
            return texts
        from vde_dagster.project.macros.jinja import broken_macros

        broken = broken_macros(texts)
        mistakes.extend(broken.values())
        return {path: text for path, text in texts.items() if path not in broken}

    def _signals(self, mistakes: list[ProjectError]) -> dict[str, SignalDefinition]:
        from vde_dagster.project.reading.audits import SignalDefinition

        return {
            name: SignalDefinition(function, PythonSource(f"{path}:{function.__name__}", files))
            for path, collector, files in self._run_files(self._found.signals, mistakes)
            for name, function in collector.signals.items()
        }

    def _materializations(
        self, mistakes: list[ProjectError]
    ) -> dict[str, tuple[PythonSource, ...]]:
        from vde_dagster.base.outside import find_outside_inputs

        folder = self._folder
        found: dict[str, tuple[PythonSource, ...]] = {}
        for path, collector, files in self._run_files(self._found.materializations, mistakes):
            outside = find_outside_inputs(folder.root, files, folder.hasher.hash).hashes
            own = "." + path.removesuffix(".py").replace("/", ".")
            for name, function in collector.materializations.items():
                # Skip imported functions; a file may also have set the name to None.
                if (function.__module__ or own).endswith(own):
                    code = PythonSource(f"{path}:{function.__name__}", files, outside)
                    found[name] = (*found.get(name, ()), code)
        return found

    def _audits(self, mistakes: list[ProjectError]) -> dict[str, AuditDefinition]:
        from vde_dagster.project.reading.audits import read_audit
        from vde_dagster.project.reading.statements import read_blocks

        dialect = self._folder.settings.dialect
        audits: dict[str, AuditDefinition] = {}
        for path in self._audit_files:
            try:
                source, blocks = read_blocks(Path(path), self._folder.text(path), dialect)
                for block in blocks:
                    audit = read_audit(block, source, dialect)
                    if not audit.standalone:
                        audits[audit.name] = audit
            except ProjectError as error:
                if path not in self._standalone_files:  # These are read later, as models.
                    mistakes.append(error)
        return audits

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Return a warning for each kind of ignored content, at the first file that has it."""
        first = {word: file.path for file in reversed(files) for word in file.unread}
        return [Problem(word, None, SourceLocation(path), False) for word, path in first.items()]

    def follows(self, mistake: ProjectError) -> bool:
        return mistake.unknown is not None and mistake.unknown.what in _SHARED_DEFINITIONS

    def read(self, path: str, text: str) -> LoadedFile:
        self.names.used.clear()
        file = self._readers[path](Path(path), text)
        # Files depend on all imported plug-ins, because each may affect their meaning.
        uses = (*file.uses, *loaded_plugin_files())
        file = replace(file, uses=uses, catalogs=tuple(sorted(self.names.used)))
        return with_recorded_reads(file, self._macro_inputs, self._folder.root)

    @property
    def context(self) -> FileContext:
        """The macros, audits and defaults for reading files, available after `prepare`."""
        assert self._shared is not None, "prepare() must be called before read()"
        return self._shared

    def _read_sql(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.reading.sql_models import load_sql_file

        return load_sql_file(path, text, self.context)

    def _standalone(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.reading.standalone_audits import load_audit_file

        return load_audit_file(path, text, self.context)

    def _read_python(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.python.models import load_python_file

        folder = self._folder
        return load_python_file(folder.root, path, text, self.context, folder.hasher.hash)

    def _read_by_plugin(self, form: str, path: Path, text: str) -> LoadedFile:
        return self._folder.read_form(form, path, text, self.context)

    def _read_externals(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.reading.external_models import load_external_models

        scope = self.context.scope(self._folder.settings.dialect)
        return load_external_models(path, text, self.context.audit_context(scope))

    def _read_exposures(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.reading.exposures import load_exposures

        return load_exposures(path, text, self.names)

    def _read_descriptions(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.properties.descriptions import load_descriptions

        return load_descriptions(path, text, self.names)

    def _read_tests(self, path: Path, text: str) -> LoadedFile:
        from vde_dagster.project.reading.unit_tests import load_unit_tests

        scope = self.context.scope(self._folder.settings.dialect)
        uses: list[str] = []

        def read_file(named: str) -> str:
            uses.append(named)
            if not (self._folder.root / named).is_file():
                raise FileNotFoundError(named, "the file does not exist")
            return self._folder.text(named)

        asked: set[str] = set()
        tests = load_unit_tests(path, text, self.names, scope, read_file, asked)
        return LoadedFile(path, (), tests, tuple(uses), tuple(sorted(asked)))


_SQL = re.compile(r"\bMODEL\s*\((?:[^;]*?[\s,(])?name\s+([^\s,)]+)", re.IGNORECASE)
_PYTHON = re.compile(r"@model\(\s*(?:name\s*=\s*)?[\"']([^\"']+)[\"']")
