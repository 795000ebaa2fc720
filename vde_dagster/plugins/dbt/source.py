"""The dbt project as a source of models, with warnings about ignored parts and an old manifest."""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.sources import Folder, LoadedFile, Problem, TableNames
from vde_dagster.api.values import count, digest, how_to_install
from vde_dagster.plugins.dbt.compiling import PROJECT_FILE, CompiledFiles, Compiler, find_compiler
from vde_dagster.plugins.dbt.settings import DbtSettings

if TYPE_CHECKING:
    from vde_dagster.plugins.dbt.context import Context
    from vde_dagster.plugins.dbt.left_out import LeftOutNodes
    from vde_dagster.plugins.dbt.manifest import Manifest
    from vde_dagster.plugins.dbt.units import Reader, Unit

_METRICS = frozenset({"metrics", "semantic models", "saved queries"})
"""Parts that `plugins.metrics` reads from `semantic_manifest.json`, if the file exists."""
_SEMANTIC = "semantic_manifest.json"
"""The file that dbt writes for MetricFlow, next to the manifest."""
_MANIFEST, _LATER = "target/manifest.json", "target/later/manifest.json"
_HOOKS, _EMPTY = "target/hooks.json", "target/empty/manifest.json"
_INTROSPECT = (
    "set introspect = true under [tool.vde.dbt], so that dbt connects while it compiles; or "
    "compile = false, and run `dbt compile` where the warehouse is"
)
_BUILD = "their queries fail in dbt's warehouse: run `dbt build` for the tables that they query"
_PUBLISH = (
    "production must show the tables that these nodes query: run `vde apply prod`, and plan again"
)
_DIALECTS = {
    "athena": "athena",
    "bigquery": "bigquery",
    "clickhouse": "clickhouse",
    "databricks": "spark",
    "duckdb": "duckdb",
    "fabric": "fabric",
    "postgres": "postgres",
    "redshift": "redshift",
    "snowflake": "snowflake",
    "spark": "spark",
    "sqlserver": "tsql",
    "trino": "trino",
}
"""SQLGlot's dialects by dbt's adapters."""


def dbt_project(folder: Folder) -> DbtProject | None:
    """Return the dbt project in this folder or in a direct subfolder, or None.

    Raises:
        ProjectError: There are several dbt projects.
    """
    root = str(folder.root)
    if os.path.isfile(os.path.join(root, PROJECT_FILE)):
        return DbtProject(folder, "")
    inner = [entry.name for entry in os.scandir(root) if not entry.name.startswith(".")]
    found = [name for name in inner if os.path.isfile(os.path.join(root, name, PROJECT_FILE))]
    if len(found) > 1:
        raise ProjectError(
            f"there are several dbt projects: {', '.join(sorted(found))}",
            hint="keep only one dbt project in the project's folders",
        )
    return DbtProject(folder, found[0] + "/") if found else None


class DbtProject:
    """A dbt project as a source of models, see `Source`.

    Args:
        inside: The dbt project's folder, relative to the root, with a trailing slash, or empty.
    """

    name = "dbt"

    def __init__(self, folder: Folder, inside: str) -> None:
        self._folder = folder
        self._inside = inside
        self._problem: ProjectError | None = None
        self._ready = False
        self._memory = folder.memory(self.name)

    @cached_property
    def _compiler(self) -> Compiler | None:
        return find_compiler(self._folder, self._inside)

    @property
    def _settings(self) -> DbtSettings:
        return DbtSettings(**self._folder.settings.plugins.get("dbt", {}))

    @cached_property
    def _compiled(self) -> CompiledFiles:
        """The compiled manifests, or else the manifests in the project's folder."""
        if self._compiler is not None:
            return self._compiler.current_manifests()
        paths = (_MANIFEST, _LATER, _HOOKS, _EMPTY)
        first, *others = (f"{self._inside}{path}" for path in paths)
        found = [path if (self._folder.root / path).is_file() else None for path in others]
        later, hooks, empty = found
        return CompiledFiles(first, later, hooks, empty=empty)

    def _find_units(self) -> None:
        # Units are found when they are first needed, because this may run dbt.
        if self._ready:
            return
        self._ready = True
        try:
            content = self._folder.hasher.combined_hash(self._compiled.files)
            if self._memory.get("manifest") != content:
                self._memory.clear()
                self._read_manifest(content)
        except ProjectError as error:
            self._problem = error
            self._memory.clear()
        self._folder.add_units(self._units)

    @cached_property
    def names(self) -> TableNames:
        # The database of most tables is the project's catalog.
        self._find_units()
        own = str(self._memory.get("database", ""))
        settings = self._folder.settings
        given = {name.lower(): catalog for name, catalog in settings.catalogs.items()}
        if own:
            given.setdefault(own.lower(), "")
        return TableNames(settings.catalog, settings.default_namespace, given, any_catalog=True)

    def _read_manifest(self, content: str) -> None:
        from vde_dagster.plugins.dbt.age import record_files
        from vde_dagster.plugins.dbt.hooks import run_hooks
        from vde_dagster.plugins.dbt.manifest import ignored_types, main_database
        from vde_dagster.plugins.dbt.units import unit_hash

        manifest = self._manifest
        self._memory |= {
            "around": list(run_hooks(manifest, self._hooks)),
            "manifest": content,
            "units": {
                f"{self._compiled.first}#{one}": unit_hash(unit)
                for one, unit in self._divided_units.items()
            },
            "database": main_database(manifest),
            "adapter": manifest.metadata.adapter_type,
            "package": manifest.metadata.project_name or "",
            "unread": dict(Counter(ignored_types(manifest))),
            "left_out": self._left_out.message if self._left_out else "",
            "left_out_relations": self._left_out.relations if self._left_out else [],
            **(
                record_files(manifest, self._folder, self._inside) if self._compiler is None else {}
            ),
        }

    @cached_property
    def _manifest(self) -> Manifest:
        if not (self._folder.root / self._compiled.first).is_file():
            raise ProjectError(
                f"the dbt project has no {_MANIFEST}",
                hint=f"run `dbt compile`, or let vde compile: {how_to_install('dbt')}"
                if self._settings.compile
                else "run `dbt compile`",
                location=SourceLocation(Path(f"{self._inside}{PROJECT_FILE}")),
            )
        from vde_dagster.plugins.dbt.left_out import remove_left_out

        return remove_left_out(self._whole_manifest, self._left_out)

    @cached_property
    def _whole_manifest(self) -> Manifest:
        from vde_dagster.plugins.dbt.manifest import read_manifest

        content = self._read_content(self._compiled.first)
        return read_manifest(
            Path(self._compiled.first), content, Path(self._inside), self._introspective
        )

    @cached_property
    def _introspective(self) -> dict[str, str]:
        path = self._compiled.left_out
        found: dict[str, str] = json.loads(self._read_content(path)) if path else {}
        return found

    @cached_property
    def _left_out(self) -> LeftOutNodes | None:
        """The nodes that dbt cannot compile without the warehouse, and their readers."""
        from vde_dagster.plugins.dbt.left_out import LeftOutNodes

        if not self._introspective:
            return None
        return LeftOutNodes.from_manifest(self._whole_manifest, self._introspective)

    def _read_content(self, path: str) -> bytes:
        content = self._folder.hasher.content(path)
        self._folder.hasher.forget(path)
        return content

    @cached_property
    def _divided_units(self) -> dict[str, Unit | Reader]:
        from vde_dagster.plugins.dbt.manifest import read_compiled_nodes
        from vde_dagster.plugins.dbt.units import divide_units

        later = self._compiled.later
        second = read_compiled_nodes(self._read_content(later)) if later else {}
        empty = self._compiled.empty
        limited = read_compiled_nodes(self._read_content(empty)) if empty else {}
        return divide_units(self._manifest, second, self._hooks, limited)

    @cached_property
    def _hooks(self) -> dict[str, dict[str, str]]:
        path = self._compiled.hooks
        found: dict[str, dict[str, str]] = json.loads(self._read_content(path)) if path else {}
        return found

    @property
    def _units(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._memory.get("units", {})
        return found

    @cached_property
    def key(self) -> str:
        """Hash of the settings and of the manifest's properties that affect every node."""
        self._find_units()
        settings, memory = self._folder.settings, self._memory
        deciding = (
            settings.catalog,
            settings.default_namespace,
            settings.owner,
            sorted(self.names.catalogs.items()),
            memory.get("adapter"),
            memory.get("package"),
            self._settings.grants,
            sorted(settings.dialect_trust),
        )
        return digest(repr(deciding))

    def files(self) -> Sequence[str]:
        """Return the files to read: one per model, seed, test or source, and semantic models.

        If the manifest is unreadable, this is only the project file.
        """
        self._find_units()
        if self._problem is not None:
            return [f"{self._inside}{PROJECT_FILE}"]
        return [*self._units, *self._semantic_files]

    @cached_property
    def _semantic_files(self) -> Sequence[str]:
        """The file of semantic models and metrics, if it exists."""
        # The plug-in `metrics` reads the file.
        path = (Path(self._compiled.first).parent / _SEMANTIC).as_posix()
        has_some = not _METRICS.isdisjoint(self._memory["unread"])
        return [path] if has_some and (self._folder.root / path).is_file() else []

    def other_files(self) -> Sequence[str]:
        """Return the inputs of vde's compile; without a compile, manifests and `watched_files`."""
        self._find_units()
        if self._compiler is not None:
            return [f"{self._inside}{PROJECT_FILE}", *self._compiler.files]
        from vde_dagster.plugins.dbt.age import watched_files

        return [*self._compiled.files, *watched_files(self._memory)]

    def draws_in(self, path: str) -> Sequence[str]:
        # The files that a unit depends on are recorded while the unit is read.
        return ()

    def prepare(self) -> Sequence[ProjectError]:
        # Mistakes of the manifest are reported with the first file.
        return ()

    def follows(self, mistake: ProjectError) -> bool:
        return False

    def read(self, path: str, text: str) -> LoadedFile:
        from vde_dagster.plugins.dbt.models import read_unit

        if self._problem is not None:
            raise self._problem
        self.names.used.clear()
        if path in self._semantic_files:
            file = self._folder.read_form("metrics", Path(path), text, self._context)
            return self._without_left_out(file)
        unit = self._divided_units[path.partition("#")[2]]
        try:
            return read_unit(path, unit, self._context)
        except ProjectError as error:
            error.location = self._with_line(error.location, unit)
            error.message += _list_tests(unit)
            raise

    def _without_left_out(self, file: LoadedFile) -> LoadedFile:
        relations = self._memory.get("left_out_relations", ())
        gone = {self.names.model_name(tuple(parts)) for parts in relations}
        kept = (one for one in file.exposures if gone.isdisjoint(name for name, _, _ in one.reads))
        return replace(file, exposures=tuple(kept)) if gone else file

    def _with_line(
        self, location: SourceLocation | None, unit: Unit | Reader
    ) -> SourceLocation | None:
        from vde_dagster.plugins.dbt.units import Reader

        if location is None or location.line or location.path.suffix not in (".yml", ".yaml"):
            return location
        node = unit.exposure if isinstance(unit, Reader) else unit.node
        named = re.compile(rf"""\bname\s*:\s*(['"]?){re.escape(node.name)}\1\s*(?:[,}}#]|$)""")
        path = self._folder.root / location.path
        lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
        found = (number for number, line in enumerate(lines, 1) if named.search(line))
        return replace(location, line=next(found, None))

    @cached_property
    def _context(self) -> Context:
        from vde_dagster.plugins.dbt.context import Context

        adapter = self._memory["adapter"]
        if adapter not in _DIALECTS:
            raise ProjectError(
                f"the manifest is for the adapter '{adapter}', whose SQL dialect is not supported",
                hint=f"adapters: {', '.join(_DIALECTS)}",
                location=SourceLocation(Path(self._compiled.first)),
            )
        return Context(
            self._folder,
            self.names,
            Path(self._inside),
            self._memory["package"],
            adapter,
            _DIALECTS[adapter],
            self._settings.grants,
        )

    def around(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the statements of run hooks before a run, and after a run."""
        found = self._around[0]
        return found["on-run-start"], found["on-run-end"]

    @property
    def around_dialect(self) -> str:
        self._find_units()
        return _DIALECTS.get(str(self._memory.get("adapter", "")), "spark")

    @cached_property
    def _around(self) -> tuple[dict[str, list[str]], list[str]]:
        found: dict[str, list[str]] = {"on-run-start": [], "on-run-end": []}
        unread: list[str] = []
        hooks = self._memory.get("around", ())
        if self._problem is None and hooks:
            from vde_dagster.plugins.dbt.nodes.statements import read_statements

            place = SourceLocation(Path(f"{self._inside}{PROJECT_FILE}"))
            for key, text in hooks:
                if text is None:
                    unread.append(f"{key} with Jinja")
                    continue
                made, why = read_statements(text, self._context, place)
                found[key] += made
                unread += [f"{key} {why}"] if why else []
        return found, unread

    # -- warnings --------------------------------------------------------------------------

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Return warnings about parts without effect, left-out nodes, and an outdated manifest."""
        if self._problem is not None:
            return ()
        found: list[Problem] = []
        read = _METRICS if self._semantic_files else frozenset[str]()
        unread = Counter({w: n for w, n in self._memory["unread"].items() if w not in read})
        unread.update(word for file in files for word in dict.fromkeys(file.unread))
        unread.update(self._around[1])
        if unread:
            ignored = "; ".join(f"{word} ({number})" for word, number in sorted(unread.items()))
            message = f"ignored parts of the dbt project, with their numbers of nodes: {ignored}"
            hint = "`vde help dbt` lists the meaning of each"
            found.append(Problem(message, hint, SourceLocation(Path(self._compiled.first)), False))
        if self._memory["left_out"]:
            place = SourceLocation(Path(f"{self._inside}{PROJECT_FILE}"))
            introspect = self._settings.introspect
            hint = _BUILD if introspect else _INTROSPECT
            if self._memory["adapter"] == "spark" and introspect is not False:
                hint = _PUBLISH
            found.append(Problem(self._memory["left_out"], hint, place, False))
        if self._compiled.seconds is not None:
            message = f"dbt compile {self._compiled.seconds} s"
            found.append(Problem(message, None, SourceLocation(Path(self._compiled.first)), False))
        found += self._warn_of_age()
        return found

    def _warn_of_age(self) -> Iterator[Problem]:
        if self._compiler is not None:
            return
        from vde_dagster.plugins.dbt.age import changed_files

        files = list(changed_files(self._memory, self._folder))
        if files:
            more = "" if len(files) == 1 else f" and {count(len(files) - 1, 'other file')}"
            message = f"the manifest is older than {files[0]}{more}"
            yield Problem(
                message, "run `dbt compile`", SourceLocation(Path(self._compiled.first)), False
            )


def _list_tests(unit: Unit | Reader) -> str:
    from vde_dagster.plugins.dbt.units import Reader

    if isinstance(unit, Reader):
        return ""
    names = sorted([*(one.name for one in unit.tests), *(one.name for one in unit.unit_tests)])
    if not names:
        return ""
    return f"; {count(len(names), 'test')} of '{unit.node.name}' not read: {', '.join(names)}"
