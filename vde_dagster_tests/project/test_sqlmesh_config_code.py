"""A `config.py` of SQLMesh with processes, the environment, adapters; and every field there is."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.configuration.sqlmesh.config import Anything, Shape
from vde_dagster.project.configuration.sqlmesh.formats import read_config
from vde_dagster.project.loading.loader import Project, read_settings
from vde_dagster.project.python.sqlmesh.modules import sqlmesh_module

WriteProject = Callable[[Mapping[str, str]], Path]
Load = Callable[[Mapping[str, str]], Project]
FIELDS = Path(__file__).parents[1] / "fixtures" / "sqlmesh_fields"
MODEL = {"models/m.sql": "MODEL (name db.m, kind FULL); SELECT 1 AS a"}
HEAD = "import os, subprocess, sys\nfrom sqlmesh.core.config import Config, ModelDefaultsConfig\n"
END = (
    "\nconfig = Config(model_defaults=ModelDefaultsConfig(dialect='spark', start='2024-01-01'), "
    "default_target_environment=branch)\n"
)
ECHO = "[sys.executable, '-c', 'print(\"main\")']"


@pytest.mark.parametrize(
    ("code", "variables"),
    [
        (f"branch = subprocess.check_output({ECHO}, text=True).strip()", set()),
        ("branch = subprocess.check_output(['echo', 'main'], text=True).strip()", {"PATH"}),
        (f"branch = subprocess.check_output({ECHO}, env=os.environ, text=True).strip()", {"*"}),
        (
            f"given = {{**os.environ, 'A': 'b'}}\n"
            f"branch = subprocess.check_output({ECHO}, env=given, text=True).strip()",
            {"*"},
        ),
        (
            f"branch = subprocess.check_output({ECHO}, env=os.environ.copy(), text=True).strip()",
            {"*"},
        ),
        (f"branch = subprocess.check_output({ECHO}, env={{'A': 'b'}}, text=True).strip()", set()),
        ("branch = os.popen('echo main').read().strip()", set()),
        ("branch = os.environb[b'VDE_BRANCH'].decode()", {"VDE_BRANCH"}),
        ("branch = os.environb.get(b'VDE_BRANCH', b'').decode()", {"VDE_BRANCH"}),
        ("branch = os.getenvb(b'VDE_BRANCH').decode()", {"VDE_BRANCH"}),
        ("branch = 'main' if b'VDE_BRANCH' in os.environb else ''", {"VDE_BRANCH"}),
        ("branch = dict(os.environb)[b'VDE_BRANCH'].decode()", {"VDE_BRANCH", "*"}),
        ("branch = os.getenv('VDE_BRANCH')", {"VDE_BRANCH"}),
        ("branch = os.environ.setdefault('VDE_BRANCH', 'x')", {"VDE_BRANCH"}),
        ("branch = (os.environ | {'A': 'b'})['VDE_BRANCH']", {"*"}),
        ("branch = 'main' if len(os.environ) else ''", {"*"}),
        ("branch = os.path.expandvars('$VDE_BRANCH')", {"VDE_BRANCH"}),
        ("import getpass\nbranch = 'main' if getpass.getuser() else ''", {"LOGNAME"}),
        (
            "for line in open(os.path.join(os.path.dirname(__file__), '.env')):\n"
            "    name, _, value = line.strip().partition('=')\n"
            "    os.environ[name] = value\n"
            "branch = os.environ['VDE_FROM_FILE']",
            {"VDE_FROM_FILE"},
        ),
    ],
)
def test_a_configuration_may_start_processes_and_read_the_environment_in_any_way(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch, code: str, variables: set[str]
) -> None:
    monkeypatch.setenv("LOGNAME", "me")
    monkeypatch.setenv("VDE_FROM_FILE", "before")
    root = write_project({**MODEL, "config.py": f"{HEAD}{code}{END}", ".env": "VDE_FROM_FILE=main"})
    monkeypatch.setenv("VDE_BRANCH", "main")
    written = read_config(root)
    assert written is not None
    assert written.values["default_target_environment"] == "main"
    assert variables <= written.seen.variables
    assert all(isinstance(name, str) for name in written.seen.variables)
    monkeypatch.delenv("VDE_BRANCH")


def test_a_secret_of_the_environment_stays_out_of_settings_beside_a_process(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = (
        "from sqlmesh.core.config import SlackWebhookNotificationTarget\n"
        "branch = subprocess.run(['echo', 'main'], capture_output=True, text=True).stdout.strip()\n"
        "hook = os.environb[b'HOOK'].decode()"
    )
    end = END.replace(
        "default_target",
        "notification_targets=[SlackWebhookNotificationTarget(url=hook, "
        "notify_on=['apply_failure'])], default_target",
    )
    root = write_project({**MODEL, "config.py": f"{HEAD}{code}{end}"})
    monkeypatch.setenv("HOOK", "https://hooks.example/t0psecret")
    settings = read_settings(root)
    assert "t0psecret" not in repr(settings.plugins)
    assert "${HOOK}" in repr(settings.plugins)


RECORDED = {path.stem: json.loads(path.read_text()) for path in sorted(FIELDS.glob("*.json"))}
CLASSES = [(version, name) for version, found in RECORDED.items() for name in found]


@pytest.mark.parametrize(("version", "name"), CLASSES, ids=lambda one: one)
def test_every_field_of_sqlmeshs_configuration_is_known(version: str, name: str) -> None:
    module, _, label = name.rpartition(".")
    ours: type[Shape] = getattr(sqlmesh_module(module, [label]), label)
    if not issubclass(ours, Anything):
        missing = set(RECORDED[version][name]) - set(ours.model_fields)
        assert missing == set(), f"SQLMesh {version} has more fields: {sorted(missing)}"


def test_the_recorded_fields_are_those_of_an_installed_sqlmesh() -> None:
    """A newer SQLMesh with other fields fails here; `list_fields.py` records them."""
    assert set(RECORDED["0.236.4"]) >= {"sqlmesh.core.config.root.Config"}
    if find_spec("sqlmesh") is None:
        return
    listed = subprocess.run(
        [sys.executable, FIELDS / "list_fields.py"], capture_output=True, check=True, text=True
    )
    known = {name: set(fields) for found in RECORDED.values() for name, fields in found.items()}
    for name, fields in json.loads(listed.stdout).items():
        assert set(fields) <= known.get(name, set()), name


KEYS = """
gateways:
  g:
    connection: {type: spark}
    model_defaults: {cron_tz: Europe/Paris}
model_defaults: {dialect: spark, cron: '0 7 * * *', cron_tz: Asia/Tokyo, gateway: g}
linter: {enabled: true, use_project_index: true}
"""


def test_a_time_zone_of_all_crons_is_the_default_of_models(
    write_project: WriteProject, load: Load
) -> None:
    own = "MODEL (name db.own, kind FULL, cron_tz 'UTC'); SELECT 1 AS a"
    project = load({**MODEL, "models/own.sql": own, "config.yaml": KEYS})
    zones = {str(name): model.cron_tz for name, model in project.models.items()}
    assert zones == {"db.m": "Europe/Paris", "db.own": "UTC"}
    (unread,) = [one for one in project.settings.config_warnings if "no effect" in one]
    for key in ("model_defaults.gateway", "linter.use_project_index"):
        assert key in unread
    root = write_project({**MODEL, "pyproject.toml": "[tool.vde]\ncron_tz = 'Asia/Tokyo'\n"})
    (root / "config.yaml").unlink()
    assert read_settings(root).cron_tz == "Asia/Tokyo"
    (root / "pyproject.toml").write_text("[tool.vde]\ncron_tz = 'Asia/Tokio'\n")
    with pytest.raises(ProjectError, match="'Asia/Tokio' is not a time zone"):
        read_settings(root)


SAMPLES: dict[str, Any] = {
    "kind": {"name": "FULL"},
    "dialect": "duckdb",
    "cron": "@hourly",
    "cron_tz": "Europe/Paris",
    "owner": "@IF(@least = 1, 'me', 'you')",
    "start": "@IF(@least = 1, '2024-01-01', '2023-01-01')",
    "table_format": "@IF(@gateway = 'g', 'iceberg', NULL)",
    "storage_format": "parquet",
    "on_destructive_change": "@IF(@gateway = 'g', 'allow', 'error')",
    "on_additive_change": "allow",
    "physical_properties": {"a": "@IF(@least = 1, 'x', 'y')", "b": 7},
    "virtual_properties": {"a": "b"},
    "session_properties": {"a": "b"},
    "audits": ["not_null(columns := [a])"],
    "optimize_query": False,
    "allow_partials": "@IF(@gateway = 'other', True, False)",
    "interval_unit": "@IF(@gateway = 'g', 'hour', 'day')",
    "enabled": "@IF(@gateway = 'g', True, False)",
    "formatting": False,
    "batch_concurrency": 2,
    "pre_statements": ["SET x = @least"],
    "post_statements": ["SET x = 2"],
    "on_virtual_update": ["GRANT SELECT ON VIEW @this_model TO ROLE dev"],
    "gateway": "g",
}


@pytest.mark.parametrize("file", ["config.yaml", "config.py"])
@pytest.mark.parametrize("field", SAMPLES)
def test_every_default_of_models_can_be_set(load: Load, field: str, file: str) -> None:
    fields = RECORDED["0.236.4"]["sqlmesh.core.config.model.ModelDefaultsConfig"]
    defaults = {"dialect": "spark", "start": "2024-01-01", field: SAMPLES[field]}
    given = {"gateways": {"g": {}}, "model_defaults": defaults, "variables": {"least": 1}}
    code = f"from sqlmesh.core.config import Config\nconfig = Config(**{given!r})\n"
    text = code if file == "config.py" else json.dumps(given)

    assert set(fields) == set(SAMPLES)
    assert [str(name) for name in load({**MODEL, file: text}).models] == ["db.m"]


ADAPTERS = [
    "from sqlmesh.core.engine_adapter.duckdb import DuckDBEngineAdapter",
    "from sqlmesh.core.engine_adapter import SnowflakeEngineAdapter",
    "import sqlmesh.core.engine_adapter.bigquery as b\nassert b.BigQueryEngineAdapter",
    "from sqlmesh.core.engine_adapter.base import EngineAdapter",
    "from sqlmesh.core.engine_adapter.mixins import LogicalMergeMixin",
    "from sqlmesh.core.engine_adapter.postgres import PostgresEngineAdapter as P\n"
    "class Own(P):\n    DIALECT = 'x'\n    def fetchdf(self): return super().fetchdf()",
    "from sqlmesh.core.engine_adapter.trino import TrinoEngineAdapter as T\n"
    "before = T.create_view\nT.create_view = lambda *a, **k: before(*a, **k)",
]


@pytest.mark.parametrize("code", ADAPTERS)
def test_a_configuration_may_name_and_patch_engine_adapters(
    write_project: WriteProject, code: str
) -> None:
    root = write_project({**MODEL, "config.py": f"{HEAD}{code}\nbranch = 'main'{END}"})
    assert read_settings(root).dagster.default_environment == "main"


@pytest.mark.parametrize(
    "code",
    [
        "from sqlmesh.core.engine_adapter.duckdb import DuckDBEngineAdapter\nDuckDBEngineAdapter()",
        "from sqlmesh.core.engine_adapter import DuckDBEngineAdapter as D\nD.fetchdf('SELECT 1')",
    ],
)
def test_an_engine_adapter_that_is_used_is_refused_at_its_line(
    write_project: WriteProject, code: str
) -> None:
    root = write_project({**MODEL, "config.py": f"{HEAD}{code}\nbranch = 'main'{END}"})
    with pytest.raises(ProjectError) as refused:
        read_settings(root)
    assert str(refused.value.location) == "config.py:4"


def test_every_stand_in_module_has_names() -> None:
    found: Any = importlib.import_module("vde_dagster.project.python.sqlmesh.engines")
    assert found.DuckDBEngineAdapter is found.DuckDBEngineAdapter
    with pytest.raises(AttributeError):
        assert found.anything_else
