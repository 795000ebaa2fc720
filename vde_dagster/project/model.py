"""Models and unit tests as files define them, and the content of one file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import names_a_day, relative_instant
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import Kind
from vde_dagster.sql.edits import Runs, find_place
from vde_dagster.sql.scanner import SourceText


@dataclass(frozen=True, slots=True)
class Audit:
    """A check of a model's rows: a query that returns the invalid rows.

    Args:
        arguments: The call's arguments as SQL text, by name.
        query: Rendered query for the failing rows, with `@this_model`.
        blocking: Whether failing rows block the publication.
        reads: Tables in the query other than the model, sorted.
        dialect: SQLGlot dialect that the query was written in; for a built-in audit, the dialect
            that the arguments in `translated` were written in.
        dialect_trust: Functions and operators of the dialect that are assumed to be equal on Spark.
        translated: Arguments of a built-in audit that were translated from `dialect` to Spark SQL.
    """

    name: str
    arguments: tuple[tuple[str, str], ...]
    query: str
    blocking: bool = True
    reads: tuple[ModelName, ...] = field(default=(), compare=False)
    dialect: str = "spark"
    dialect_trust: tuple[str, ...] = ()
    translated: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """The audit's name with its arguments."""
        arguments = ", ".join(f"{key}={value}" for key, value in self.arguments)
        return f"{self.name}({arguments})"


@dataclass(frozen=True, slots=True)
class PythonSource:
    """The code of a Python model, complete enough to run without the project's folder.

    Args:
        entrypoint: `module/path.py:function` in `files`; `…:function#2` for the second function
            with that name.
        files: Text of the module and of every project-local module it imports, by path relative to
            the project's root (forward slashes).
        outside: Hashes of files such as `rates/eu.csv`, and of environment variables, that the code
            may read at run time, see `base.outside.OutsideInputs`.
        variables: Values of the model's blueprint by lower-case name.
        settings: Values of variables of the settings, if the code may use them, by lower-case name.
        sqlmesh_dialect: SQLGlot dialect of texts in a model written for SQLMesh; empty for other
            models.
        default_namespace: Namespace of names in the code that consist of one part.
        catalogs: Other catalogs that the code may name, see `TableNames.catalogs`.
    """

    entrypoint: str
    files: dict[str, str]
    outside: dict[str, str] = field(default_factory=dict)
    variables: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    sqlmesh_dialect: str = ""
    default_namespace: str = "default"
    catalogs: dict[str, str] = field(default_factory=dict)

    @property
    def place(self) -> tuple[str, str, int]:
        """The function's file, name, and number: 0 if the name is unique, else counted from 1."""
        path, _, function = self.entrypoint.rpartition(":")
        name, _, number = function.partition("#")
        return path, name, int(number or 0)


@dataclass(frozen=True, slots=True)
class Signal:
    """A call of a signal function, which decides which intervals may be filled.

    Args:
        arguments: Plain values by name.
        python: The function's code.
    """

    name: str
    arguments: tuple[tuple[str, object], ...]
    python: PythonSource


@dataclass(frozen=True, slots=True)
class Column:
    """A declared column; `type` is a Spark SQL type, or None to infer the type."""

    name: str
    type: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Asset:
    """The names of a model in Dagster that another tool, such as dbt, determines.

    Args:
        key: Parts of the asset's key; empty to use the model's schema and name.
        group: The model's group, or None for its schema.
        owners: Addresses and teams in addition to the model's owner.
    """

    key: tuple[str, ...] = ()
    group: str | None = None
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retries:
    """Retry policy of a model's step in Dagster.

    Args:
        delay: Seconds before a retry, or None.
        backoff: Growth of the delay: `linear`, `exponential`, or None.
        jitter: Random change of the delay: `full`, `plus_minus`, or None.
    """

    max_retries: int = 1
    delay: float | None = None
    backoff: str | None = None
    jitter: str | None = None


@dataclass(frozen=True, slots=True)
class Automation:
    """Automation condition of a model's asset in Dagster.

    Args:
        name: `eager`, `on_missing` or `on_cron`.
        cron: Cron expression, for `on_cron`.
        cron_tz: IANA time zone of the cron.
    """

    name: str
    cron: str = ""
    cron_tz: str = "UTC"


_SESSION_STATEMENT = re.compile(
    r"(SET|RESET|USE|DECLARE|CREATE\s+(OR\s+REPLACE\s+)?(TEMPORARY|TEMP)\s+(FUNCTION|VIEW))\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Model:
    """A model: its query or code, its kind, and the properties in its header.

    Args:
        query: SQL query with all macros expanded, in one line of canonical text that still contains
            time variables (`@start_ds` …); None for seeds, external and Python models.
        origins: Places of the query's pieces in the file's text; empty for generated queries.
        source: The file's original text, for display.
        columns: Declared columns, in order; empty if not declared.
        depends_on: Every table that the model's query or code reads, sorted.
        start: First instant with data (UTC), or None for the project's default.
        end: End of the data (UTC, exclusive), or None.
        partitioned_by: Iceberg partition transforms as SQL (`days(ts)`).
        clustered_by: Columns or expressions to sort by, as SQL.
        virtual_properties: Properties of the model's Iceberg views.
        pre_statements: SQL run before the model's query, rendered like the query.
        post_statements: SQL run after the model's query.
        on_virtual_update: SQL run after an environment publishes the model's view.
        grains: Columns declared (not checked) to identify a row.
        stamp: Arbitrary text that forces a new version when it changes.
        physical_version: Name for the table that the model reuses when it changes in place; None
            for production's table.
        session: Settings of Spark's sessions that affect the meaning of queries, sorted.
        cron_tz: IANA time zone of the cron; None for UTC.
        interval_unit: `five_minute` … `year`; None for the largest that fits the cron.
        allow_partials: Whether an unfinished unit is filled up to the last tick.
        until_now: Whether an unfinished unit is filled up to the plan's time.
        relative_start: `start` relative to each plan's time (`1 week ago`), or None.
        relative_end: `end` relative to each plan's time, or None.
        signals: An interval is filled only if all of them allow it.
        reads_itself: Whether the query or code reads rows of the model's earlier fills.
        table: Catalog, schema and name of an external model's table that is not in the project's
            catalog; else empty.
        dialect: SQLGlot dialect of the original query, statements and properties.
        dialect_trust: Functions of the query's dialect that are assumed to be equal on Spark.
        skip_unchanged: Whether runs skip the model if its inputs have not changed; None to decide
            by the model's definition.
        ignored_rules: Rules of the linter that are not applied, in lower case.
        freshness: Seconds after the last fill until the model counts as late, or None.
        asset: The model's names in Dagster if they are not the default names.
        op_tags: Tags of its step in Dagster, such as `dagster-k8s/config`, sorted; values that are
            not texts are JSON.
        pool: Pool of its step in Dagster; None for the pool of all models.
        automation_condition: Condition for Dagster to materialize its partitions, or None.
        tool: The tool whose project defines the model, such as `dbt`; empty for built-in files.
        described_in: Places of column descriptions that are in other files, by lower-case column.
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
    retry_policy: Retries | None = None
    op_tags: tuple[tuple[str, str], ...] = ()
    pool: str | None = None
    automation_condition: Automation | None = None
    tool: str = field(default="", compare=False)
    origins: Runs = field(default=(), compare=False, repr=False)
    described_in: dict[str, SourceLocation] = field(default_factory=dict, compare=False, repr=False)

    @staticmethod
    def is_for_session(statement: str) -> bool:
        """Return whether a statement changes only the session that it runs in.

        >>> Model.is_for_session("SET spark.sql.ansi.enabled = false")
        True
        >>> Model.is_for_session("INSERT INTO log SELECT 1")
        False
        """
        return _SESSION_STATEMENT.match(statement) is not None

    def place(self, offset: int | None) -> SourceLocation:
        """Return the place in the model's file for an offset in its query."""
        if offset is None or not self.origins:
            return self.location
        place = find_place(self.origins, offset)
        source = SourceText(self.location.path, self.source)
        return source.location(place if place >= 0 else ~place)

    @property
    def audited_against(self) -> tuple[ModelName, ...]:
        """Tables that the audits read and the query does not, sorted."""
        found = {name for audit in self.audits for name in audit.reads}
        return tuple(sorted(found.difference(self.depends_on, (self.name,)))) if found else ()

    @property
    def marks(self) -> tuple[str | None, ...]:
        """Values of the properties `stamp` and `physical_version`."""
        # Their changes give the model a new table. They have no effect on rows.
        if self.physical_version is None:
            return (self.stamp,)
        return self.stamp, "physical version", self.physical_version

    def start_at(self, now: datetime) -> datetime | None:
        """Return the first instant with data (UTC); a relative start counts from `now` (UTC)."""
        if self.relative_start is None:
            return self.start
        return relative_instant(self.relative_start, now)

    def end_at(self, now: datetime) -> datetime | None:
        """Return the exclusive end of the data (UTC); a relative end counts from `now` (UTC)."""
        if self.relative_end is None:
            return self.end
        found = relative_instant(self.relative_end, now)
        return found + timedelta(days=1) if names_a_day(self.relative_end) else found


@dataclass(frozen=True, slots=True)
class TestTable:
    """Rows of a unit test: given rows of a table, or expected rows of a query.

    Args:
        columns: Column names in the order of first mention.
        rows: Values per row in that order; None if a row does not mention a column.
        types: Declared Spark SQL types by column.
        partial: Whether the model may return more columns.
        query: Spark SQL for the rows, instead of `rows`.
        dialect: SQLGlot dialect that the query was written in.
        dialect_trust: Functions and operators of the dialect that are assumed to be equal on Spark.
    """

    __test__ = False

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: tuple[tuple[str, str], ...] = ()
    partial: bool = False
    query: str | None = None
    dialect: str = "spark"
    dialect_trust: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnitTest:
    """A unit test: given rows of tables, and the rows that the model must return.

    Args:
        inputs: Rows by parent.
        expected: Rows of the model's query, or None if only CTEs are checked.
        ctes: Expected rows by name of a common table expression of the query.
        start: First instant for the time variables (UTC), or None.
        end: End of the time variables' range (UTC, exclusive), or None.
        execution_time: Value of `@execution_ts` and similar variables (UTC), or None.
        variables: Values that override the settings' variables.
        tested: The model, read again with `variables` by `read_with_test_variables`, or None.
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
    """A model, and the places in its file that name other tables.

    Args:
        reads: Place of the first mention, by table.
        group: The model's group, if models are divided into groups.
        is_private: Whether only models of its group may read it.
    """

    model: Model
    reads: dict[ModelName, SourceLocation] = field(default_factory=dict)
    group: str | None = None
    is_private: bool = False


@dataclass(frozen=True, slots=True)
class Exposure:
    """A reader of models outside the project, such as a dashboard.

    Args:
        what: `exposure`, `sync` for a system that copies a model's changes, or `metric`.
        reads: Models or columns (in lower case), each with its place in the file.
        query: One Spark SQL query of the models, with the exposure's expressions; or empty.
        dialect: SQLGlot dialect that the expressions were written in.
        dialect_trust: Functions and operators of the dialect that are assumed to be equal on Spark.
    """

    name: str
    owner: str | None
    url: str | None
    reads: tuple[tuple[ModelName, str | None, SourceLocation], ...]
    location: SourceLocation
    what: Literal["exposure", "sync", "metric"] = "exposure"
    description: str | None = None
    query: str = field(default="", repr=False)
    dialect: str = "spark"
    dialect_trust: tuple[str, ...] = ()

    def reads_column(self, model: ModelName, column: str | None) -> bool:
        """Return whether the exposure reads `column`; with None, whether it reads the model."""
        own = {one for name, one, _ in self.reads if name == model}
        return bool(own) if column is None else not own.isdisjoint((None, column.lower()))


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one model in a file `docs.yml`.

    Args:
        columns: Descriptions by column name as written; empty for a column without a text.
        places: Places of the columns, by the same names.
    """

    model: ModelName
    description: str | None
    columns: dict[str, str]
    location: SourceLocation
    places: dict[str, SourceLocation]


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The models, unit tests, exposures and descriptions that one file defines.

    Args:
        path: Path relative to the project's root, or the name of a unit, see `Folder.add_units`.
        uses: Other files that may be read for it, existing or not: a seed's CSV, imported modules,
            files that its macros opened.
        variables: Environment variables that may be read for it; `*` means all variables.
        catalogs: Catalogs that the file names, but the settings do not list.
        repeatable: Whether the content depends only on the file, `uses` and `variables`.
        unread: Parts of the file that have no effect, described for a warning.
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
