"""The protocol of a source of models, and the folder and memory it works with."""

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
    """Files of one make, and what they define.

    The load knows no more of a project's files than this. It asks which there are, reads those of
    which the cache has nothing or something outdated, and puts together what they define. Paths are
    relative to the project's folder, with forward slashes.
    """

    @property
    def name(self) -> str:
        """Its name in the cache, unlike those of all other sources."""

    @property
    def key(self) -> str:
        """Hash of everything that decides what any of its files means, beyond the file itself.

        The file's record in the cache is valid for one key: shared files, settings, `names`.
        """

    @property
    def names(self) -> TableNames:
        """The resolution of table names in its files."""

    def files(self) -> Sequence[str]:
        """Return the files that define something; each is read and remembered by itself.

        Of a file that defines much, its units, which the folder was told of (`Folder.add_units`).
        """

    def other_files(self) -> Sequence[str]:
        """Return the further files that make it what it is: what is shared, settings, data."""

    def draws_in(self, path: str) -> Sequence[str]:
        """Return the other files that one of `files` reads, as far as its text tells.

        What it really read is in `LoadedFile.uses`; this is asked while nobody knows that.
        """

    def prepare(self) -> Sequence[ProjectError]:
        """Read the context that its files share, once and first; return the mistakes in it."""

    def read(self, path: str, text: str) -> LoadedFile:
        """Read one of `files`.

        Raises:
            ProjectError: What is wrong in it, with the place; one error may have several mistakes.
        """

    def follows(self, mistake: ProjectError) -> bool:
        """Say whether a mistake in a file may only follow from those that `prepare` returned."""


@runtime_checkable
class Warns(Protocol):
    """What a source has besides, that has something to say which stops nothing."""

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Return its warnings; `files` are those of its files that could be read."""


@runtime_checkable
class Surrounds(Protocol):
    """What a source has besides, whose author has statements around all that is done."""

    def around(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return Spark SQL to run before and after all else, beside that of the settings."""


SourceFactory = Callable[["Folder"], Source | None]
"""Makes a source for a folder, or none when nothing of its make lies there."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A project's folder during one load, as its sources see it.

    Args:
        parsed: Takes the trees of the queries that are read.
        memories: What sources keep, by their names.
        known_columns: Columns of the models that were read; who asks for others is put off.
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
        """Return a source's memory between processes, as plain JSON."""
        return self.memories.setdefault(source, {})

    def add_units(self, hashes: Mapping[str, str]) -> None:
        """Let units count as files of their own: each is read again when its hash is another.

        Args:
            hashes: Hashes over all that a unit is read from, by names unlike those of files.
        """
        self.hasher.hashes.update(hashes)
        self.units.update(hashes)

    def text(self, path: str) -> str:
        r"""Return a file's text; its lines end with `\n`. Units have none: their source knows."""
        if path in self.units:
            return ""
        return decoded(Path(path), self.hasher.content(path))

    @contextmanager
    def in_time(self, path: str) -> Iterator[None]:
        """Limit how long a file may take, with the code that it runs."""
        seconds = self.settings.load_seconds
        try:
            with time_limit(seconds):
                yield
        except TooSlow as error:
            raise ProjectError(
                f"the file was not read within {seconds} seconds",
                hint="look for a loop without an end; slow work belongs into a model's function; "
                "or raise the setting 'load_seconds'",
                location=where_raised(error, Path(path)),
            ) from None
