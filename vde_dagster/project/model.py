"""Models and their unit tests as files define them, and the yield of one file."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import names_a_day, relative_instant
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import Kind
from vde_dagster.sql.edits import Runs, place_in
from vde_dagster.sql.scanner import SourceText


@dataclass(frozen=True, slots=True)
class Audit:
    """A check on a model's rows: a query that finds the bad ones.

    Args:
        name: As the model calls it.
        arguments: The call's arguments as SQL text, by name.
        query: Returns the failing rows; rendered, with `@this_model` still in it.
        blocking: Whether failing rows stop the publication.
        reads: The tables that the query names beside the model, sorted; they follow from it.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    query: str
    blocking: bool = True
    reads: tuple[ModelName, ...] = field(default=(), compare=False)

    @property
    def label(self) -> str:
        """The audit's name with its arguments, unique within a model."""
        arguments = ", ".join(f"{key}={value}" for key, value in self.arguments)
        return f"{self.name}({arguments})"


@dataclass(frozen=True, slots=True)
class PythonSource:
    """A Python model's code, complete enough to run it from the state store.

    Args:
        entrypoint: `module/path.py:function` inside `files`; `…:function#2` for the model that is
            the second of the functions of that name.
        files: Text of the module and of every project-local module it imports, by path relative
            to the project's root (forward slashes).
        outside: Hashes of other files and of environment variables that the code may read when
            it runs, see `base.outside.Outside`.
        variables: Values of its blueprint by name in lower case.
        settings: Values of the settings' variables that the code may ask for, likewise.
        sqlmesh_dialect: SQLGlot dialect of the texts of a model that is written for SQLMesh,
            whose conventions hold then; empty for all others.
    """

    entrypoint: str
    files: dict[str, str]
    outside: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    sqlmesh_dialect: str = ""

    @property
    def place(self) -> tuple[str, str, int]:
        """The entrypoint's file, function, and number among those of its name; 0 for the only."""
        path, _, function = self.entrypoint.rpartition(":")
        name, _, number = function.partition("#")
        return path, name, int(number or 0)


@dataclass(frozen=True, slots=True)
class Signal:
    """A call of a signal, which says which intervals may be filled yet.

    Args:
        arguments: Plain values by name.
        python: The function's code.
    """

    name: str
    arguments: tuple[tuple[str, object], ...]
    python: PythonSource


@dataclass(frozen=True, slots=True)
class Column:
    """An output column as the user declares it.

    Args:
        type: Spark SQL type, or None when it is to be inferred.
    """

    name: str
    type: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Asset:
    """The names that a model has in Dagster where another tool of its author's gave it names.

    Args:
        key: Parts of the asset's key; empty for schema and name.
        group: Its group, or None for its schema.
        owners: Addresses and teams beside the model's owner.
    """

    key: tuple[str, ...] = ()
    group: str | None = None
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """One model: its query or code, how its table is filled, and what people are told of it.

    Args:
        query: The SQL query with all macros expanded, in one line of canonical text except that
            time variables (`@start_ds` …) are still there; None for seeds, external and Python.
        origins: Where the pieces of its query came from in the file's text; empty where code made
            it. They say nothing of what the model is, and are no part of it.
        source: The file's text as written, for people.
        columns: Declared columns, in order; empty when not declared.
        depends_on: Every table that the model reads, model or not, sorted; its audits' are not
            among them, see `audited_against`.
        cron: Five fields.
        start: First instant whose data exists (UTC), or None for the project's default.
        end: End of the data (UTC, exclusive), or None.
        partitioned_by: Iceberg partition transforms as SQL (`days(ts)`).
        clustered_by: Columns or expressions to sort by, as SQL.
        virtual_properties: Properties of the model's Iceberg views.
        pre_statements: SQL run before the model's query, rendered like it.
        post_statements: SQL run after it.
        on_virtual_update: SQL run after an environment shows the model by a view.
        grains: Columns declared (not checked) to identify a row.
        stamp: Arbitrary text that forces a new version when it changes.
        physical_version: Which of its tables a model that changes in place goes on with; another
            value is another table. None for the one that production shows.
        session: Settings of Spark's sessions that decide what queries mean, sorted.
        cron_tz: IANA time zone in which the cron is read; UTC when None.
        interval_unit: `five_minute` … `year`; the largest that fits the cron when None.
        allow_partials: Whether the unit that goes on is filled as far as it has gone.
        until_now: Whether such a fill reaches to the instant of its plan, not to the last tick.
        relative_start: `start` as told from each plan's instant (`1 week ago`), or None.
        relative_end: `end` likewise.
        signals: All of them have to agree before an interval is filled.
        reads_itself: Whether the query or code reads what earlier fills of the model wrote.
        table: Catalog, schema and name of an external model's table where it lies in another
            catalog than the project's; else empty.
        dialect: SQLGlot dialect that the query was written in.
        dialect_trust: Functions of the query's dialect that are taken to mean the same on Spark.
        skip_unchanged: Whether runs leave the model's table as it is when nothing that it reads
            has changed; None where what the model is made of decides.
        ignored_rules: Rules of the linter that are not looked at, in lower case.
        freshness: Seconds after its last fill from which it is late, or None.
        asset: Its names in Dagster where they are not those of every model.
        tool: The tool whose project defines it, such as `dbt`; empty for files of our own.
        described_in: Places of columns' descriptions beside its file, by name in lower case.
    """

    name: ModelName
    kind: Kind
    location: SourceLocation
    query: str | None = None
    source: str = ""
    python: PythonSource | None = None
    description: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()
    depends_on: tuple[ModelName, ...] = ()
    cron: str = "0 0 * * *"
    start: datetime | None = None
    end: datetime | None = None
    audits: tuple[Audit, ...] = ()
    partitioned_by: tuple[str, ...] = ()
    clustered_by: tuple[str, ...] = ()
    table_properties: tuple[tuple[str, str], ...] = ()
    pre_statements: tuple[str, ...] = ()
    post_statements: tuple[str, ...] = ()
    on_virtual_update: tuple[str, ...] = ()
    grains: tuple[tuple[str, ...], ...] = ()
    stamp: str | None = None
    session: tuple[tuple[str, str], ...] = ()
    table: tuple[str, ...] = ()
    column_descriptions: dict[str, str] = field(default_factory=dict)
    virtual_properties: tuple[tuple[str, str], ...] = ()
    cron_tz: str | None = None
    interval_unit: str | None = None
    allow_partials: bool = False
    relative_start: str | None = None
    relative_end: str | None = None
    skip_unchanged: bool | None = None
    dialect: str = "spark"
    dialect_trust: tuple[str, ...] = ()
    reads_itself: bool = False
    signals: tuple[Signal, ...] = ()
    physical_version: str | None = None
    ignored_rules: tuple[str, ...] = ()
    asset: Asset | None = None
    freshness: int | None = None
    until_now: bool = False
    tool: str = field(default="", compare=False)
    origins: Runs = field(default=(), compare=False, repr=False)
    described_in: dict[str, SourceLocation] = field(default_factory=dict, compare=False, repr=False)

    def place(self, offset: int | None) -> SourceLocation:
        """Return the place in its file that a character of its query came from."""
        if offset is None or not self.origins:
            return self.location
        place = place_in(self.origins, offset)
        source = SourceText(self.location.path, self.source)
        return source.location(place if place >= 0 else ~place)

    @property
    def audited_against(self) -> tuple[ModelName, ...]:
        """The tables that its audits read beside it and what it reads itself, sorted."""
        found = {name for audit in self.audits for name in audit.reads}
        return tuple(sorted(found.difference(self.depends_on, (self.name,)))) if found else ()

    @property
    def marks(self) -> tuple[str | None, ...]:
        """Marks by which the author asks for another table of the same rows."""
        if self.physical_version is None:
            return (self.stamp,)
        return self.stamp, "physical version", self.physical_version

    def start_at(self, now: datetime) -> datetime | None:
        """Return the first instant whose data exists, as it is at an instant (both UTC)."""
        if self.relative_start is None:
            return self.start
        return relative_instant(self.relative_start, now)

    def end_at(self, now: datetime) -> datetime | None:
        """Return the exclusive end of the data, as it is at an instant; a day is included."""
        if self.relative_end is None:
            return self.end
        found = relative_instant(self.relative_end, now)
        return found + timedelta(days=1) if names_a_day(self.relative_end) else found


@dataclass(frozen=True, slots=True)
class TestTable:
    """Rows of a parent, or rows that a query has to return.

    Args:
        columns: Column names in the order of first mention.
        rows: Values per row in that order; None where a row does not mention a column.
        types: Declared Spark SQL types by column.
        partial: Whether the model may return more columns than these.
        query: Spark SQL that gives the rows, instead of `rows`.
    """

    __test__ = False

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: tuple[tuple[str, str], ...] = ()
    partial: bool = False
    query: str | None = None


@dataclass(frozen=True, slots=True)
class UnitTest:
    """One test: the rows that a model makes of given rows.

    Args:
        inputs: Rows by parent.
        expected: The rows of the model's query, or None when only CTEs are checked.
        ctes: Rows by common table expression of the query.
        start: First instant for the time variables (UTC), or None.
        end: Their end (UTC, exclusive), or None.
        execution_time: Value of `@execution_ts` and its like (UTC), or None.
        variables: Values that override the settings' variables.
        tested: The model as read with these variables, or None; see `loading.with_variables`.
    """

    name: str
    model: ModelName
    location: SourceLocation
    inputs: tuple[tuple[ModelName, TestTable], ...]
    expected: TestTable | None
    ctes: tuple[tuple[str, TestTable], ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    execution_time: datetime | None = None
    variables: tuple[tuple[str, Any], ...] = ()
    description: str | None = None
    tested: Model | None = None


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with the places where it and its audits name other tables.

    Args:
        reads: Place of the first mention, by table.
        group: The group that it is of, where models are divided into groups.
        is_private: Whether only models of its group may read it.
    """

    model: Model
    reads: dict[ModelName, SourceLocation] = field(default_factory=dict)
    group: str | None = None
    is_private: bool = False


@dataclass(frozen=True, slots=True)
class Exposure:
    """A dashboard, or whatever else outside of the project reads its models.

    Args:
        what: `exposure`, `sync` for a system that is kept in step with a model, or `metric`.
        reads: Models, or columns of them (in lower case), with the places where it says so.
    """

    name: str
    owner: str | None
    url: str | None
    reads: tuple[tuple[ModelName, str | None, SourceLocation], ...]
    location: SourceLocation
    what: Literal["exposure", "sync", "metric"] = "exposure"
    description: str | None = None

    def reads_of(self, model: ModelName, column: str | None) -> bool:
        """Say whether it reads a column, or a model; who reads a model reads all its columns."""
        own = {one for name, one, _ in self.reads if name == model}
        return bool(own) if column is None else not own.isdisjoint((None, column.lower()))


@dataclass(frozen=True, slots=True)
class Described:
    """What a file of descriptions says of one model.

    Args:
        columns: Texts by column as it is written there; empty for one that waits for its text.
        places: Places of the columns, by the same names.
    """

    model: ModelName
    description: str | None
    columns: dict[str, str]
    location: SourceLocation
    places: dict[str, SourceLocation]


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The models, unit tests, exposures and descriptions of one file.

    Args:
        path: Relative to the project's root; the name of a unit.
        uses: Other files that were read on its behalf (a seed's CSV, imported modules, what its
            macros opened), or would have been, had they been there.
        variables: Environment variables that were read on its behalf; `*` for all of them.
        catalogs: Other catalogs that it names, which no setting names.
        repeatable: Whether nothing else was asked, so that it need not be read again while
            these are as they were.
        unread: What it says that has no meaning here, in words of which a warning is made.
    """

    path: Path
    models: tuple[LoadedModel, ...] = ()
    tests: tuple[UnitTest, ...] = ()
    uses: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    catalogs: tuple[str, ...] = ()
    repeatable: bool = True
    exposures: tuple[Exposure, ...] = ()
    unread: tuple[str, ...] = ()
    described: tuple[Described, ...] = ()
