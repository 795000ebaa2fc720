"""Python files that are written for SQLMesh: what they import, and what their models ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, timezone

import pytest
from sqlglot import exp

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.configuration.config_files import config_warnings
from vde_dagster.project.kinds import Full, IncrementalByTimeRange, Kind
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Column, Model
from vde_dagster.project.python.files import LocalModules
from vde_dagster.project.python.sqlmesh import dates

Load = Callable[[Mapping[str, str]], Project]
NAME = ModelName("a", "m")
NOW = datetime(2024, 3, 10, 12, 30, tzinfo=timezone.utc)


def model_of(load: Load, decorator: str, body: str = "", *, settings: str = "") -> Model:
    text = (
        "import sqlmesh\nfrom sqlglot import exp\nfrom sqlmesh import model\n"
        "from sqlmesh.core.model.kind import *\nfrom sqlmesh.core.model import TimeColumn, "
        "FullKind, IncrementalByTimeRangeKind, ModelKindName\n"
        f"TABLE = 'b.constant'\n\n{decorator}\ndef execute(context, start, end, "
        f"execution_time, **kwargs):\n    {body or 'pass'}\n"
    )
    files = {"models/m.py": text}
    if settings:
        files["config.yaml"] = settings
    return load(files).models[NAME]


@pytest.mark.parametrize(
    "line",
    [
        "from sqlmesh import SQL, Context, ExecutionContext, macro, model, signal",
        "from sqlmesh import Config, CustomKind, CustomMaterialization, DatetimeRanges, Model",
        "from sqlmesh import EngineAdapter, QueryOrDF, RuntimeEnv, Snapshot",
        "import sqlmesh\nsqlmesh.core.macros.macro",
        "import sqlmesh.core.dialect as d\nassert d.parse_one('a + 1').sql() == 'a + 1'",
        "from sqlmesh.core import constants as c, dialect as d",
        "from sqlmesh.core.context import Context, ExecutionContext, GenericContext",
        "from sqlmesh.core.dialect import normalize_model_name, parse, schema_, to_schema",
        "from sqlmesh.core.engine_adapter import EngineAdapter",
        "from sqlmesh.core.linter.rule import Rule, RuleViolation",
        "from sqlmesh.core.macros import SQL, MacroEvaluator, RuntimeStage, macro",
        "from sqlmesh.core.model import IncrementalByTimeRangeKind, Model, TimeColumn, model",
        "from sqlmesh.core.model.definition import Model, SqlModel",
        "from sqlmesh.core.model.kind import ModelKindName, SCDType2ByTimeKind, ViewKind",
        "from sqlmesh.core.node import IntervalUnit\nassert IntervalUnit.DAY == 'day'",
        "from sqlmesh.core.signal import signal",
        "from sqlmesh.core.snapshot.evaluator import CustomMaterialization",
        "from sqlmesh.utils import str_to_bool, unique\nassert unique([2, 1, 2]) == [2, 1]",
        "from sqlmesh.utils.date import TimeLike, now, to_date, to_datetime, to_ds, to_timestamp",
        "from sqlmesh.utils.errors import ConfigError, MacroEvalError, PlanError, SQLMeshError\n"
        "assert issubclass(PlanError, SQLMeshError)",
        "from sqlmesh.utils.errors import AuditError as a\nfrom sqlmesh.utils.errors import "
        "AuditError as b\nassert a is b",
        "from sqlmesh.utils.pydantic import validate_string",
        "from sqlmesh.core.config import *\nConfig(gateways=GatewayConfig(connection="
        "DuckDBConnectionConfig()), model_defaults=ModelDefaultsConfig(dialect='spark'))",
        "from sqlmesh.core.model.kind import *\nFullKind(), ModelKindName.VIEW",
        "try:\n    from sqlmesh.core.console import get_console\nexcept ImportError:\n    pass",
    ],
)
def test_what_projects_import_is_there(line: str) -> None:
    LocalModules({"m.py": line}).run("m.py")


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("from sqlmesh import ExecutionContex", "sqlmesh.ExecutionContex", "ExecutionContext"),
        ("from sqlmesh.dbt.loader import sqlmesh_config", "sqlmesh.dbt.loader", "dbt"),
        ("import sqlmesh.core.console", "sqlmesh.core.console", "logging"),
        ("from sqlmesh.utils.dates import to_ds", "sqlmesh.utils.dates", "sqlmesh.utils.date"),
        ("from sqlmesh.core.scheduler import Scheduler", "sqlmesh.core.scheduler", "Workspace"),
        ("from sqlmesh.utils.date import to_dss", "sqlmesh.utils.date.to_dss", "to_ds"),
    ],
)
def test_what_is_not_there_says_what_to_write(
    load: Load, line: str, message: str, hint: str
) -> None:
    with pytest.raises(ProjectError) as error:
        load({"models/m.py": f"import typing\n{line}\n"})

    assert f"{message} has no counterpart in vde-dagster" in error.value.message
    assert hint in str(error.value.hint)
    assert str(error.value.location) == "models/m.py:2"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("ModelKindName.FULL", Full()),
        ("FullKind()", Full()),
        ("FullKind(refresh='auto')", Full(refresh="auto")),
        ("dict(name=ModelKindName.FULL)", Full()),
        ("IncrementalByTimeRangeKind(time_column='ds')", IncrementalByTimeRange("ds")),
        (
            "IncrementalByTimeRangeKind(time_column=TimeColumn(column='ds', format='%Y'))",
            IncrementalByTimeRange("ds", time_format="%Y"),
        ),
        (
            "dict(name=ModelKindName.INCREMENTAL_BY_TIME_RANGE, time_column=exp.column('ds'))",
            IncrementalByTimeRange("ds"),
        ),
    ],
)
def test_kinds_are_names_tables_and_objects(load: Load, kind: str, expected: Kind) -> None:
    model = model_of(load, f"@model('a.m', kind={kind}, columns={{'ds': 'text'}})")

    assert model.kind == expected


def test_types_are_expressions_or_texts_of_the_model_s_dialect(load: Load) -> None:
    columns = "{'a': exp.DataType.build('text'), 'b': 'int8', 'c': exp.DataType.build('int')}"
    model = model_of(load, f"@model('a.m', dialect='postgres', columns={columns})")

    assert model.columns == (Column("a", "STRING"), Column("b", "BIGINT"), Column("c", "INT"))


@pytest.mark.parametrize(
    ("body", "reads"),
    [
        ("context.resolve_table('b.t')", ["b.t"]),
        ("context.resolve_table(model_name='b.t')", ["b.t"]),
        ("context.table(TABLE)", ["b.constant"]),
        ("context.table(f\"{context.var('schema')}.t\")", ["c.t"]),
        ("context.fetchdf('SELECT a::int FROM b.t')", ["b.t"]),
        ("context.engine_adapter.fetchdf('SELECT 1 FROM b.t')", ["b.t"]),
        ("context.fetchall('SELECT a FROM b.t')", ["b.t"]),
        ("context.engine_adapter.fetchone('SELECT a FROM b.t')", ["b.t"]),
        ("return helper(context)\n\ndef helper(context):\n    context.table('b.t')", ["b.t"]),
    ],
)
def test_the_tables_that_code_names_are_parents(load: Load, body: str, reads: list[str]) -> None:
    model = model_of(
        load,
        "@model('a.m', columns={'a': 'int'})",
        body,
        settings="model_defaults: {dialect: duckdb}\nvariables: {schema: c, other: 1}\n",
    )

    assert [str(name) for name in model.depends_on] == reads


def test_a_table_that_only_the_run_knows_has_to_be_declared(load: Load) -> None:
    with pytest.raises(ProjectError, match="cannot be found in the code"):
        model_of(load, "@model('a.m', columns={'a': 'int'})", "t = 'b.t'; context.table(t)")


@pytest.mark.parametrize(
    ("parameters", "body", "asked"),
    [
        ("context, start, end", "pass", {}),
        ("context, region=None, **kwargs", "pass", {"region": "eu"}),
        ("context", "context.var('REGION', 1)", {"region": "eu"}),
        ("context", "context.var(str(1))", {"region": "eu", "size": 3}),
    ],
)
def test_the_variables_that_code_asks_for_are_part_of_it(
    load: Load, parameters: str, body: str, asked: dict[str, object]
) -> None:
    text = (
        "from sqlmesh import model\n\n@model('a.m', columns={'a': 'int'})\n"
        f"def execute({parameters}):\n    {body}\n"
    )
    config = "model_defaults: {dialect: duckdb}\nvariables: {region: eu, size: 3}\n"
    python = load({"models/m.py": text, "config.yaml": config}).models[NAME].python

    assert python is not None
    assert (python.settings, python.sqlmesh_dialect) == (asked, "duckdb")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-01-02", "2024-01-02 00:00:00"),
        ("2024-01-02 03:04:05", "2024-01-02 03:04:05"),
        ("2024-01-02T03:04:05+02:00", "2024-01-02 01:04:05"),
        ("20240102", "2024-01-02 00:00:00"),
        (20240102, "2024-01-02 00:00:00"),
        (1704164645000, "2024-01-02 03:04:05"),
        (date(2024, 1, 2), "2024-01-02 00:00:00"),
        (datetime(2024, 1, 2, 3), "2024-01-02 03:00:00"),
        (exp.Literal.string("2024-01-02"), "2024-01-02 00:00:00"),
        ("yesterday", "2024-03-09 00:00:00"),
        ("1 week ago", "2024-03-03 00:00:00"),
        ("2 hours ago", "2024-03-10 10:30:00"),
    ],
)
def test_instants_are_read_as_sqlmesh_reads_them(value: object, expected: str) -> None:
    assert dates.to_ts(value, NOW) == expected
    assert dates.to_ds(value, NOW) == expected[:10]
    assert dates.to_datetime(value, NOW).tzinfo == timezone.utc


@pytest.mark.parametrize("value", ["", "soon", "2024-13-01", "nan", "1e400", "inf"])
def test_what_is_no_instant_is_a_value_error(value: str) -> None:
    with pytest.raises(ValueError, match="Could not convert"):
        dates.to_datetime(value)


def test_the_end_of_a_range_is_its_last_instant() -> None:
    start, end = dates.make_inclusive("2024-01-02", "2024-01-03")

    assert (dates.to_ts(start), dates.to_ts(end)) == (
        "2024-01-02 00:00:00",
        "2024-01-03 23:59:59.999999",
    )


def test_metrics_are_named_in_a_warning(load: Load) -> None:
    files = {"config.yaml": "model_defaults: {dialect: duckdb}\n", "metrics/m.sql": "METRIC ();\n"}

    (warning,) = config_warnings(load(files).settings)

    assert "metrics are not read (1 file in metrics/)" in warning.message
    assert "`vde help metrics`" in str(warning.hint)
    assert (str(warning.location), warning.certain) == ("metrics/m.sql", False)
