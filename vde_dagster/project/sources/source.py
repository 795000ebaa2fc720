"""Protocol of a source of models, and the project's folder with the data that sources use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from vde_dagster.base.failures import Problem, find_project_line
from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import count
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.files import Hasher, decode_text, files_in
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.known_columns import KnownColumns
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.model import LoadedFile, Model
from vde_dagster.project.python.watching import TooSlow
from vde_dagster.project.settings import Settings
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.edits import Expanded
from vde_dagster.sql.scanner import SourceText, refuse_too_deep
from vde_dagster.sql.trees import ParsedQueries

if TYPE_CHECKING:
    from vde_dagster.project.reading.rendering import Rendered


class Source(Protocol):
    """Reads the models in some files of a project; a plug-in can add a source.

    Paths are relative to the project's folder, with forward slashes.
    """

    @property
    def name(self) -> str:
        """Unique name of the source in the cache."""

    @property
    def key(self) -> str:
        """Hash of everything outside a file that affects reading: shared files, settings, names."""

    @property
    def names(self) -> TableNames:
        """Rules for resolving names of tables in the source's files."""

    def files(self) -> Sequence[str]:
        """Return the files with definitions.

        Each file is read and cached separately. A file with many definitions is represented by its
        units, added with `Folder.add_units`.
        """

    def other_files(self) -> Sequence[str]:
        """Return files that affect how `files` are read, such as shared code and data."""

    def draws_in(self, path: str) -> Sequence[str]:
        """Return the other files that a file needs, found in its text without running its code."""

    def prepare(self) -> Sequence[ProjectError]:
        """Read shared definitions, such as macros, before the first file; return errors in them."""

    def read(self, path: str, text: str) -> LoadedFile:
        """Read one of `files`.

        Raises:
            ProjectError: Errors in the file, with their places; one error may combine several.
        """

    def follows(self, mistake: ProjectError) -> bool:
        """Return whether an error in a file may result from an error that `prepare` returned."""


@runtime_checkable
class Warns(Protocol):
    """Optional methods of a source that has warnings."""

    def warnings(self, files: Sequence[LoadedFile]) -> Sequence[Problem]:
        """Return warnings on the source's files that were read without errors."""


@runtime_checkable
class Surrounds(Protocol):
    """Optional methods of a source that runs SQL before and after every apply.

    Its optional attribute `around_dialect` is the dialect of the statements in the source's files.
    """

    def around(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return Spark SQL statements to run (before, after) every apply."""


_FORMS: Seam[Callable[..., LoadedFile]] = Seam("model_files")
"""Plug-ins that read files other than SQL and Python: notebooks, `syncs.yaml` and metrics."""

SourceFactory = Callable[["Folder"], Source | None]
"""Creates a source for a folder, or None if the folder has no files for it."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A project's folder, through which a source reads files, settings, caches and SQL.

    Args:
        parsed: Receives the syntax trees of the queries that are read.
        memories: Data that sources keep between loads, by the sources' names.
        known_columns: Columns of the models read so far.
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
        """Return a dictionary of JSON values that is kept for a source until the next load."""
        return self.memories.setdefault(source, {})

    def add_units(self, hashes: Mapping[str, str]) -> None:
        """Add units: parts of one large file that are read and cached like separate files.

        `hashes` has a hash for each unit name. It covers everything that the unit is read from.
        Unit names must differ from file names.
        """
        self.hasher.hashes.update(hashes)
        self.units.update(hashes)

    def text(self, path: str) -> str:
        r"""Return a file's text, with `\n` as line ending, or empty for a unit."""
        if path in self.units:
            return ""
        return decode_text(Path(path), self.hasher.content(path))

    def read_form(self, form: str, path: Path, text: str, context: Any) -> LoadedFile:
        """Read a file with the plug-in for its form, such as `ipynb` or `metrics`.

        Args:
            context: Settings and the resolution of names, as in `FileContext`.

        Raises:
            UsageError: No installed plug-in reads the form.
            ProjectError: Errors in the file, with their places.
        """
        return _FORMS.require(form)(self, path, text, context)

    def render(
        self,
        source: SourceText,
        names: TableNames,
        start: int = 0,
        end: int | None = None,
        *,
        code: Expanded | None = None,
        dialect: str = "spark",
        variables: Mapping[str, str] = MappingProxyType({}),
        what: str = "query",
        hint: Callable[[str | None], str] | None = None,
    ) -> Rendered:
        """Expand the macros in a part of a file, and render the result as one Spark SQL query.

        Args:
            code: Edited text of the file to render instead of the part; its macros are not
                expanded.
            dialect: SQLGlot dialect of the text.
            variables: SQL text of `@name`, by lower-case name.
            what: The text's name in errors.
            hint: Returns the hint for a text that cannot be translated to Spark SQL. Its argument
                is the function to add to the setting `dialect_trust`, or None.

        Raises:
            ProjectError: The text is not a query, or cannot be read or translated.
        """
        from vde_dagster.project.reading.rendering import render

        expander = self._expander(source, dialect, variables)
        expander.scope.hint = hint
        if code is None:
            code = expander.expand(start, end)
        else:
            refuse_too_deep(source, backslash=expander.scope.backslash)
        rendered = render(expander, code, names, what=what)
        if what == "query":
            self.parsed.keep(rendered.sql, rendered.tree)
        return rendered

    def render_statement(
        self, source: SourceText, names: TableNames, *, dialect: str = "spark"
    ) -> str:
        """Render a file's text as one Spark SQL statement.

        A statement that SQLGlot does not support is not translated. Tables of the project's own
        catalog get the catalog's name in Spark.

        Raises:
            ProjectError: The text cannot be translated to Spark SQL.
        """
        from vde_dagster.project.reading.rendering import render_last_statement

        expander = self._expander(source, dialect, {})
        expander.scope.names = names
        return render_last_statement(expander, expander.expand())

    def _expander(self, source: SourceText, dialect: str, variables: Mapping[str, str]) -> Expander:
        trusted = self.settings.trusted_functions
        return Expander(source, MacroScope({}, dict(variables), dialect, dialect_trust=trusted))

    def load_seed(self, model: Model) -> Model:
        """Complete a SEED model from its CSV file: columns, types and hashes.

        Raises:
            ProjectError: The file is missing, or its values do not have the declared types.
        """
        from vde_dagster.project.reading.seeds import load_seed

        return load_seed(self.settings, model, model.location.path)

    def column_type(self, text: str, dialect: str, location: SourceLocation) -> str:
        """Translate a column's type from a SQL dialect to Spark SQL.

        Raises:
            ProjectError: The text is not a type, or Spark lacks the type; the error has the given
                place.
        """
        from vde_dagster.project.properties.model_properties import canonical_type

        def error(message: str, hint: str | None) -> ProjectError:
            return ProjectError(message, hint=hint, location=location)

        return canonical_type(text, dialect, error)

    def files_in(self, folder: str, *endings: str) -> list[str]:
        """List the files of a folder that no ignore pattern matches."""
        return files_in(self.settings, folder, *endings)

    @contextmanager
    def in_time(self, path: str) -> Iterator[None]:
        """Limit the time for reading a file, including the code that it runs."""
        seconds = self.settings.load_seconds
        try:
            with TooSlow.after(seconds):
                yield
        except TooSlow as error:
            raise ProjectError(
                f"the file was not read within {count(seconds, 'second')}",
                hint="remove endless loops and slow work outside of model functions, "
                "or increase the setting 'load_seconds'",
                location=find_project_line(error, Path(path)),
            ) from None
