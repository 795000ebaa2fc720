"""Types of SQLMesh's configuration, including keys that have no effect here.

Project files import these types as `sqlmesh.core.config`. YAML files are checked with the same
types (https://sqlmesh.readthedocs.io/en/stable/reference/configuration/).
"""

from __future__ import annotations

import enum
import re
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from vde_dagster.project.python.sqlmesh.values import choices

Unused = Annotated[Any, "unused"]
"""Type of keys without an effect, which cause a warning; docs/sqlmesh.md lists the reasons."""


class Shape(BaseModel):
    """Base class of a configuration's parts, which refuses unknown keys."""

    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)

    def dict(self, **options: Any) -> Any:
        return self.model_dump(**options)

    def copy(self, *, update: Any = None, **options: Any) -> Any:
        return self.model_copy(update=update, **options)


class Anything(Shape):
    """A part of the configuration that accepts any keys, such as a connection."""

    model_config = ConfigDict(extra="allow", arbitrary_types_allowed=True)


class Connection(Anything):
    """Connection to an engine. A subclass has the engine's name: `GCPPostgresConnectionConfig`."""

    def __init__(self, **given: Any) -> None:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", type(self).__name__)
        type_ = "_".join(words).lower().removesuffix("_connection_config")
        super().__init__(**{"type": _TYPES.get(type_, type_), **given})


_TYPES = {"duck_db": "duckdb", "mother_duck": "motherduck", "big_query": "bigquery"}


class NotificationTarget(Anything):
    """Receiver of messages. A subclass has the service's name: `SlackApiNotificationTarget`."""

    def __init__(self, **given: Any) -> None:
        words = re.findall(r"[A-Z]+(?![a-z])|[A-Z][a-z]+", type(self).__name__)
        type_ = "_".join(words).lower().removesuffix("_notification_target")
        super().__init__(**{"type": type_.removeprefix("basic_"), **given})


class EnvironmentSuffixTarget(str, enum.Enum):
    """Part of a view's name that contains the environment's name."""

    SCHEMA = "schema"
    TABLE = "table"
    CATALOG = "catalog"


class VirtualEnvironmentMode(str, enum.Enum):
    """Environments that have views: `full` means all, `dev_only` all except production."""

    FULL = "full"
    DEV_ONLY = "dev_only"


TableNamingConvention = choices(
    "TableNamingConvention", "schema_and_table", "table_only", "hash_md5"
)
AutoCategorizationMode = choices("AutoCategorizationMode", "full", "semi", "off")


class CategorizerConfig(Shape):
    """SQLMesh's modes of categorizing changes, by type of model. They have no effect here."""

    external: Any = AutoCategorizationMode.FULL
    python: Any = AutoCategorizationMode.FULL
    sql: Any = AutoCategorizationMode.FULL
    seed: Any = AutoCategorizationMode.FULL

    @classmethod
    def all_off(cls) -> CategorizerConfig:
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.OFF))

    @classmethod
    def all_semi(cls) -> CategorizerConfig:
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.SEMI))

    @classmethod
    def all_full(cls) -> CategorizerConfig:
        return cls(**dict.fromkeys(cls.model_fields, AutoCategorizationMode.FULL))


class ModelDefaultsConfig(Shape):
    kind: Any = None
    dialect: str | None = None
    cron: str | None = None
    cron_tz: Any = None
    owner: str | None = None
    start: Any = None
    table_format: str | None = None
    storage_format: str | None = None
    on_destructive_change: Any = None
    on_additive_change: Any = None
    physical_properties: dict[str, Any] | None = None
    virtual_properties: dict[str, Any] | None = None
    session_properties: Unused = None
    audits: list[Any] | None = None
    optimize_query: Unused = None
    allow_partials: str | bool | None = None
    interval_unit: Any = None
    enabled: str | bool | None = None
    formatting: Any = None
    batch_concurrency: int | None = None
    pre_statements: list[Any] | None = None
    post_statements: list[Any] | None = None
    on_virtual_update: list[Any] | None = None
    gateway: Unused = None


class GatewayConfig(Shape):
    """A gateway: a connection to an engine, with variables and model defaults."""

    connection: Unused = None
    state_connection: Unused = None
    test_connection: Unused = None
    scheduler: Unused = None
    state_schema: Unused = None
    variables: dict[str, Any] = Field(default_factory=dict)
    model_defaults: ModelDefaultsConfig | None = None


class NameInferenceConfig(Shape):
    """Setting that names models after the paths of their files."""

    infer_names: bool = False


class PlanConfig(Shape):
    forward_only: bool = False
    auto_categorize_changes: Unused = None
    include_unmodified: Unused = False
    enable_preview: Unused = None
    no_diff: bool = False
    no_prompts: Unused = True
    auto_apply: Unused = False
    use_finalized_state: Unused = False
    always_recreate_environment: Unused = False


class LinterConfig(Shape):
    enabled: bool = False
    rules: list[str] | str | None = None
    warn_rules: list[str] | str | None = None
    ignored_rules: list[str] | str | None = None
    use_project_index: Unused = False


class FormatConfig(Shape):
    normalize: Unused = False
    pad: int = 2
    indent: int = 2
    normalize_functions: str | bool | None = None
    leading_comma: bool = False
    max_text_width: int = 80
    append_newline: Unused = False
    no_rewrite_casts: Unused = False


class Config(Shape):
    """A SQLMesh configuration, as `config.yaml` or `config.py` defines it."""

    gateways: Any = Field(default_factory=dict)
    gateway: Any = Field(default_factory=dict)
    default_gateway: str = ""
    default_connection: Unused = None
    default_test_connection: Unused = None
    default_scheduler: Unused = None
    notification_targets: Any = None
    project: str = ""
    snapshot_ttl: str = ""
    environment_ttl: str | None = ""
    ignore_patterns: list[str] = Field(default_factory=list)
    time_column_format: str | None = None
    users: Any = None
    username: Unused = ""
    model_defaults: ModelDefaultsConfig = Field(default_factory=ModelDefaultsConfig)
    pinned_environments: set[str] = Field(default_factory=set)
    loader: Unused = None
    loader_kwargs: Unused = None
    env_vars: Unused = None
    physical_schema_mapping: Unused = None
    physical_schema_override: Unused = None
    physical_table_naming_convention: Unused = None
    environment_suffix_target: EnvironmentSuffixTarget = EnvironmentSuffixTarget.SCHEMA
    environment_catalog_mapping: Unused = None
    virtual_environment_mode: VirtualEnvironmentMode = VirtualEnvironmentMode.FULL
    gateway_managed_virtual_layer: Unused = None
    infer_python_dependencies: Unused = None
    default_target_environment: str = "prod"
    log_limit: Unused = None
    cicd_bot: Unused = None
    run: Unused = None
    format: FormatConfig = Field(default_factory=FormatConfig)
    ui: Unused = None
    plan: PlanConfig = Field(default_factory=PlanConfig)
    migration: Unused = None
    model_naming: NameInferenceConfig = Field(default_factory=NameInferenceConfig)
    variables: dict[str, Any] = Field(default_factory=dict)
    disable_anonymized_analytics: Unused = None
    before_all: list[str] | None = None
    after_all: list[str] | None = None
    linter: LinterConfig = Field(default_factory=LinterConfig)
    janitor: Unused = None
    cache_dir: Unused = None
    dbt: Unused = None


PARTS: dict[str, type[Shape]] = {
    "model_defaults": ModelDefaultsConfig,
    "plan": PlanConfig,
    "model_naming": NameInferenceConfig,
    "linter": LinterConfig,
    "format": FormatConfig,
}


def unused_keys(part: type[Shape]) -> set[str]:
    """Return the keys of a configuration class that are accepted but have no effect."""
    return {name for name, field in part.model_fields.items() if "unused" in field.metadata}


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
    """Create classes such as `DuckDBConnectionConfig` when a project imports them."""
    if name.endswith("ConnectionConfig"):
        return type(name, (Connection,), {})
    if name.endswith("NotificationTarget"):
        return type(name, (NotificationTarget,), {})
    if name == "User" or name.endswith(("Config", "Options")):
        return type(name, (Anything,), {})
    raise AttributeError(f"module 'sqlmesh.core.config' has no attribute '{name}'")
