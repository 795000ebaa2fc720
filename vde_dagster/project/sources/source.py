"""Protocol of a source of models, and the folder and memory that it works with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from vde_dagster.base.failures import Problem, where_raised
from vde_dagster.errors import ProjectError
from vde_dagster.project.files import Hasher, decoded
from vde_dagster.project.macros.relation_columns import KnownColumns
from vde_dagster.project.model import LoadedFile
from vde_dagster.project.python.watching import TooSlow, time_limit
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.trees import ParsedQueries


class Source(Protocol):
    """Source of models: some files of a project, and their definitions.

    The load uses only this protocol: it lists the files, reads the files that the cache does not
    have, and joins their definitions. Paths are relative to the project's folder, with forward
    slashes.
    """

    @property
    def name(self) -> str:
        """Unique name of the source in the cache."""

    @property
    def key(self) -> str:
        """Hash of everything that its files' meaning depends on, except each file itself.

        A file's cache record is valid for one key: shared files, settings, `names`.
        """

    @property
    def names(self) -> TableNames:
        """The resolution of table names in its files."""

    def files(self) -> Sequence[str]:
        """Return the files with definitions; each is read and cached separately.

        A file with many definitions is represented by its units, added with `Folder.add_units`.
        """

    def other_files(self) -> Sequence[str]:
        """Return further files that it depends on: shared code, settings, data."""

    def draws_in(self, path: str) -> Sequence[str]:
        """Return the other files that one of `files` reads, according to its text.

        The files really read are in `LoadedFile.uses`; this is called before they are known.
        """

    def prepare(self) -> Sequence[ProjectError]:
        """Read the context that its files share, once, before any file; return errors."""

    def read(self, path: str, text: str) -> LoadedFile:
        """Read one of `files`.

        Raises:
            ProjectError: Errors in the file, with their places; one error may combine several.
        """

    def follows(self, mistake: ProjectError) -> bool:
        """Check whether an error in a file may be caused by the errors that `prepare` returned."""


@runtime_checkable
class Warns(Protocol):
    """Optional protocol of a source with warnings."""

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Return warnings on its files that could be read."""


@runtime_checkable
class Surrounds(Protocol):
    """Optional protocol of a source with statements around every apply."""

    def around(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return Spark SQL to run before and after everything else, next to the settings'."""


SourceFactory = Callable[["Folder"], Source | None]
"""Creates a source for a folder, or None if the folder has no files for it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A project's folder during one load, as its sources see it.

    Args:
        parsed: Receives the trees of the queries that are read.
        memories: Data kept by sources, by their names.
        known_columns: Columns of the models read so far; files that need others are read later.
        units: Names of units, which are parts of files.
    """

    settings: Settings
    hasher: Hasher
    parsed: ParsedQueries
    memories: dict[str, dict[str, Any]] = field(default_factory=dict)
    known_columns: KnownColumns = field(default_factory=KnownColumns)
    units: set[str] = field(default_factory=set)

    @property
    def root(self) -> Path:
        """The folder's absolute path."""
        return self.settings.root

    def memory(self, source: str) -> dict[str, Any]:
        """Return a source's data kept between processes, as plain JSON."""
        return self.memories.setdefault(source, {})

    def add_units(self, hashes: Mapping[str, str]) -> None:
        """Treat units as separate files: each is read again if its hash changes.

        Args:
            hashes: Hashes over everything that a unit is read from, by unit name; unit names must
                differ from file names.
        """
        self.hasher.hashes.update(hashes)
        self.units.update(hashes)

    def text(self, path: str) -> str:
        r"""Return a file's text, with `\n` as line ending. The text of units is known to their
        source.
        """
        if path in self.units:
            return ""
        return decoded(Path(path), self.hasher.content(path))

    @contextmanager
    def in_time(self, path: str) -> Iterator[None]:
        """Limit the time for reading a file, including the code that it runs."""
        seconds = self.settings.load_seconds
        try:
            with time_limit(seconds):
                yield
        except TooSlow as error:
            raise ProjectError(
                f"the file was not read within {seconds} seconds",
                hint="remove endless loops and slow work outside of model functions, "
                "or increase the setting 'load_seconds'",
                location=where_raised(error, Path(path)),
            ) from None
