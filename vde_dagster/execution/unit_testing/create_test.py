"""Creation of a unit test from an environment's rows of a model's parents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.times import utc
from vde_dagster.errors import UsageError
from vde_dagster.execution.unit_testing.run_test import cte_names, result_rows, run_test
from vde_dagster.project.files import write_text
from vde_dagster.project.loading.loader import read_with_test_variables
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.model import UnitTest
from vde_dagster.project.reading.unit_tests import load_unit_tests
from vde_dagster.project.selection import find_model

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles


Table = tuple[Sequence[tuple[str, str]], Sequence[tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class NewTest:
    """Options for creating a unit test.

    Args:
        queries: Queries for rows of parents, by parent. Other parents get their first rows.
        limit: Maximum number of rows per parent.
        variables: The test's variables, including `start`, `end` and `execution_time`.
        name: The test's name; by default `test_` and the model's name.
        path: The test's file in the folder of tests; by default the test's name.
        include_ctes: Whether to also expect rows of common table expressions.
    """

    model: str
    environment: str
    queries: Mapping[str, str] = field(default_factory=dict)
    limit: int = 10
    variables: Mapping[str, Any] = field(default_factory=dict)
    name: str | None = None
    path: str | None = None
    overwrite: bool = False
    include_ctes: bool = False


@dataclass(frozen=True, slots=True)
class CreatedTest:
    name: str
    path: str
    inputs: dict[str, int]
    outputs: int


def create_test(handles: Handles, wanted: NewTest) -> CreatedTest:
    """Write a unit test from an environment's rows and the model's result on these rows.

    Raises:
        UsageError: The model or environment does not exist, the file exists, a value cannot be
            written, or the test would not pass again. Nothing is written.
        ExecutionError: Spark failed.
    """
    models, settings = handles.project.models, handles.settings
    model = find_model(models, wanted.model, settings.default_namespace)
    if models[model].query is None and models[model].python is None:
        raise UsageError(f"{model} has neither a query nor code to test", hint="name another model")
    name = wanted.name or f"test_{model.name}"
    path = Path(settings.tests_dir) / (wanted.path or f"{name}.yaml")
    is_there = handles.path(path).exists()
    if path.is_absolute() or ".." in path.parts or path.suffix.lower() not in (".yaml", ".yml"):
        # Such a file would not be read as a test.
        raise UsageError(
            f"'{path}' is not a YAML file in the folder '{settings.tests_dir}'",
            hint="pass its path in this folder: --path orders.yaml",
        )
    if is_there and not wanted.overwrite:
        raise UsageError(f"the file {path} exists", hint="add --overwrite, or another --path")
    tables = _rows_of_parents(handles, model, wanted)
    body: dict[str, Any] = {"model": str(model)}
    if wanted.variables:
        body["vars"] = dict(wanted.variables)
    body["inputs"] = {
        str(parent): {"columns": dict(columns), "rows": _row_dicts(columns, rows)}
        for parent, (columns, rows) in tables.items()
    }
    body["outputs"] = {"query": []}
    test = _load_test(handles, path, name, body)
    body["outputs"] = _run_model(handles, test, wanted)
    test = _load_test(handles, path, name, body)
    result = run_test(test, handles.snapshots(), handles.engine())
    if not result.passed:
        raise UsageError(
            f"no test was written, because {test.model} does not return the same rows twice: "
            f"{result.summary}",
            hint="if the model depends on the time, add --var execution_time=2024-01-01",
        )
    write_text(handles.root / path, _test_yaml(name, body))
    counts = {str(parent): len(rows) for parent, (_, rows) in tables.items()}
    return CreatedTest(name, path.as_posix(), counts, len(body["outputs"]["query"]))


def _rows_of_parents(handles: Handles, model: ModelName, wanted: NewTest) -> dict[ModelName, Table]:
    parents = handles.project.models[model].depends_on
    default = handles.settings.default_namespace
    queries = {ModelName.parse(name, default): sql for name, sql in wanted.queries.items()}
    for name in queries:
        if name not in parents:
            raise UsageError(
                f"{model} does not read {name}",
                hint=f"it reads {', '.join(map(str, parents)) or 'nothing'}",
            )
    from vde_dagster.execution.query.query import Queries

    query = Queries(handles).run
    tables: dict[ModelName, Table] = {}
    for parent in parents:
        sql = queries.get(parent, f"SELECT * FROM {quote(parent.namespace)}.{quote(parent.name)}")
        found = query(wanted.environment, sql, wanted.limit)
        tables[parent] = found.columns, found.rows
    return tables


def _row_dicts(
    columns: Sequence[tuple[str, str]], rows: Sequence[tuple[Any, ...]]
) -> list[dict[str, Any]]:
    names = [name for name, _ in columns]
    return [
        {name: yaml_value(value, name) for name, value in zip(names, row, strict=True)}
        for row in rows
    ]


def _run_model(handles: Handles, test: UnitTest, wanted: NewTest) -> dict[str, Any]:
    snapshots, engine = handles.snapshots(), handles.engine()
    parts = cte_names(test, snapshots) if wanted.include_ctes else ()
    found = {part: _row_dicts(*result_rows(test, snapshots, engine, part)) for part in parts}
    query = _row_dicts(*result_rows(test, snapshots, engine))
    return {"ctes": found, "query": query} if found else {"query": query}


def _load_test(handles: Handles, path: Path, name: str, body: Mapping[str, Any]) -> UnitTest:
    # Its model is expanded for the test's variables.
    def no_file(path: str) -> str:
        raise FileNotFoundError(path)

    settings, project = handles.settings, handles.project
    scope = MacroScope({}, {}, settings.dialect, settings={}, names=project.names)
    [test] = load_unit_tests(path, _test_yaml(name, body), project.names, scope, no_file)
    return read_with_test_variables(test, handles.root, project.models)


def _test_yaml(name: str, body: Mapping[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump({name: body}, sort_keys=False, allow_unicode=True, width=100))


def yaml_value(value: Any, column: str) -> Any:
    """Convert a value of a column to a value that can be written to a test's YAML file.

    >>> yaml_value({"price": Decimal("1.50"), "tags": ["a", None]}, "item")
    {'price': '1.50', 'tags': ['a', None]}

    Raises:
        UsageError: The value cannot be written in a test.
    """
    # Decimals and bytes become texts. The test casts these texts to the column's type.
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, datetime):
        return str(value) if value.tzinfo is None else str(utc(value))
    if isinstance(value, date):
        return value
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            raise _not_writable(column, "bytes that are not text") from None
    if hasattr(value, "asDict"):
        value = value.asDict()
    if isinstance(value, dict):
        return {key: yaml_value(item, column) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [yaml_value(item, column) for item in value]
    raise _not_writable(column, f"values of Python's type {type(value).__name__}")


def _not_writable(column: str, what: str) -> UsageError:
    return UsageError(
        f"the column '{column}' has {what}, which a test cannot write",
        hint="exclude the column with --query 'parent=SELECT …', or write the test by hand",
    )
