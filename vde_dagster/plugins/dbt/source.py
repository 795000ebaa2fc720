"""The source of a dbt project: which units its manifest has, and how old it is."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import digest
from vde_dagster.base.texts import count
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.model import LoadedFile
from vde_dagster.project.sources.source import Folder
from vde_dagster.project.table_names import TableNames

if TYPE_CHECKING:
    from vde_dagster.plugins.dbt.manifest import Manifest, Reader, Unit
    from vde_dagster.plugins.dbt.models import Context

PROJECT_FILE = "dbt_project.yml"
_MANIFEST = "target/manifest.json"
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
    """Take the dbt project that is the folder, or lies in a folder of it."""
    root = str(folder.root)
    if os.path.isfile(os.path.join(root, PROJECT_FILE)):
        return DbtProject(folder, "")
    inner = [entry.name for entry in os.scandir(root) if not entry.name.startswith(".")]
    found = [name for name in inner if os.path.isfile(os.path.join(root, name, PROJECT_FILE))]
    if len(found) > 1:
        raise ProjectError(
            f"there are several dbt projects: {', '.join(sorted(found))}",
            hint="one may lie in a folder of a project",
        )
    return DbtProject(folder, found[0] + "/") if found else None


class DbtProject:
    """The source of a dbt project.

    Args:
        inside: The dbt project's folder, relative to the root, with a slash behind it, or empty.
    """

    name = "dbt"

    def __init__(self, folder: Folder, inside: str) -> None:
        self._folder = folder
        self._inside = inside
        self._path = f"{inside}{_MANIFEST}"
        self._problem: ProjectError | None = None
        self._memory = folder.memory(self.name)
        content = folder.hasher.hash(self._path)
        if self._memory.get("manifest") != content:
            self._memory.clear()
            self._read_anew(content)
        own = str(self._memory.get("database", ""))
        settings = folder.settings
        given = {name.lower(): catalog for name, catalog in settings.catalogs.items()}
        if own:
            given.setdefault(own.lower(), "")
        self.names = TableNames(
            settings.catalog, settings.default_namespace, given, any_catalog=True
        )
        folder.add_units(self._units)

    def _read_anew(self, content: str) -> None:
        """Remember what decides whether units are to be read."""
        try:
            manifest = self._manifest
        except ProjectError as error:
            self._problem = error
            return
        from vde_dagster.plugins.dbt.manifest import not_read, own_database, unit_hash
        from vde_dagster.plugins.dbt.models import file_of

        self._memory |= {
            "manifest": content,
            "units": {f"{self._path}#{one}": unit_hash(unit) for one, unit in self._parts.items()},
            "database": own_database(manifest),
            "adapter": manifest.metadata.adapter_type,
            "package": manifest.metadata.project_name or "",
            "unread": dict(Counter(not_read(manifest))),
            "checksums": {
                file_of(
                    Path(self._inside), manifest.metadata.project_name or "", *place
                ).as_posix(): (checksum)
                for place, checksum in _checksums(manifest).items()
            },
            "hashes": {},
        }

    @cached_property
    def _manifest(self) -> Manifest:
        from vde_dagster.plugins.dbt.manifest import read_manifest

        path = Path(self._path)
        if not (self._folder.root / path).is_file():
            raise ProjectError(
                f"the dbt project has no {_MANIFEST}",
                hint="run `dbt compile`",
                location=SourceLocation(Path(f"{self._inside}{PROJECT_FILE}")),
            )
        content = self._folder.hasher.content(self._path)
        self._folder.hasher.forget(self._path)
        return read_manifest(path, content)

    @cached_property
    def _parts(self) -> dict[str, Unit | Reader]:
        from vde_dagster.plugins.dbt.manifest import units_of

        return units_of(self._manifest)

    @property
    def _units(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self._memory.get("units", {})
        return found

    @cached_property
    def key(self) -> str:
        """Hash of the settings and of what the whole manifest says."""
        settings, memory = self._folder.settings, self._memory
        deciding = (
            settings.catalog,
            settings.default_namespace,
            settings.owner,
            sorted(self.names.catalogs.items()),
            memory.get("adapter"),
            memory.get("package"),
        )
        return digest(repr(deciding))

    def files(self) -> Sequence[str]:
        """Return the units; of a manifest that cannot be read the project's file, which says so."""
        return list(self._units) if self._problem is None else [f"{self._inside}{PROJECT_FILE}"]

    def other_files(self) -> Sequence[str]:
        """Return the manifest, and the files that it was made of."""
        return [self._path, *self._memory.get("checksums", ())]

    def draws_in(self, path: str) -> Sequence[str]:
        """Return nothing: what units use is noted when they are read."""
        return ()

    def prepare(self) -> Sequence[ProjectError]:
        """Return no mistakes: those of the manifest are told with the first file."""
        return ()

    def follows(self, mistake: ProjectError) -> bool:
        """Say that no mistake follows from others."""
        return False

    def read(self, path: str, text: str) -> LoadedFile:
        """Read a unit."""
        from vde_dagster.plugins.dbt.models import read_unit

        if self._problem is not None:
            raise self._problem
        self.names.used.clear()
        return read_unit(path, self._parts[path.partition("#")[2]], self._context)

    @cached_property
    def _context(self) -> Context:
        from vde_dagster.plugins.dbt.models import Context

        adapter = self._memory["adapter"]
        if adapter not in _DIALECTS:
            raise ProjectError(
                f"the manifest is for the adapter '{adapter}', whose SQL is not known here",
                hint=f"adapters: {', '.join(_DIALECTS)}",
                location=SourceLocation(Path(self._path)),
            )
        return Context(
            self._folder.settings,
            self.names,
            self._folder.parsed,
            Path(self._inside),
            self._memory["package"],
            adapter,
            _DIALECTS[adapter],
        )

    # -- warnings --------------------------------------------------------------------------

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Say what has no meaning here, and whether files changed since the manifest was made."""
        if self._problem is not None:
            return ()
        found: list[Problem] = []
        unread = Counter(self._memory["unread"])
        unread.update(word for file in files for word in dict.fromkeys(file.unread))
        if unread:
            told = "; ".join(f"{word} ({number})" for word, number in sorted(unread.items()))
            message = f"of the dbt project this has no meaning here, by number of nodes: {told}"
            hint = "docs/dbt.md says what becomes of each"
            found.append(Problem(message, hint, SourceLocation(Path(self._path)), False))
        changed = self._changed()
        if changed:
            more = "" if len(changed) == 1 else f" and {count(len(changed) - 1, 'other file')}"
            message = f"the manifest is older than {changed[0]}{more}"
            location = SourceLocation(Path(self._path))
            found.append(Problem(message, "run `dbt compile`", location, False))
        return found

    def _changed(self) -> list[str]:
        """Return the files of nodes that are not as they were when the manifest was made."""
        hashes: dict[str, bool] = {}
        known = self._memory["hashes"]
        changed = []
        for path, checksum in self._memory["checksums"].items():
            now = f"{self._folder.hasher.hash(path)}{checksum}"
            hashes[now] = known[now] if now in known else self._is(path, checksum)
            if not hashes[now]:
                changed.append(path)
        self._memory["hashes"] = hashes
        return changed

    def _is(self, path: str, checksum: str) -> bool:
        try:
            text = (self._folder.root / path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return False
        return hashlib.sha256(text.strip().encode()).hexdigest() == checksum


def _checksums(manifest: Manifest) -> dict[tuple[str, str], str]:
    """Return the checksums of the SQL files of the project's own nodes, by package and path."""
    own = manifest.metadata.project_name
    return {
        (node.package_name, node.original_file_path): node.checksum.checksum
        for node in manifest.nodes.values()
        if node.package_name == own
        and node.checksum.name == "sha256"
        and node.original_file_path.endswith(".sql")
    }
