"""Substitutes for SQLMesh's modules: their names, and the modules that define them.

They are created when a project's file imports them. SQLMesh itself is never imported, because it
changes SQLGlot's parser for the whole process.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from vde_dagster.base.texts import closest

_PACKAGE = __name__.rpartition(".")[0]
_MACROS = "vde_dagster.project.macros"
_ANNOTATIONS = "vde_dagster.project.python.annotations"
_DECORATORS = {
    "model": f"{_PACKAGE}.models",
    "macro": f"{_MACROS}.registry",
    "signal": f"{_MACROS}.registry",
}
_CONTEXTS = dict.fromkeys(
    ("BaseContext", "Context", "ExecutionContext", "GenericContext"), _ANNOTATIONS
)
_MODELS = dict.fromkeys(
    ("ExternalModel", "Model", "PythonModel", "SeedModel", "SqlModel"), _ANNOTATIONS
)
_SHAPES = dict.fromkeys(
    ("DF", "EngineAdapter", "Query", "QueryOrDF", "SchemaName", "Snapshot", "TableName"),
    _ANNOTATIONS,
)
_MACRO_NAMES = {
    **_DECORATORS,
    "MacroEvaluator": f"{_MACROS}.evaluator",
    "SQL": f"{_MACROS}.calls",
    "RuntimeStage": f"{_PACKAGE}.values",
}

Names = dict[str, str]
"""Defining modules by name; `*` has the module of all other names."""

_VALUES = f"{_PACKAGE}.values"
_KINDS = {"*": f"{_PACKAGE}.models"}
_CONFIG = {"*": "vde_dagster.project.configuration.sqlmesh.config"}
_ENGINES = {**_SHAPES, "*": f"{_PACKAGE}.engines"}
_MODULES: dict[str, Names] = {
    "sqlmesh": {
        **_MACRO_NAMES,
        **_CONTEXTS,
        **_MODELS,
        **_SHAPES,
        "Config": _CONFIG["*"],
        "CustomKind": _KINDS["*"],
        "CustomMaterialization": f"{_PACKAGE}.models",
        "DatetimeRanges": f"{_PACKAGE}.dates",
        "RuntimeEnv": _VALUES,
        "str_to_bool": _VALUES,
    },
    "sqlmesh.core": {},
    "sqlmesh.core._typing": _SHAPES,
    "sqlmesh.core.config": _CONFIG,
    **{
        f"sqlmesh.core.config.{part}": _CONFIG
        for part in (
            *("base", "categorizer", "common", "connection", "dbt", "format", "gateway"),
            "janitor",
            *("linter", "migration", "model", "naming", "plan", "root", "run", "scheduler", "ui"),
        )
    },
    "sqlmesh.core.constants": dict.fromkeys(
        ("DEV", "EPOCH", "GATEWAY", "PROD", "SQLMESH"), _VALUES
    ),
    "sqlmesh.core.context": _CONTEXTS,
    "sqlmesh.core.dialect": {"*": f"{_PACKAGE}.dialect"},
    "sqlmesh.core.engine_adapter": _ENGINES,
    "sqlmesh.core.engine_adapter._typing": _SHAPES,
    "sqlmesh.core.engine_adapter.shared": _SHAPES,
    **{
        f"sqlmesh.core.engine_adapter.{engine}": _ENGINES
        for engine in (
            *("athena", "base", "base_postgres", "bigquery", "clickhouse", "databricks", "db2"),
            *("duckdb", "fabric", "mixins", "mssql", "mysql", "postgres", "redshift"),
            *("risingwave", "snowflake", "spark", "starrocks", "trino"),
        )
    },
    "sqlmesh.core.linter": {},
    "sqlmesh.core.linter.rule": {
        **dict.fromkeys(("Rule", "RuleViolation"), "vde_dagster.execution.linting.rules"),
        **dict.fromkeys(("CreateFile", "Fix", "Position", "Range", "TextEdit"), _ANNOTATIONS),
    },
    "sqlmesh.core.macros": _MACRO_NAMES,
    "sqlmesh.core.model": {**_DECORATORS, **_MODELS, **_KINDS},
    "sqlmesh.core.model.decorator": _DECORATORS,
    "sqlmesh.core.model.definition": _MODELS,
    "sqlmesh.core.model.kind": _KINDS,
    "sqlmesh.core.node": {"IntervalUnit": _VALUES},
    "sqlmesh.core.notification_target": _CONFIG,
    "sqlmesh.core.signal": {"signal": f"{_MACROS}.registry"},
    "sqlmesh.core.snapshot": {
        "Snapshot": _ANNOTATIONS,
        "CustomMaterialization": f"{_PACKAGE}.models",
    },
    "sqlmesh.core.snapshot.definition": _SHAPES,
    "sqlmesh.core.snapshot.evaluator": {"CustomMaterialization": f"{_PACKAGE}.models"},
    "sqlmesh.core.user": _CONFIG,
    "sqlmesh.cicd": _CONFIG,
    "sqlmesh.cicd.config": _CONFIG,
    "sqlmesh.integrations": _CONFIG,
    "sqlmesh.integrations.github": _CONFIG,
    "sqlmesh.integrations.github.cicd": _CONFIG,
    "sqlmesh.integrations.github.cicd.config": _CONFIG,
    "sqlmesh.utils": {"*": _VALUES},
    "sqlmesh.utils.date": {"*": f"{_PACKAGE}.dates"},
    "sqlmesh.utils.errors": {"*": _VALUES},
    "sqlmesh.utils.pydantic": {"validate_string": _VALUES},
}

_INSTEAD = {
    "sqlmesh.dbt": "projects of dbt are read from their compiled manifest, see docs/dbt.md",
    "sqlmesh.core.console": "use Python's logging, or context.logger",
    "sqlmesh.core.engine_adapter": "context.engine_adapter runs SQL on Spark",
    "sqlmesh.core.loader": "write a source to read other files, see docs/extending.md",
    "sqlmesh.core.metric": "write metrics in the form of MetricFlow, see docs/metrics.md",
    "sqlmesh.schedulers": "Dagster is the scheduler, see docs/dagster.md",
}
_ANYTHING_ELSE = "to use the project from Python: from vde_dagster import Workspace"


class NotThereError(ImportError):
    """Name of SQLMesh without a substitute."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


class _Substitute(ModuleType):
    """Module that finds its names at their first use."""

    def __init__(self, name: str, names: Names) -> None:
        super().__init__(name)
        self.__path__: list[str] = []
        self._names = names

    def __getattr__(self, name: str) -> Any:
        home = self._names.get(name, self._names.get("*"))
        if home is None or name.startswith("__"):
            raise AttributeError(f"module '{self.__name__}' has no '{name}' here")
        return getattr(importlib.import_module(home), name)


def sqlmesh_module(name: str, wanted: Sequence[str] = ()) -> ModuleType:
    """Return the substitute for a module of SQLMesh, after a check of the wanted names.

    Raises:
        NotThereError: The module or a name has no substitute; the hint has an alternative.
    """
    if name not in _MODULES:
        raise NotThereError(f"{name} has no counterpart here", _instead(name))
    modules = {path: _Substitute(path, names) for path, names in _MODULES.items()}
    for path, module in modules.items():
        parent, _, last = path.rpartition(".")
        if parent:
            vars(modules[parent])[last] = module
    found = modules[name]
    for item in wanted:
        if item != "*" and not hasattr(found, item):
            raise NotThereError(
                f"{name}.{item} has no counterpart here", _hint_for_name(name, item)
            )
    return found


def _hint_for_name(module: str, item: str) -> str:
    names = _MODULES[module]
    others = vars(importlib.import_module(names["*"])) if "*" in names else {}
    near = closest(item, [one for one in {**names, **others} if one[0] not in "_*"])
    return f"did you mean '{near}'?" if near else _instead(f"{module}.{item}")


def _instead(path: str) -> str:
    parent, _, last = path.rpartition(".")
    beside = (one.rpartition(".") for one in _MODULES)
    near = closest(last, [name for folder, _, name in beside if folder == parent])
    for begin, hint in _INSTEAD.items():
        if path == begin or path.startswith(f"{begin}."):
            return hint
    return f"did you mean '{parent}.{near}'?" if near else _ANYTHING_ELSE
