"""SQLMesh's configuration as types: its keys, and what each one does here.

Project files import these as `sqlmesh.core.config`. YAML files are checked by them too, so that
both have the same keys (https://sqlmesh.readthedocs.io/en/stable/reference/configuration/).
"""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from vde_dagster.plugins.sqlmesh.values import choices


@dataclass(frozen=True, slots=True)
class Does:
    """What a key does here.

    Args:
        what: The setting or behaviour it becomes, or why it has none.
        used: Whether it does anything; an unused key is named in a warning.
    """

    what: str
    used: bool = True


def _unused(why: str) -> Does:
    return Does(why, used=False)


class Shape(BaseModel):
    """A part of the configuration; a key that SQLMesh does not know is an error."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def dict(self, **options: Any) -> Any:
        """Return the values as a table."""
        return self.model_dump(**options)

    def copy(self, *, update: Any = None, **options: Any) -> Any:
        """Return a copy with other values."""
        return self.model_copy(update=update, **options)


class Anything(Shape):
    """A part that this package never looks into, such as a connection."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)


class Connection(Anything):
    """A connection, whose type is its class's name: `GCPPostgresConnectionConfig`."""

    def __init__(self, **given: Any) -> None:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", type(self).__name__)
        type_ = "_".join(words).lower().removesuffix("_connection_config")
        super().__init__(**{"type": _TYPES.get(type_, type_), **given})


_TYPES = {"duck_db": "duckdb", "mother_duck": "motherduck", "big_query": "bigquery"}


class EnvironmentSuffixTarget(str, enum.Enum):
    """The part of a view's name that has the environment's name."""

    SCHEMA = "schema"
    TABLE = "table"
    CATALOG = "catalog"


class VirtualEnvironmentMode(str, enum.Enum):
    """Which environments have views."""

    FULL = "full"
    DEV_ONLY = "dev_only"


TableNamingConvention = choices(
    "TableNamingConvention", "schema_and_table", "table_only", "hash_md5"
)
AutoCategorizationMode = choices("AutoCategorizationMode", "full", "semi", "off")


class CategorizerConfig(Shape):
    """The mode for each sort of model."""

    external: Any = AutoCategorizationMode.FULL
    python: Any = AutoCategorizationMode.FULL
    sql: Any = AutoCategorizationMode.FULL
    seed: Any = AutoCategorizationMode.FULL

    @classmethod
    def all_off(cls) -> CategorizerConfig:
        """Set all to OFF."""
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.OFF))

    @classmethod
    def all_semi(cls) -> CategorizerConfig:
        """Set all to SEMI."""
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.SEMI))

    @classmethod
    def all_full(cls) -> CategorizerConfig:
        """Set all to FULL."""
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.FULL))


_AS_PROPERTY = "default of the model's property"
_OF_KINDS = "default of the kind's property, for kinds that have it"
_STATEMENTS = "run for every model, before its own statements of that sort"
_FORMATTING = "whether `vde format` touches models; their property wins"
_JOINED = "joined with the model's, key by key"


class ModelDefaultsConfig(Shape):
    """Properties of models that do not give them."""

    kind: Annotated[Any, Does(_AS_PROPERTY)] = None
    dialect: Annotated[str | None, Does("`dialect`")] = None
    cron: Annotated[str | None, Does("`cron`")] = None
    owner: Annotated[str | None, Does("`owner`")] = None
    start: Annotated[Any, Does("`start`; an instant or a relative date, of each model")] = None
    table_format: Annotated[str | None, Does(_AS_PROPERTY)] = None
    storage_format: Annotated[str | None, Does(_AS_PROPERTY)] = None
    on_destructive_change: Annotated[Any, Does(_OF_KINDS)] = None
    on_additive_change: Annotated[Any, Does(_OF_KINDS)] = None
    physical_properties: Annotated[dict[str, Any] | None, Does(_JOINED)] = None
    virtual_properties: Annotated[dict[str, Any] | None, Does(_JOINED)] = None
    session_properties: Annotated[Any, _unused("models share one Spark session")] = None
    audits: Annotated[list[Any] | None, Does("of every model, beside its own")] = None
    optimize_query: Annotated[Any, _unused("Spark runs the query in its author's words")] = None
    allow_partials: Annotated[str | bool | None, Does(_AS_PROPERTY)] = None
    interval_unit: Annotated[Any, Does(_AS_PROPERTY)] = None
    enabled: Annotated[str | bool | None, Does(_AS_PROPERTY)] = None
    formatting: Annotated[Any, Does(_FORMATTING)] = None
    batch_concurrency: Annotated[int | None, Does(_OF_KINDS)] = None
    pre_statements: Annotated[list[Any] | None, Does(_STATEMENTS)] = None
    post_statements: Annotated[list[Any] | None, Does(_STATEMENTS)] = None
    on_virtual_update: Annotated[list[Any] | None, Does(_STATEMENTS)] = None


_ONE_ENGINE = "there is one engine: Spark, under `[tool.vde.spark]`"
_TESTS = "tests run on the same Spark"
_SCHEDULES = "Dagster's schedules, or cron and `vde run`"
_USERS = "who may do what is the business of Dagster and the catalog"
_LOADERS = "sources are a seam of their own, see docs/extending.md"
_PHYSICAL = "physical tables of `sales` are in `vde__sales`, in every environment"


class GatewayConfig(Shape):
    """A connection to an engine, with variables of its own."""

    connection: Annotated[
        Any, _unused(_ONE_ENGINE + "; its default catalog is the project's own")
    ] = None
    state_connection: Annotated[Any, _unused("`state_url`")] = None
    test_connection: Annotated[Any, _unused(_TESTS)] = None
    scheduler: Annotated[Any, _unused(_SCHEDULES)] = None
    state_schema: Annotated[Any, _unused("`state_url`")] = None
    variables: Annotated[dict[str, Any], Does("win over those of the root")] = Field(
        default_factory=dict
    )
    model_defaults: Annotated[ModelDefaultsConfig | None, Does("win over those of the root")] = None


class NameInferenceConfig(Shape):
    """How names come from paths."""

    infer_names: Annotated[bool, Does("`infer_names`")] = False


class PlanConfig(Shape):
    """How plans are made."""

    forward_only: Annotated[bool, Does("`forward_only`")] = False
    auto_categorize_changes: Annotated[
        Any, _unused("what a change means is computed from the query")
    ] = None
    include_unmodified: Annotated[
        Any, _unused("views of unchanged models cost nothing, and are always made")
    ] = False
    enable_preview: Annotated[Any, _unused("previews are always made, of branches")] = None
    no_diff: Annotated[bool, Does("`no_diff`")] = False
    no_prompts: Annotated[Any, _unused("plans never ask")] = True
    auto_apply: Annotated[Any, _unused("`vde apply --yes`, or `dagster.auto_apply`")] = False
    use_finalized_state: Annotated[
        Any, _unused("a publication is one transaction: each state is final")
    ] = False
    always_recreate_environment: Annotated[Any, _unused("`vde drop ENV`, then plan")] = False


class LinterConfig(Shape):
    """The rules of the linter."""

    enabled: Annotated[bool, Does("`linter.enabled`")] = False
    rules: Annotated[list[str] | str | None, Does("`linter.rules`")] = None
    warn_rules: Annotated[list[str] | str | None, Does("`linter.warn_rules`")] = None
    ignored_rules: Annotated[list[str] | str | None, Does("`linter.ignored_rules`")] = None


class FormatConfig(Shape):
    """The layout of `vde format`."""

    normalize: Annotated[Any, _unused("names stay as they are written")] = False
    pad: Annotated[int, Does("`format.pad`")] = 2
    indent: Annotated[int, Does("`format.indent`")] = 2
    normalize_functions: Annotated[str | bool | None, Does("`format.normalize_functions`")] = None
    leading_comma: Annotated[bool, Does("`format.leading_comma`")] = False
    max_text_width: Annotated[int, Does("`format.max_text_width`")] = 80
    append_newline: Annotated[Any, _unused("files always end with a line end")] = False
    no_rewrite_casts: Annotated[Any, _unused("casts always stay as they are written")] = False


class Config(Shape):
    """The whole configuration."""

    gateways: Annotated[Any, Does("the default's variables and model defaults")] = Field(
        default_factory=dict
    )
    gateway: Annotated[Any, Does("another name of `gateways`")] = Field(default_factory=dict)
    default_gateway: Annotated[str, Does("whose variables and model defaults hold")] = ""
    default_connection: Annotated[Any, _unused(_ONE_ENGINE)] = None
    default_test_connection: Annotated[Any, _unused(_TESTS)] = None
    default_scheduler: Annotated[Any, _unused(_SCHEDULES)] = None
    notification_targets: Annotated[Any, _unused("Dagster's sensors and alerts")] = None
    project: Annotated[str, Does("`name`")] = ""
    snapshot_ttl: Annotated[str, Does("`janitor_grace_hours`")] = ""
    environment_ttl: Annotated[str | None, Does("`environment_ttl_days`; null: 0, for ever")] = ""
    ignore_patterns: Annotated[list[str], Does("`ignore_patterns`")] = Field(default_factory=list)
    time_column_format: Annotated[str | None, Does("`time_column_format`")] = None
    users: Annotated[Any, _unused(_USERS)] = None
    username: Annotated[Any, _unused(_USERS)] = ""
    model_defaults: Annotated[ModelDefaultsConfig, Does("see below")] = Field(
        default_factory=ModelDefaultsConfig
    )
    pinned_environments: Annotated[set[str], Does("`pinned_environments`")] = Field(
        default_factory=set
    )
    loader: Annotated[Any, _unused(_LOADERS)] = None
    loader_kwargs: Annotated[Any, _unused(_LOADERS)] = None
    env_vars: Annotated[Any, _unused("set them in the environment, or in `.env`")] = None
    physical_schema_mapping: Annotated[Any, _unused(_PHYSICAL)] = None
    physical_schema_override: Annotated[Any, _unused(_PHYSICAL)] = None
    physical_table_naming_convention: Annotated[
        Any, _unused("names of physical tables are not to be read")
    ] = None
    environment_suffix_target: Annotated[
        EnvironmentSuffixTarget, Does("`environment_suffix_target`")
    ] = EnvironmentSuffixTarget.SCHEMA
    environment_catalog_mapping: Annotated[
        Any, _unused("all environments are in the project's one catalog")
    ] = None
    virtual_environment_mode: Annotated[
        VirtualEnvironmentMode, Does("`virtual_environment_mode`")
    ] = VirtualEnvironmentMode.FULL
    gateway_managed_virtual_layer: Annotated[Any, _unused(_ONE_ENGINE)] = None
    infer_python_dependencies: Annotated[Any, _unused("install what models import")] = None
    default_target_environment: Annotated[
        str, Does("`dagster.default_environment`, also of `vde plan`")
    ] = "prod"
    log_limit: Annotated[Any, _unused("there are no log files")] = None
    cicd_bot: Annotated[Any, _unused("`vde plan` in a workflow of your own")] = None
    run: Annotated[Any, _unused("runs wait for a lease of their own accord")] = None
    format: Annotated[FormatConfig, Does("see below")] = Field(default_factory=FormatConfig)
    ui: Annotated[Any, _unused("the user interface is Dagster's")] = None
    plan: Annotated[PlanConfig, Does("see below")] = Field(default_factory=PlanConfig)
    migration: Annotated[Any, _unused("the state is migrated when it is opened")] = None
    model_naming: Annotated[NameInferenceConfig, Does("see below")] = Field(
        default_factory=NameInferenceConfig
    )
    variables: Annotated[dict[str, Any], Does("`variables`")] = Field(default_factory=dict)
    disable_anonymized_analytics: Annotated[Any, _unused("nothing is sent anywhere")] = None
    before_all: Annotated[list[str] | None, Does("`before_all`")] = None
    after_all: Annotated[list[str] | None, Does("`after_all`")] = None
    linter: Annotated[LinterConfig, Does("see below")] = Field(default_factory=LinterConfig)
    janitor: Annotated[Any, _unused("`vde janitor` and the settings of its times")] = None
    cache_dir: Annotated[Any, _unused("the cache is `.vde/cache`")] = None
    dbt: Annotated[Any, _unused("projects of dbt are not loaded")] = None


PARTS: dict[str, type[Shape]] = {
    "model_defaults": ModelDefaultsConfig,
    "plan": PlanConfig,
    "model_naming": NameInferenceConfig,
    "linter": LinterConfig,
    "format": FormatConfig,
}
"""Keys of the root that have keys of their own."""


def does(part: type[Shape]) -> dict[str, Does]:
    """Return what the keys of a part do, in order."""
    return {
        name: next(item for item in field.metadata if isinstance(item, Does))
        for name, field in part.model_fields.items()
    }


UserRole = choices("UserRole", "required_approver")
NotificationEvent = choices(
    "NotificationEvent",
    *(
        f"{what}_{when}"
        for what in ("apply", "run", "migration")
        for when in ("start", "end", "failure")
    ),
    "audit_failure",
)
MergeMethod = choices("MergeMethod", "merge", "squash", "rebase")


def __getattr__(name: str) -> Any:
    """Make the classes of connections, schedulers, users and bots when they are asked for."""
    if name.endswith("ConnectionConfig"):
        return type(name, (Connection,), {})
    if name == "User" or name.endswith(("Config", "NotificationTarget", "Options")):
        return type(name, (Anything,), {})
    raise AttributeError(f"module 'sqlmesh.core.config' has no attribute '{name}'")
