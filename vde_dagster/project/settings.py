"""Settings of a project: `[tool.vde]` of its `pyproject.toml`, overridden by `VDE_…`.

Settings are also read from SQLMesh's configuration files, see `configuration/`. The values are
plain frozen dataclasses, so that a command with cached settings needs no Pydantic;
`settings_source` reads them, and `check_values` checks them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

from vde_dagster.base.work import Work
from vde_dagster.project.identity import ProjectIdentity
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.sql.spark_settings import may_affect_results

T = TypeVar("T")
PYPROJECT = Path("pyproject.toml")
ENV_PREFIX = "VDE_"
"""Prefix of the environment variables that override a project's files."""

SuffixTarget = Literal["schema", "table"]
"""Part of a view's name that gets the suffix: `sales__dev.orders`, or `sales.orders__dev`."""
EnvironmentMode = Literal["full", "dev_only"]
"""Environments that have views: all (`full`), or all except production (`dev_only`)."""

AutoApply = Literal["never", "reuse", "non_breaking", "always"]

SPARK_PACKAGES = (
    "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
    "org.xerial:sqlite-jdbc:3.49.1.0",
)


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of Spark sessions.

    Args:
        config: Spark configuration; `${NAME}` in a value is read from the environment when used.
        packages: Maven coordinates for `spark.jars.packages`.
        batch_bytes: Maximum size of the files that one batch of a backfill reads from parents, for
            models without `batch_size`. Default: a quarter of the JVM's memory if the master is
            `local[…]`, else 64 GiB.
        warm: Whether commands and runs start and share a background Spark, if the master is
            `local[…]` and PySpark's client is installed.
        warm_minutes: Minutes without work after which the background Spark stops.
        warm_up: Whether the background Spark warms up while it is idle, and commands leave files
            and processes behind so that later commands start faster.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    master: str = "local[*]"
    config: dict[str, str] = field(default_factory=dict, repr=False)
    packages: tuple[str, ...] = SPARK_PACKAGES
    batch_bytes: int | None = None
    warm: bool = True
    warm_minutes: float = 30.0
    warm_up: bool = True

    def meaning(self) -> tuple[tuple[str, str], ...]:
        """Return the sorted settings that can change a query's result, such as the time zone."""
        return tuple(
            (key, expand_secrets(value))
            for key, value in sorted(self.config.items())
            if may_affect_results(key)
        )


@dataclass(frozen=True, slots=True)
class DagsterSettings:
    """Settings of the project in Dagster.

    Args:
        auto_apply: For each environment, which plans the sensor applies without approval.
        schedules: Five-field cron of runs, by environment.
        schedule_tz: IANA time zone of `schedules` and `janitor_cron`.
        default_environment: Environment of a plan if none is given.
        prefix: Prefix of every name of the project in Dagster, including asset keys, if several
            projects share a code location or an instance; empty for the short names.
        preview_rows: Number of newest rows of a fill that Dagster stores and shows; 0 for none.
        virtual_views: Whether assets of VIEW models are virtual assets, see docs/dagster.md for the
            effect on staleness.
        check_queries: Whether Spark analyzes a plan's changes before an approval.
        keep_runs_days: Days after which clean-up deletes ended runs from Dagster.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    auto_apply: dict[str, AutoApply] = field(default_factory=dict)
    schedules: dict[str, str] = field(default_factory=dict)
    janitor_cron: str = "0 3 * * *"
    schedule_tz: str = "UTC"
    sensor_interval_seconds: int = 30
    default_environment: str = "prod"
    prefix: str = ""
    preview_rows: int = 10
    check_queries: bool = True
    virtual_views: bool = False
    keep_runs_days: int | None = None


@dataclass(frozen=True, slots=True)
class LinterSettings:
    """Rules of the linter, by name; the name `all` is every rule.

    Args:
        rules: Rules whose violation is an error.
        warn_rules: Rules whose violation is a warning.
        ignored_rules: Rules that are not applied, even if listed above.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    enabled: bool = True
    rules: tuple[str, ...] = ()
    warn_rules: tuple[str, ...] = ()
    ignored_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostSettings:
    """Prices of work, for estimates and `vde cost`; all are zero by default.

    Args:
        core_hour: Price of a core-hour.
        cores: Number of cores to charge for a second by the clock, if task times are unknown.
        terabyte: Price of 10^12 bytes written or read.
        currency: Name of the currency, printed after amounts.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    core_hour: float = 0.0
    cores: float = 1.0
    terabyte: float = 0.0
    currency: str = "EUR"

    @property
    def has_prices(self) -> bool:
        """Whether any price is set."""
        return bool(self.core_hour or self.terabyte)

    def price(self, work: Work) -> float:
        """Return the price of some work: core-hours, and terabytes read and written."""
        core_seconds = work.task_seconds + work.untold_seconds * self.cores
        moved = work.bytes + work.bytes_read
        return core_seconds / 3600 * self.core_hour + moved / 1e12 * self.terabyte

    def text(self, amount: float) -> str:
        """Write an amount with its currency: `0.12 EUR`."""
        return f"{amount:,.{2 if amount >= 0.1 or not amount else 4}f} {self.currency}"


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """Options for formatting SQL. All but `keywords` have SQLMesh's names.

    Args:
        indent: Spaces before the parts of a clause.
        pad: Spaces before the content of brackets.
        max_text_width: Maximum line length before lists and conditions are broken.
        normalize_functions: Case of functions' names; empty to keep them.
        keywords: Whether keywords are written in capitals.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    indent: int = 2
    pad: int = 2
    max_text_width: int = 80
    leading_comma: bool = False
    normalize_functions: Literal["", "upper", "lower"] = ""
    keywords: bool = True


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """Base class of a plug-in's settings; a subclass has the keys of `[tool.vde.<name>]` as fields.

    A field without `repr` is a secret: messages do not contain its value.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def mistakes(self) -> Iterable[tuple[str, str, str]]:
        """Return errors in values that the fields' types cannot detect, as (key, error, hint)."""
        return ()

    def catalog_key(self) -> str | None:
        """Return the key that selects the plug-in's catalog, or None if it is not set."""
        return None


@dataclass(frozen=True, slots=True)
class RestSettings:
    """Iceberg REST catalog that stores the tables, instead of the state's database.

    Args:
        uri: Base address of the catalog, without the `/v1` of its routes; empty for none.
        warehouse: The catalog's name for the warehouse, if it has several warehouses.
        token: Bearer token; `${NAME}` is read when used, also in `credential` and `properties`.
        credential: `id:secret` for requesting a token.
        oauth2_uri: Server that issues tokens, if the catalog's server does not.
        mirror: Whether the catalog also gets the environments' views.
        properties: Iceberg's other properties of a REST catalog; `header.…` are headers.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    uri: str = ""
    warehouse: str | None = None
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    oauth2_uri: str | None = None
    scope: str = "catalog"
    mirror: bool = False
    properties: dict[str, str] = field(default_factory=dict, repr=False)

    def resolved(self) -> RestSettings:
        """Return the settings with `${NAME}` replaced by environment variables."""
        return replace(
            self,
            token=expand_secrets(self.token, "token"),
            credential=expand_secrets(self.credential, "credential"),
            properties=expand_secrets(self.properties),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one project.

    Every setting has a default. `${NAME}` in values of `state_url`, `io`, `served_io` and
    `catalog_options` is read from the environment when used.

    Args:
        name: Name of the project; default: the folder's name.
        id: Identifies the project in a state store; `vde init` creates it.
        models_dir: Folder of models; this and the other `…_dir` are relative to the root.
        audits_dir: Folder of custom audits; like macros and tests they may also be in `models_dir`.
        catalog: Name of the Iceberg catalog in Spark.
        catalogs: Spark's name for each catalog that files name; an empty text means the project's
            catalog.
        catalog_type: Catalog plug-in that stores tables and views, instead of the state's database.
        trino_catalog: Name of the project's catalog in Trino, if views are also written for Trino.
        view_catalogs: Names of the catalog by SQL dialect; views are also written in these
            dialects.
        sources: Names of plug-in sources of models.
        state_url: SQLAlchemy URL of the state database.
        warehouse: Folder or URL of the tables' files.
        io: PyIceberg's settings for object stores.
        served_io: Settings of the object store that `vde serve` sends to clients with every table.
        dialect: SQLGlot dialect of models that set no dialect.
        dialect_trust: Functions of other dialects that are assumed to be equal on Spark.
        start: First day of the data of models that set no start.
        cron_tz: IANA time zone of crons, for models that set no time zone.
        docs_url: URL of the documentation site, for links to it.
        variables: Values of `@VAR('name')` and `@name` in queries and headers: texts, numbers,
            booleans, null, and lists and tables of them.
        model_defaults: Default values of model properties, by property.
        time_column_format: Default format of text time columns, in strftime's form.
        forward_only: Whether all plans are forward-only.
        max_removed: Maximum share of an environment's models, from 0 to 1, that a plan may remove
            without confirmation. One or two models may always be removed, unless they are all.
        no_diff: Whether `vde plan` hides changes of the SQL text.
        before_all: Statements that run before everything else when a plan is applied.
        after_all: Statements that run after a plan's views are published.
        infer_names: Whether models without a name are named by their paths.
        ignore_patterns: Glob patterns of ignored files.
        scalar_functions: User-defined functions that depend only on their arguments.
        functions: Other user-defined functions in Spark's sessions.
        environment_suffix_target: Part of a view's name that ends with the environment's name.
        virtual_environment_mode: `full`: production has views, too. `dev_only`: production has
            tables in place of views, for models that have tables.
        load_seconds: Time limit for reading one file, including its code.
        load_processes: Maximum number of processes that read files and compute versions, for
            hundreds of changed models; 0 for one per core.
        concurrency: Maximum number of models, and batches of models, in parallel.
        environment_ttl_days: Days after which an environment other than production expires; 0 for
            never.
        pinned_environments: Environments that never expire.
        protected: Environments, or patterns, where removing columns or changing types requires
            confirmation, as always in production.
        history_versions: Maximum number of definitions of an environment kept for rollback;
            versions of runs that only fill do not count.
        history_days: Retention of an environment's versions in days.
        change_views: Patterns of models, such as `sales.*`, that also get a view of their changes
            in production: `sales.orders__changes`.
        change_view_versions: Maximum number of changes in a model's view of changes.
        janitor_grace_hours: Retention of unused tables in hours.
        orphan_grace_hours: Retention of uncommitted data files in hours.
        snapshot_retention_days: Retention of Iceberg snapshots of live tables in days.
        reader_hold_days: Days after a model's last fill until the janitor may remove Iceberg
            snapshots that the next fill would need.
        plugins: Settings of each plug-in, by the name of its entry point.
        config_file: Path of SQLMesh's configuration file, relative to the root; empty for none.
        named: Whether the name is a setting, and not the folder's name.
    """

    root: Path
    name: str = ""
    id: str = ""
    models_dir: str = "models"
    audits_dir: str = "audits"
    macros_dir: str = "macros"
    seeds_dir: str = "seeds"
    tests_dir: str = "tests"
    catalog: str = "lakehouse"
    catalogs: dict[str, str] = field(default_factory=dict)
    catalog_type: str = ""
    catalog_options: dict[str, str] = field(default_factory=dict, repr=False)
    trino_catalog: str | None = None
    view_catalogs: dict[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    state_url: str | None = field(default=None, repr=False)
    warehouse: str | None = None
    io: dict[str, str] = field(default_factory=dict, repr=False)
    served_io: dict[str, str] = field(default_factory=dict, repr=False)
    default_namespace: str = "default"
    dialect: str = "spark"
    dialect_trust: tuple[str, ...] = ()
    start: date | None = None
    cron: str = "@daily"
    cron_tz: str | None = None
    owner: str | None = None
    docs_url: str | None = None
    variables: dict[str, Any] = field(default_factory=dict, repr=False)
    model_defaults: dict[str, Any] = field(default_factory=dict)
    time_column_format: str | None = None
    forward_only: bool = False
    max_removed: float = 1 / 3
    no_diff: bool = False
    before_all: tuple[str, ...] = ()
    after_all: tuple[str, ...] = ()
    infer_names: bool = False
    ignore_patterns: tuple[str, ...] = ()
    scalar_functions: tuple[str, ...] = ()
    functions: tuple[str, ...] = ()
    environment_suffix_target: SuffixTarget = "schema"
    virtual_environment_mode: EnvironmentMode = "full"
    load_seconds: int = 120
    load_processes: int = 0
    concurrency: int = 4
    environment_ttl_days: int = 7
    pinned_environments: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    history_versions: int = 50
    history_days: int = 30
    change_views: tuple[str, ...] = ()
    change_view_versions: int = 10
    janitor_grace_hours: int = 24
    orphan_grace_hours: int = 72
    snapshot_retention_days: int = 7
    reader_hold_days: int = 30
    spark: SparkSettings = field(default_factory=SparkSettings)
    dagster: DagsterSettings = field(default_factory=DagsterSettings)
    linter: LinterSettings = field(default_factory=LinterSettings)
    rest: RestSettings = field(default_factory=RestSettings)
    cost: CostSettings = field(default_factory=CostSettings)
    format: LayoutOptions = field(default_factory=LayoutOptions)
    plugins: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    config_file: str = ""
    config_warnings: tuple[str, ...] = ()
    named: bool = False

    def in_spark(self, text: str, dialect: str) -> str:
        """Translate an expression to Spark SQL, assuming that trusted functions are equal there.

        Raises:
            ValueError: The expression cannot be read or translated; the message has the reason.
        """
        from vde_dagster.sql.expressions import in_spark

        return in_spark(text, dialect, self.trusted_functions)

    @property
    def trusted_functions(self) -> frozenset[str]:
        """The functions in `dialect_trust`, in lower case."""
        return frozenset(map(str.lower, self.dialect_trust))

    @property
    def identity(self) -> ProjectIdentity:
        """The id and name that tell a state store whether the project is its own."""
        return ProjectIdentity(self.id, self.name, self.named)

    @property
    def work_dir(self) -> Path:
        """The folder `.vde` of the project, for the cache and other generated files."""
        return self.root / ".vde"

    @property
    def resolved_state_url(self) -> str:
        """URL of the state database with `${NAME}` replaced; the default is SQLite in `.vde`."""
        if self.state_url is None:
            return f"sqlite:///{self.work_dir / 'vde.db'}"
        return expand_secrets(self.state_url)

    @property
    def resolved_warehouse(self) -> str:
        """Folder or URL of the warehouse; a relative folder is in the project."""
        if self.warehouse is None:
            return str(self.work_dir / "warehouse")
        is_uri = "://" in self.warehouse or self.warehouse.startswith("file:")
        if is_uri or Path(self.warehouse).is_absolute():
            return self.warehouse
        return str(self.root / self.warehouse)

    @property
    def catalog_names(self) -> dict[str, str]:
        """Names of the catalog by SQL dialect, for views in these dialects."""
        trino = {"trino": self.trino_catalog} if self.trino_catalog else {}
        return {**self.view_catalogs, **trino}

    def time_to_live(self, environment: str) -> timedelta | None:
        """Return the time after which an unchanged environment expires, or None for never."""
        if self.environment_ttl_days == 0 or environment in self.pinned_environments:
            return None
        return timedelta(days=self.environment_ttl_days)

    @staticmethod
    def environment_hint(name: str, *, wildcards: bool = False) -> str | None:
        """Return a hint for a name or pattern that no environment can match, or None."""
        form = r"([a-z0-9_*?]|\[[^\]]+\])+" if wildcards else "[a-z0-9_]+"
        if re.fullmatch(form, name):
            return None
        return "write it as `vde environments` does: feature_x for the branch feature/x"

    def is_protected(self, environment: str) -> bool:
        """Return whether an environment matches the setting `protected`."""
        return any(fnmatchcase(environment, pattern) for pattern in self.protected)

    @property
    def start_time(self) -> datetime | None:
        """Midnight (UTC) of the setting `start`."""
        start = self.start
        return None if start is None else datetime.combine(start, time(), tzinfo=timezone.utc)

    def schedule(
        self, cron: str = "", zone: str = "", *, at_least: str = ""
    ) -> tuple[str, str | None]:
        """Return a cron with five fields, and its IANA time zone.

        The project's settings replace empty arguments.

        Args:
            at_least: Cron to use instead of the default cron if the default ticks less often.

        Raises:
            ValueError: The text is not a cron expression; the message has the reason.
            LookupError: The time zone is unknown; the message suggests names.
        """
        from vde_dagster.base.cron import normalise_cron, shortest_gap_seconds
        from vde_dagster.base.times import zone_name

        found = normalise_cron(cron or self.cron)
        if at_least and not cron:
            found = min(found, at_least, key=shortest_gap_seconds)
        zone = zone or self.cron_tz or ""
        return found, zone_name(zone) if zone else None


NOT_SET = ("root", "plugins", "config_file", "config_warnings", "named")
"""Fields of `Settings` that users cannot set."""


def set_in_environment() -> bool:
    """Return whether there are environment variables `VDE_…`, which may be settings."""
    return any(name.upper().startswith(ENV_PREFIX) for name in os.environ)
