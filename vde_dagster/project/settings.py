"""The settings of a project: `[tool.vde]` of its `pyproject.toml`, overridden by `VDE_…`.

SQLMesh's configuration files count beside them, see `configuration/`.

The values are plain frozen dataclasses, so that a command that finds them in the cache needs no
Pydantic; `settings_source` reads and checks them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, ClassVar, Literal

from vde_dagster.base.secrets import names_secret, remember_secret, remember_url
from vde_dagster.base.work import Work
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.sql.spark_settings import decides_answers

ENV_PREFIX = "VDE_"
"""How the environment variables begin that win over a project's files."""

SuffixTarget = Literal["schema", "table"]
EnvironmentMode = Literal["full", "dev_only"]
"""What of a view's name has the environment's: `sales__dev.orders`, or `sales.orders__dev`."""

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
        batch_bytes: How many bytes of its parents' files a batch of a backfill reads at most,
            where the model has no `batch_size`; by default a quarter of the JVM's memory where
            tasks run in it, else 64 GiB.
        warm: Whether commands and runs share a Spark that stays in the background, where the
            master is a `local[…]` one, and PySpark's client of servers is installed.
        warm_minutes: For how long it stays when nothing is asked of it.
        warm_up: Whether it makes itself fast while nothing is asked of it.
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
        """Return the settings that may decide what a query means, sorted.

        Every setting of Spark SQL may, except those known to decide only how it is run.
        """
        return tuple(
            (key, expand_secrets(value))
            for key, value in sorted(self.config.items())
            if decides_answers(key)
        )


@dataclass(frozen=True, slots=True)
class DagsterSettings:
    """Settings of the project in Dagster.

    Args:
        auto_apply: Per environment, which plans the sensor applies without being asked.
        schedules: Per environment, the five-field cron of its runs.
        schedule_tz: IANA time zone in which those crons are read.
        default_environment: The environment that plans are made for when none is named.
        prefix: Begins every name of the project in Dagster, asset keys too, where several
            projects share a code location or an instance; empty for the short names.
        preview_rows: How many of the newest rows of a fill Dagster shows, and keeps; 0 for none.
        virtual_views: Whether assets of VIEW models tell Dagster that they are virtual, see
            docs/dagster.md for what that makes stale.
        check_queries: Whether Spark analyses what a plan changes before anybody approves it.
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


@dataclass(frozen=True, slots=True)
class LinterSettings:
    """Settings of the linter: rules by name; `all` is every rule.

    Args:
        rules: Rules whose violation is a mistake.
        warn_rules: Rules whose violation is a warning.
        ignored_rules: Rules that are in neither.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    enabled: bool = True
    rules: tuple[str, ...] = ()
    warn_rules: tuple[str, ...] = ()
    ignored_rules: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CostSettings:
    """What work costs, for estimates and `vde cost`; all zero where nobody said it.

    Args:
        core_hour: The price of a core for an hour.
        cores: The cores that a second by the clock occupies where nobody knows how long tasks ran.
        terabyte: The price of 10^12 bytes that are written or read.
        currency: Its name, behind amounts.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    core_hour: float = 0.0
    cores: float = 1.0
    terabyte: float = 0.0
    currency: str = "EUR"

    @property
    def known(self) -> bool:
        """Whether there is a price."""
        return bool(self.core_hour or self.terabyte)

    def price(self, work: Work) -> float:
        """Return what some work costs: the time of its tasks, and the bytes that it moved."""
        core_seconds = work.task_seconds + work.untold_seconds * self.cores
        moved = work.bytes + work.bytes_read
        return core_seconds / 3600 * self.core_hour + moved / 1e12 * self.terabyte

    def text(self, amount: float) -> str:
        """Write an amount for people: cents are shown where they count."""
        return f"{amount:,.{2 if amount >= 0.1 or not amount else 4}f} {self.currency}"


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """The layout of formatted SQL, by the names of SQLMesh's `format` section.

    Args:
        indent: Blanks before what a clause has.
        pad: Blanks before what brackets have.
        max_text_width: Characters of a line, from which on lists and conditions are broken.
        normalize_functions: Case of functions' names; empty to leave them.
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
    """Settings of a plug-in: a subclass has the keys of its table, `[tool.vde.<name>]`, as fields.

    A field without `repr` is a secret: its value is in no message.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid"}

    def mistakes(self) -> Iterable[tuple[str, str, str]]:
        """Return keys with what is wrong with them, as far as types do not say it, and hints."""
        return ()

    def catalog_key(self) -> str | None:
        """Return the key that makes the catalog of the table's name the project's, if it does."""
        return None


@dataclass(frozen=True, slots=True)
class RestSettings:
    """An Iceberg REST catalog that holds the tables, in place of the state's database.

    Args:
        uri: Its base, without the `/v1` of its routes; empty for none.
        warehouse: What it calls the warehouse, if it has several.
        token: A bearer token; `${NAME}` is read from the environment when used, as in the next
            and in `properties`.
        credential: `id:secret`, for which it gives a token.
        oauth2_uri: Who gives tokens, if somebody else does.
        mirror: Whether environments are shown there as views, too.
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
        """Return the same with secrets filled in."""
        return replace(
            self,
            token=optional_secret(self.token),
            credential=optional_secret(self.credential),
            properties=with_secrets(self.properties),
        )


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one project; every one has a default. `${NAME}` in values of `state_url`,
    `io`, `served_io` and `catalog_options` is read from the environment when used.

    Args:
        name: The folder's name by default.
        id: By what a state store knows the project again; `vde init` makes one.
        models_dir: Folder of models, relative to the root, like the next four.
        audits_dir: Folder of custom audits (also looked for inside `models_dir`, like the rest).
        catalog: Name of the Iceberg catalog in Spark.
        catalogs: Spark's names of catalogs by the names that files call them by; an empty text
            is the project's own.
        catalog_type: The catalog of another distribution that holds tables and views, in place of
            the state's database.
        trino_catalog: Name of the same catalog in Trino, when views are to be readable there.
        view_catalogs: Its names in further dialects, in which views are to be written, too.
        sources: Sources of models from other distributions, by their names.
        state_url: SQLAlchemy URL of the state database.
        warehouse: Folder or URL of the tables' files.
        io: PyIceberg's settings for object stores.
        served_io: What `vde serve` tells clients of the object store with every table.
        dialect: SQLGlot dialect of models that name none.
        dialect_trust: Functions of other dialects that are taken to mean the same on Spark.
        start: First day of the data of models that name none.
        cron_tz: IANA time zone in which the cron of models is read that name none.
        docs_url: Where the documentation site is shown, for links to it.
        variables: Values of `@VAR('name')` and `@name` in queries and headers: texts, numbers,
            truth values, nothing, and lists and tables of them.
        model_defaults: Values of properties of models that do not give them, by property.
        time_column_format: Format of time columns of text that name none, in strftime's words.
        forward_only: Whether all plans are forward-only.
        max_removed: The share of an environment's models that a plan may remove unasked, from 0
            to 1; up to two of many always may be.
        no_diff: Whether `vde plan` leaves the changes of texts out.
        before_all: Statements that run before all else when a plan is applied.
        after_all: Statements that run once its views are published.
        infer_names: Whether models without a name are named by their paths.
        ignore_patterns: Files that are left out, as glob patterns.
        scalar_functions: User-defined functions that depend on nothing but their arguments.
        functions: Other functions that Spark's sessions have beside Spark's own.
        environment_suffix_target: Which part of a view's name ends with the environment's.
        virtual_environment_mode: Whether production has views, too (`full`), or tables in place of
            those of models that have tables (`dev_only`).
        load_seconds: How long the reading of one file may take, with the code that it runs.
        concurrency: Models, and batches of models, worked on at once.
        environment_ttl_days: Days after which an environment other than production expires; 0
            for never.
        pinned_environments: Environments that never expire.
        protected: Environments, or patterns of them, whose columns and types go only when somebody
            has said yes, as in production, which always is.
        history_versions: Definitions of an environment kept for rollback; versions of runs that
            only fill do not count.
        history_days: Days for which an environment's versions are kept.
        change_views: Patterns of models, `sales.*`, whose changes production shows in a view
            beside theirs, `sales.orders__changes`.
        change_view_versions: How many changes of a model such a view goes back at most.
        janitor_grace_hours: Hours for which an unused table is kept.
        orphan_grace_hours: Hours for which a data file is kept that was never committed.
        snapshot_retention_days: Days for which Iceberg snapshots of live tables are kept.
        reader_hold_days: Days for which a state of a table is kept for a model that read it and
            goes on from its changes.
        plugins: Values of the tables of plug-ins, by their names in the seam `settings`.
        config_file: SQLMesh's configuration, if the project has one; relative to the root.
        config_warnings: Warnings on it.
        named: Whether the name is a setting, and not the folder's.
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

    @property
    def identity(self) -> ProjectIdentity:
        """By what the project is known again."""
        return ProjectIdentity(self.id, self.name, self.named)

    @property
    def work_dir(self) -> Path:
        """The folder of everything that the package writes by default, `<root>/.vde`."""
        return self.root / ".vde"

    @property
    def resolved_state_url(self) -> str:
        """The state database's URL with secrets filled in."""
        if self.state_url is None:
            return f"sqlite:///{self.work_dir / 'vde.db'}"
        return expand_secrets(self.state_url)

    @property
    def resolved_warehouse(self) -> str:
        """The warehouse's folder or URL; a relative folder is the project's."""
        if self.warehouse is None:
            return str(self.work_dir / "warehouse")
        is_uri = "://" in self.warehouse or self.warehouse.startswith("file:")
        if is_uri or Path(self.warehouse).is_absolute():
            return self.warehouse
        return str(self.root / self.warehouse)

    @property
    def catalog_names(self) -> dict[str, str]:
        """The catalog's name by dialect of views, where it differs from that in Spark."""
        trino = {"trino": self.trino_catalog} if self.trino_catalog else {}
        return {**self.view_catalogs, **trino}

    def time_to_live(self, environment: str) -> timedelta | None:
        """The lifetime of an environment after its last change; None for ever."""
        if self.environment_ttl_days == 0 or environment in self.pinned_environments:
            return None
        return timedelta(days=self.environment_ttl_days)

    def is_protected(self, environment: str) -> bool:
        """Say whether `protected` lists an environment; production is protected in any case."""
        return any(fnmatchcase(environment, pattern) for pattern in self.protected)

    @property
    def start_time(self) -> datetime | None:
        """The first instant (UTC) of `start`."""
        start = self.start
        return None if start is None else datetime.combine(start, time(), tzinfo=timezone.utc)


NOT_SET = ("root", "plugins", "config_file", "config_warnings", "named")
"""Fields of `Settings` that nobody sets."""


def set_in_environment() -> bool:
    """Return whether any setting comes from an environment variable."""
    return any(name.upper().startswith(ENV_PREFIX) for name in os.environ)


def expand_secrets(text: str) -> str:
    """Replace `${NAME}` with environment variables."""

    def value(match: re.Match[str]) -> str:
        name = match.group(1)
        if name not in os.environ:
            raise ProjectError(
                f"the settings name the environment variable {name}, which is not set",
                hint=f"set {name} in the environment",
            )
        remember_secret(os.environ[name])
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", value, text)


def remember_secrets(value: Any, name: str = "") -> None:
    """Remember the secrets of settings: values of `${NAME}`, and those that a name calls secret.

    Args:
        value: Settings, or a part of them.
        name: The part's name.
    """
    if isinstance(value, str):
        for variable in re.findall(r"\$\{(\w+)\}", value):
            remember_secret(os.environ.get(variable))
        if names_secret(name) and "${" not in value:
            remember_secret(value)
        if "://" in value:
            remember_url(value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            remember_secrets(part, str(key))
    elif isinstance(value, list | tuple):
        for part in value:
            remember_secrets(part, name)
    elif is_dataclass(value) and not isinstance(value, type):
        for one in fields(value):
            remember_secrets(getattr(value, one.name), one.name)


def optional_secret(text: str | None) -> str | None:
    """Return a setting with `${NAME}` replaced from the environment, if it is given."""
    if text is None:
        return None
    found = expand_secrets(text)
    for part in (found, *found.split(":")):
        remember_secret(part)
    return found


def with_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Return settings by name with `${NAME}` replaced from the environment."""
    found = {key: expand_secrets(value) for key, value in values.items()}
    for key, value in found.items():
        if names_secret(key):
            remember_secret(value)
    return found


@dataclass(frozen=True, slots=True)
class ProjectIdentity:
    """By what a project is known again.

    Args:
        id: The setting `id`, which `vde init` writes; empty where the settings have none.
        named: Whether the settings say the name; otherwise it is the folder's, which checkouts of
            one project need not share.
    """

    id: str
    name: str
    named: bool

    @property
    def certain(self) -> bool:
        """Whether it is the same in every checkout."""
        return bool(self.id) or self.named

    def is_other(self, owner: ProjectIdentity) -> bool:
        """Say whether this is certainly not the project that something belongs to.

        Two ids decide; else the names do, as a project may get its id later. A project known by its
        folder alone is never refused for it.
        """
        if self.id and owner.id:
            return self.id != owner.id
        return owner.certain and self.name != owner.name

    def may_be_other(self, owner: ProjectIdentity) -> bool:
        """Say whether nothing but a folder's name says that this is the project."""
        same = bool(self.id) and self.id == owner.id
        return not same and self.name != owner.name

    def or_known(self, owner: ProjectIdentity) -> ProjectIdentity:
        """Return the identity of the project to remember from now on."""
        name = self.name if self.named else owner.name
        return ProjectIdentity(self.id or owner.id, name, self.named or owner.named)

    def __str__(self) -> str:
        """Name the project for people, as its settings do."""
        return f"'{self.name}' (id {self.id})" if self.id else f"'{self.name}'"


PYPROJECT = Path("pyproject.toml")


@dataclass(frozen=True, slots=True)
class SettingPlaces:
    """The places of settings.

    Args:
        text: The text of `pyproject.toml`.
        taken: Places of those that another file gives, by dotted name.
    """

    text: str
    taken: Mapping[str, SourceLocation] = field(default_factory=dict)

    def problem(self, key: str, message: str, hint: str) -> ProjectError:
        """Make an error that points at a setting, given by its dotted name."""
        return ProjectError(message, hint=hint, location=self.of(key))

    def of(self, key: str) -> SourceLocation:
        """Return the place of a setting, as well as a search can find it."""
        if key in self.taken:
            return self.taken[key]
        section = ""
        wanted = ["tool", "vde", *(key.split(".") if key else [])]
        section_line = None
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
            if header:
                section = header[1].replace('"', "")
                if section.split(".") == wanted[: len(section.split("."))] and "vde" in section:
                    section_line = number
                continue
            assignment = re.match(r"\s*([\w.\"-]+)\s*=", line)
            if assignment and section:
                path = [*section.split("."), *assignment[1].replace('"', "").split(".")]
                if path[: len(wanted)] == wanted or (len(path) > 2 and path == wanted[: len(path)]):
                    return SourceLocation(PYPROJECT, number)
        return SourceLocation(PYPROJECT, section_line)
