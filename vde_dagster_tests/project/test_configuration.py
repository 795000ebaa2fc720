"""SQLMesh's configuration files: which are read, what they mean, and what is said of them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.configuration.sqlmesh.config import (
    PARTS,
    Config,
    GatewayConfig,
    unused_keys,
)
from vde_dagster.project.loading.load import ProjectLoad
from vde_dagster.project.loading.loader import Project, read_settings
from vde_dagster.project.settings import Settings

WriteProject = Callable[[Mapping[str, str]], Path]
Load = Callable[[Mapping[str, str]], Project]

YAML = """
project: shop
gateways:
  local:
    connection: {type: duckdb}
    variables: {Region: eu, least: 5}
  other:
    variables: {region: us}
default_gateway: LOCAL
model_defaults:
  dialect: duckdb,normalization_strategy=case_sensitive
  start: 2024-01-01
  cron: '@hourly'
  owner: data
  kind: FULL
variables:
  least: 1
  names: [a, b]
  map: {k: 1.5}
  nothing: null
environment_ttl: in 36 hours
snapshot_ttl: in 1 week
pinned_environments: [staging]
ignore_patterns: ['models/old/*']
default_target_environment: dev
model_naming: {infer_names: true}
environment_suffix_target: table
"""
PYTHON = """
import os
from sqlmesh.core.config import (
    AutoCategorizationMode, CategorizerConfig, Config, DuckDBConnectionConfig,
    EnvironmentSuffixTarget, GatewayConfig, ModelDefaultsConfig, NameInferenceConfig, PlanConfig,
)
from sqlmesh.core.notification_target import SlackWebhookNotificationTarget
from sqlmesh.core.user import User, UserRole

base = Config(
    project="shop",
    gateways={
        "local": GatewayConfig(
            connection=DuckDBConnectionConfig(), variables={"Region": "eu", "least": 5}
        ),
        "other": GatewayConfig(variables={"region": "us"}),
    },
    default_gateway="LOCAL",
    model_defaults=ModelDefaultsConfig(
        dialect="duckdb,normalization_strategy=case_sensitive", start="2024-01-01",
        cron="@hourly", owner="data", kind="FULL",
    ),
    variables={"least": 1, "names": ["a", "b"], "map": {"k": 1.5}, "nothing": None},
    environment_ttl="in 36 hours",
    snapshot_ttl="in 1 week",
    pinned_environments={"staging"},
    ignore_patterns=["models/old/*"],
    default_target_environment="dev",
    model_naming=NameInferenceConfig(infer_names=True),
)
config = base.copy(update={"environment_suffix_target": EnvironmentSuffixTarget.TABLE})
"""


def _settings(write: WriteProject, files: Mapping[str, str]) -> Settings:
    return read_settings(write({"models/m.sql": "", **files}))


FORMS = {
    "config.yaml": YAML,
    "config.yml": YAML,
    "sqlmesh.yaml": YAML,
    "sqlmesh.yml": YAML,
    "config.py": PYTHON,
}


@pytest.mark.parametrize("name", FORMS)
def test_every_file_that_sqlmesh_accepts_means_the_same(
    write_project: WriteProject, name: str
) -> None:
    read = _settings(write_project, {name: FORMS[name]})
    assert read.name == "shop"
    assert read.dialect == "duckdb"
    assert read.start == date(2024, 1, 1)
    assert (read.cron, read.owner) == ("@hourly", "data")
    assert read.model_defaults == {"kind": "FULL"}
    assert read.variables == {
        "least": 5,
        "names": ["a", "b"],
        "map": {"k": 1.5},
        "nothing": None,
        "region": "eu",
        "gateway": "local",
    }
    assert (read.environment_ttl_days, read.janitor_grace_hours) == (2, 168)
    assert read.time_to_live("staging") is None
    assert read.time_to_live("dev") is not None
    assert read.ignore_patterns == ("models/old/*",)
    assert read.dagster.default_environment == "dev"
    assert read.infer_names
    assert read.environment_suffix_target == "table"
    assert read.config_file == name
    (warning,) = read.config_warnings if name != "config.py" else (None,)
    assert warning in (None, "the key gateways.*.connection has no effect")


def test_an_unchanged_configuration_is_not_read_again(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project({"models/m.sql": "", "config.py": PYTHON})
    first = ProjectLoad(root, use_cache=True)
    first.save_stats()

    def never(_: Path) -> Any:
        raise AssertionError("read again")

    monkeypatch.setattr(
        "vde_dagster.project.configuration.settings_source.read_settings_and_inputs", never
    )
    assert ProjectLoad(root, use_cache=True).settings == first.settings


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "model_defaults: {dialect: \"{{ env_var('SHOP', 'spark') }}\"}\n"),
        (
            "config.py",
            "import os\nfrom sqlmesh.core.config import Config\n"
            "config = Config(model_defaults={'dialect': os.getenv('SHOP', 'spark')})\n",
        ),
    ],
)
def test_the_environment_and_dotenv_decide_and_are_remembered(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    monkeypatch.setenv("SHOP", "duckdb")
    root = write_project({"models/m.sql": "", name: text})
    assert read_settings(root).dialect == "duckdb"
    monkeypatch.setenv("SHOP", "trino")
    assert read_settings(root).dialect == "trino"
    (root / ".env").write_text("SHOP=snowflake\n")
    assert read_settings(root).dialect == "snowflake"
    monkeypatch.setenv("SQLMESH__MODEL_DEFAULTS__DIALECT", "bigquery")
    assert read_settings(root).dialect == "bigquery"


def test_plans_and_times_take_what_has_a_counterpart(
    write_project: WriteProject, load: Load
) -> None:
    model = "MODEL (name a.m, kind INCREMENTAL_BY_TIME_RANGE (time_column {})); SELECT '1' AS d"
    files = {
        "config.yaml": "model_defaults: {dialect: spark}\ntime_column_format: '%Y%m%d'\n"
        "plan: {forward_only: true, no_diff: true}\nbefore_all: [SELECT 1]\n",
        "models/m.sql": model.format("d"),
        "models/n.sql": model.format("(d, '%Y')").replace("a.m", "a.n"),
    }
    project = load(files)
    assert (project.settings.forward_only, project.settings.no_diff) == (True, True)
    assert project.settings.config_warnings == ()
    formats = {
        str(name): model.kind.interval_column.format
        for name, model in project.models.items()
        if model.kind.interval_column is not None
    }
    assert formats == {"a.m": "%Y%m%d", "a.n": "%Y"}
    wrong = {**files, "config.yaml": "project: shop\ntime_column_format: 'day'\n"}
    with pytest.raises(ProjectError, match="time_column_format") as raised:
        read_settings(write_project(wrong))
    assert str(raised.value.location) == "config.yaml:2"


def test_own_settings_win_key_by_key_and_a_clash_is_said(write_project: WriteProject) -> None:
    own = '[tool.vde]\ndialect = "trino"\nowner = "data"\n[tool.vde.variables]\nleast = 9\n'
    read = _settings(write_project, {"config.yaml": YAML, "pyproject.toml": own})
    assert (read.dialect, read.cron, read.variables["least"]) == ("trino", "@hourly", 9)
    assert read.variables["region"] == "eu"
    assert "pyproject.toml overrides: dialect, variables.least" in (read.config_warnings)


def test_what_is_not_used_is_named_in_one_warning(write_project: WriteProject) -> None:
    text = """
    gateways: {a: {connection: {type: duckdb}, state_schema: s}, b: {connection: {type: trino}}}
    model_defaults: {dialect: spark, optimize_query: false}
    plan: {auto_apply: true}
    users: [{username: me}]
    linter: {enabled: true, rules: [noselectstar]}
    disable_anonymized_analytics: true
    """
    read = _settings(write_project, {"config.yaml": text})
    assert read.config_warnings == (
        "6 keys have no effect: gateways.*.connection, gateways.*.state_schema, "
        "model_defaults.optimize_query, plan.auto_apply, users, "
        "disable_anonymized_analytics",
    )


MISTAKES = {
    "typo": ("variabels: {a: 1}\n", "1", "unknown key 'variabels'", "variables"),
    "typo of a default": (
        "model_defaults:\n  dialect: spark\n  ownr: me\n",
        "3",
        "unknown key 'model_defaults.ownr'",
        "owner",
    ),
    "typo of a gateway": (
        "gateways:\n  a:\n    conection: {}\n",
        "3",
        "unknown key 'gateways.a.conection'",
        "connection",
    ),
    "wrong type": ("model_defaults: 3\n", "1", "key 'model_defaults': input should be", ""),
    "no time": ("environment_ttl: soon\n", "1", "'soon' is not a length of time", "in 1 week"),
    "endless time": (
        f"environment_ttl: in {10**400} days\n",
        "1",
        "is not a length of time",
        "in 1 week",
    ),
    "no gateway": ("gateways: {a: {}}\ndefault_gateway: b\n", "2", "no gateway 'b'", "a"),
    "dialect": ("model_defaults:\n  dialect: spork\n", "2", "unknown SQL dialect", "spark"),
    "cron": ("model_defaults:\n  cron: dayly\n", "2", "setting 'cron'", "@daily"),
    "a default of models": (
        "model_defaults:\n  dialect: spark\n  kind: FUL\n",
        "3",
        "unknown kind 'FUL'",
        "FULL",
    ),
    "an audit": (
        "model_defaults:\n  audits: [3]\n",
        "2",
        "model_defaults.audits",
        "",
    ),
    "suffix": ("environment_suffix_target: catalog\n", "1", "environment_suffix_target", "schema"),
    "Jinja": ("project: {{ nothing }}\n", "1", "invalid Jinja", "env_var"),
    "a list": ("- a\n", "1", "the configuration must be a table", ""),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_a_mistake_has_its_line_and_the_nearest_key(write_project: WriteProject, case: str) -> None:
    text, line, message, hint = MISTAKES[case]
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"models/m.sql": "", "config.yaml": text}))
    (first,) = caught.value.mistakes
    assert str(first.location) == f"config.yaml:{line}"
    assert message in first.message
    assert hint in (first.hint or "")


def test_all_mistakes_are_told_at_once(write_project: WriteProject) -> None:
    text = "plan: {auto_aply: true}\nsnapshot_ttl: [1]\nvarables: {}\n"
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"models/m.sql": "", "config.yaml": text}))
    assert [str(one.location) for one in caught.value.mistakes] == [
        f"config.yaml:{line}" for line in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (
            "from sqlmesh.core.config import Config\n\nconfig = Config(variabels={})\n",
            3,
            "variabels",
        ),
        ("from sqlmesh.core.config import Confg\n", 1, "Confg"),
        ("conf = 1\n", None, "the object 'config' is missing"),
        ("config = 1 / 0\n", 1, "ZeroDivisionError"),
        (
            "from sqlmesh.core.config import Config\nconfig = Config(\n"
            "    environment_ttl='soon',\n)\n",
            3,
            "'soon' is not a length of time",
        ),
    ],
)
def test_a_mistake_in_python_has_its_line(
    write_project: WriteProject, text: str, line: int | None, message: str
) -> None:
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"models/m.sql": "", "config.py": text}))
    place = "config.py" if line is None else f"config.py:{line}"
    assert str(caught.value.location) == place
    assert message in caught.value.message
    assert "\n" not in caught.value.message


def test_a_kind_by_its_name_in_python_is_a_default(
    load: Callable[[Mapping[str, str]], Project],
) -> None:
    config = """
        from sqlmesh.core.config import Config, ModelDefaultsConfig
        from sqlmesh.core.model import ModelKindName
        config = Config(
            model_defaults=ModelDefaultsConfig(dialect="spark", kind=ModelKindName.FULL)
        )
        """
    models = load({"config.py": config, "models/m.sql": "MODEL (name a.m); SELECT 1 AS x"}).models
    assert [model.kind.name for model in models.values()] == ["FULL"]


def test_two_configurations_are_a_mistake(write_project: WriteProject) -> None:
    with pytest.raises(ProjectError) as caught:
        read_settings(write_project({"config.yaml": YAML, "config.py": PYTHON}))
    assert "2 configuration files: config.py, config.yaml" in caught.value.message


def test_ignored_files_are_left_out(load: Load) -> None:
    project = load(
        {
            "config.yaml": "ignore_patterns: ['models/old/*', '*draft*', 'models/deep/**/x.sql']\n",
            "models/a.sql": "MODEL (name s.a); SELECT 1 AS x",
            "models/old/b.sql": "no model",
            "models/c_draft.sql": "no model",
            "models/deep/one/two/x.sql": "no model",
            "models/deep/one/y.sql": "MODEL (name s.y); SELECT 1 AS x",
        }
    )
    assert set(project.models) == {ModelName("s", "a"), ModelName("s", "y")}


def test_names_come_from_paths_where_they_shall(load: Load) -> None:
    project = load(
        {
            "config.yaml": "model_naming: {infer_names: true}\n",
            "models/sales/orders.sql": "MODEL (kind FULL); SELECT 1 AS x",
            "models/sales/items.py": (
                "from sqlmesh import model\n"
                "@model(columns={'a': 'int'})\n"
                "def execute(context, start, end, execution_time, **kwargs):\n    ...\n"
            ),
            "models/sales/named.sql": "MODEL (name other.named); SELECT 1 AS x",
        }
    )
    assert {str(name) for name in project.models} == {"sales.orders", "sales.items", "other.named"}


DEFAULTS = {
    "dialect": "spark",
    "kind": {"name": "INCREMENTAL_BY_TIME_RANGE", "time_column": "day"},
    "start": "2024-01-01 06:00:00",
    "allow_partials": True,
    "interval_unit": "hour",
    "cron": "@hourly",
    "audits": ["not_null(columns := (id))"],
    "physical_properties": {"a.b": "default", "c.d": 1},
    "virtual_properties": {"v": "x"},
    "storage_format": "orc",
    "pre_statements": ["SET spark.app.one = @least"],
    "post_statements": ["SET spark.app.two = 2"],
    "on_virtual_update": ["GRANT SELECT ON VIEW @this_model TO ROLE r"],
    "on_destructive_change": "warn",
    "batch_concurrency": 2,
}


def test_defaults_of_models_hold_for_what_models_do_not_say(load: Load) -> None:
    config = json.dumps({"model_defaults": DEFAULTS, "variables": {"least": 3}})
    project = load(
        {
            "config.yaml": config,
            "models/a.sql": "MODEL (name s.a); SELECT 1 AS id, DATE '2024-01-01' AS day",
            "models/b.sql": """
            MODEL (name s.b, kind FULL, start '2025-01-01', allow_partials false,
                audits (not_null(columns := (other))), physical_properties ('a.b' = 'own'));
            SET spark.app.own = 1;
            SELECT 1 AS id, 2 AS other
            """,
        }
    )
    first, second = (project.models[ModelName("s", name)] for name in "ab")
    assert first.kind.name == "INCREMENTAL_BY_TIME_RANGE"
    assert getattr(first.kind, "on_destructive_change", None) == "warn"
    assert getattr(first.kind, "batch_concurrency", None) == 2
    assert first.start is not None
    assert first.start.hour == 6
    assert first.allow_partials
    assert first.interval_unit == "hour"
    assert [audit.name for audit in first.audits] == ["not_null"]
    assert dict(first.table_properties) == {
        "a.b": "default",
        "c.d": "1",
        "write.format.default": "orc",
    }
    assert first.virtual_properties == (("v", "x"),)
    assert first.pre_statements == ("SET spark.app.one = 3",)
    assert first.post_statements == ("SET spark.app.two = 2",)
    assert len(first.on_virtual_update) == 1
    assert second.kind.name == "FULL"
    assert not second.allow_partials
    assert second.start is not None
    assert second.start.year == 2025
    assert [audit.arguments for audit in second.audits] == [
        (("columns", "(id)"),),
        (("columns", "(other)"),),
    ]
    assert dict(second.table_properties)["a.b"] == "own"
    assert second.pre_statements == ("SET spark.app.one = 3", "SET spark.app.own = 1")


def test_the_default_way_to_refresh_is_that_of_full_models(load: Load) -> None:
    settings = '[tool.vde]\nname = "shop"\n[tool.vde.model_defaults]\nrefresh = "auto"\n'
    project = load(
        {
            "pyproject.toml": settings,
            "models/full.sql": "MODEL (name s.full, kind FULL); SELECT 1 AS id",
            "models/own.sql": "MODEL (name s.own, kind FULL (refresh whole)); SELECT 1 AS id",
            "models/keyed.sql": "MODEL (name s.keyed, kind INCREMENTAL_BY_UNIQUE_KEY "
            "(unique_key id)); SELECT 1 AS id, DATE '2024-01-01' AS day",
            "models/shown.sql": "MODEL (name s.shown, kind VIEW); SELECT 1 AS id",
        }
    )
    ways = {str(name): getattr(one.kind, "refresh", None) for name, one in project.models.items()}
    assert ways == {"s.full": "auto", "s.own": "whole", "s.keyed": "whole", "s.shown": None}


def test_an_unknown_default_way_to_refresh_is_refused(load: Load) -> None:
    settings = '[tool.vde]\nname = "shop"\n[tool.vde.model_defaults]\nrefresh = "sometimes"\n'
    model = {"models/full.sql": "MODEL (name s.full, kind FULL); SELECT 1 AS id"}
    with pytest.raises(ProjectError, match=r"'model_defaults.refresh': 'sometimes' is not a way"):
        load({"pyproject.toml": settings, **model})


PAGE = Path(__file__).parents[2] / "docs" / "sqlmesh.md"


def test_a_macro_in_a_default_of_a_table_is_expanded(load: Load) -> None:
    config = """
model_defaults:
  dialect: spark
  physical_properties: {a: "@IF(@size > 2, 'large', 'small')", b: "you@example.org"}
variables: {size: 3}
"""
    project = load({"config.yaml": config, "models/m.sql": "MODEL (name a.m, kind FULL); SELECT 1"})

    (model,) = project.models.values()
    assert model.table_properties == (("a", "large"), ("b", "you@example.org"))


def test_the_documentation_has_every_key_and_which_do_nothing() -> None:
    page = PAGE.read_text()
    table = page.partition("|---|---|\n")[2].partition("\n\n")[0]
    told = dict(re.findall(r"^\| `(.+?)` \| (.+) \|$", table, re.MULTILINE))
    parts = {"": Config, "gateways.*.": GatewayConfig, **{f"{k}.": v for k, v in PARTS.items()}}
    keys = {
        f"{before}{key}": key in unused_keys(part)
        for before, part in parts.items()
        for key in part.model_fields
        if before or key not in PARTS
    }
    assert {key: what.startswith("nothing: ") for key, what in told.items()} == keys
    assert len(told) == table.count("\n") + 1


def _names(project: Project) -> set[str]:
    return {str(name) for name, model in project.models.items() if not model.kind.is_external}


@pytest.mark.parametrize(
    "config",
    [
        "gateways: {a: {connection: {type: snowflake, database: WH}}}\n",
        "default_connection: {type: duckdb, database: data/wh.duckdb}\n",
        "default_connection: {type: duckdb, catalogs: {wh: a.db, crm: b.db}}\n",
        "model_defaults: {dialect: spark}\n",
    ],
)
def test_the_own_catalog_is_left_out_of_names(load: Load, config: str) -> None:
    project = load(
        {
            "config.yaml": config,
            "models/a.sql": "MODEL (name wh.sales.a); SELECT 1 AS x",
            "models/b.sql": "MODEL (kind FULL, dialect 'spark, normalization_strategy=lowercase', "
            "name 'wh'.'sales'.'b'); SELECT x FROM wh.sales.a",
        }
    )
    assert _names(project) == {"sales.a", "sales.b"}
    assert project.models[ModelName("sales", "b")].depends_on == (ModelName("sales", "a"),)


def test_other_catalogs_keep_models_apart_and_are_read(load: Load) -> None:
    project = load(
        {
            "config.py": (
                "from sqlmesh.core.config import Config, DuckDBConnectionConfig\n"
                "config = Config(default_connection=DuckDBConnectionConfig("
                "catalogs={'wh': 'a.db', 'gold': 'b.db'}))\n"
            ),
            "models/a.sql": "MODEL (name wh.sales.a); SELECT x FROM crm.sales.leads",
            "models/b.sql": "MODEL (name gold.sales.a); SELECT x FROM sales.a",
            "models/c.sql": "MODEL (name sales.c); SELECT x FROM gold.sales.a",
        }
    )
    assert _names(project) == {"sales.a", "gold__sales.a", "sales.c"}
    leads = project.models[ModelName("crm__sales", "leads")]
    assert leads.kind.is_external
    assert leads.table == ("crm", "sales", "leads")
    assert project.models[ModelName("sales", "c")].depends_on == (ModelName("gold__sales", "a"),)
    again = load({})
    assert again.models[ModelName("crm__sales", "leads")].table == ("crm", "sales", "leads")


def test_a_setting_says_which_catalogs_there_are(load: Load) -> None:
    project = load(
        {
            "pyproject.toml": '[tool.vde.catalogs]\nprod = ""\nCRM = "crm_lake"\n',
            "models/a.sql": "MODEL (name prod.sales.a); SELECT x FROM crm.sales.leads",
        }
    )
    assert _names(project) == {"sales.a"}
    leads = project.models[ModelName("crm_lake__sales", "leads")]
    assert leads.table == ("crm_lake", "sales", "leads")


def test_schemas_of_models_may_have_tables_that_others_write(load: Load) -> None:
    project = load(
        {
            "config.yaml": "model_defaults: {dialect: spark}\n",
            "models/a.sql": "MODEL (name sales.a); SELECT x FROM sales.raw",
        }
    )
    assert project.models[ModelName("sales", "raw")].kind.is_external


def test_external_models_are_those_of_the_default_gateway(load: Load) -> None:
    project = load(
        {
            "config.yaml": "gateways: {one: {}, two: {}}\ndefault_gateway: two\n",
            "external_models.yaml": """
            - {name: raw.t, columns: {base: int}}
            - {name: raw.t, columns: {first: int}, gateway: one}
            - {name: raw.t, columns: {second: int}, gateway: TWO}
            - {name: raw.u, columns: {base: int}}
            """,
            "models/m.sql": "MODEL (name a.m); SELECT second FROM raw.t, raw.u",
        }
    )
    table = project.models[ModelName("raw", "t")]
    assert [column.name for column in table.columns] == ["second"]
    assert ModelName("raw", "u") in project.models


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("config.yaml", "gateways: {connection: {type: duckdb}, variables: {a: 1}}\n"),
        ("config.yaml", "gateway: {only: {variables: {a: 1}}}\n"),
        (
            "config.py",
            "from sqlmesh.core.config import Config, GatewayConfig\n"
            "config = Config(gateways=GatewayConfig(variables={'a': 1}))\n",
        ),
    ],
)
def test_one_gateway_needs_no_name(write_project: WriteProject, name: str, text: str) -> None:
    assert _settings(write_project, {name: text}).variables["a"] == 1


def test_a_persons_own_configuration_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SHOP_DIALECT", raising=False)
    root, own = tmp_path / "shop", tmp_path / "home" / ".sqlmesh" / "config.yaml"
    root.mkdir()
    (root / "config.yaml").write_text(
        "model_defaults: {dialect: \"{{ env_var('SHOP_DIALECT') }}\", start: 2024-01-01}\n"
        "variables: {a: 1, b: 1}\nbefore_all: [SELECT 1]\n"
    )
    with pytest.raises(ProjectError):
        read_settings(root)
    own.parent.mkdir(parents=True)
    own.write_text(
        "env_vars: {SHOP_DIALECT: duckdb}\nvariables: {b: 2}\nbefore_all: [SELECT 2]\n"
        "pinned_environments: [demo]\n"
        "notification_targets: [{type: console, notify_on: [run_end]}]\n"
    )

    settings = read_settings(root)

    assert settings.dialect == "duckdb"
    assert settings.variables == {"a": 1, "b": 2}
    assert settings.before_all == ("SELECT 2",)
    assert "SHOP_DIALECT" not in os.environ

    (root / "config.yaml").rename(root / "old.yaml")
    (root / "config.py").write_text(
        "from sqlmesh.core.config import Config, ModelDefaultsConfig\n"
        "defaults = ModelDefaultsConfig(dialect='spark')\n"
        "targets = [{'type': 'console', 'notify_on': ['apply_end']}]\n"
        "config = Config(model_defaults=defaults, before_all=['SELECT 1'],\n"
        "    pinned_environments={'staging'}, notification_targets=targets)\n"
    )
    settings = read_settings(root)
    assert settings.before_all == ("SELECT 1", "SELECT 2")
    assert settings.pinned_environments == ("demo", "staging")
    assert list(settings.plugins["notify"]["targets"]) == ["console", "console_2"]

    own.write_text("model_defaults:\n  dialect: duckdb\n  nothing: 1\n")
    with pytest.raises(ProjectError) as raised:
        read_settings(root)
    assert str(raised.value.location) == f"{own}:3"


def test_two_projects_in_one_process_share_no_modules(tmp_path: Path) -> None:
    text = (
        "from pathlib import Path\n"
        "from shared.names import WHO\n"
        "from sqlmesh.core.config import Config, ModelDefaultsConfig\n"
        "where = (Path(__file__).parent / 'where.txt').read_text()\n"
        "config = Config(model_defaults=ModelDefaultsConfig(dialect='spark'),\n"
        "    variables={'who': WHO, 'where': where})\n"
    )
    for name in ("one", "two"):
        (tmp_path / name / "shared").mkdir(parents=True)
        (tmp_path / name / "config.py").write_text(text)
        (tmp_path / name / "where.txt").write_text(f"in {name}")
        (tmp_path / name / "shared" / "names.py").write_text(f"WHO = '{name}'\n")

    read = [read_settings(tmp_path / name).variables for name in ("one", "two", "one")]

    assert [(one["who"], one["where"]) for one in read] == [
        ("one", "in one"),
        ("two", "in two"),
        ("one", "in one"),
    ]

    (tmp_path / "one" / "where.txt").write_text("elsewhere")
    (tmp_path / "one" / "shared" / "names.py").write_text("WHO = 'another'\n")
    assert read_settings(tmp_path / "one").variables == {"who": "another", "where": "elsewhere"}
