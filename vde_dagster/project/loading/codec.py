"""Loaded files, unit tests, mistakes and settings as JSON, for the cache."""

from __future__ import annotations

import dataclasses
from datetime import date, datetime
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, Unknown
from vde_dagster.project.kinds.base import as_tuples
from vde_dagster.project.model import LoadedFile, LoadedModel, TestTable, UnitTest
from vde_dagster.project.model_codec import (
    location_from_json,
    location_to_json,
    model_from_json,
    model_to_json,
)
from vde_dagster.project.settings import (
    DagsterSettings,
    LayoutOptions,
    LinterSettings,
    NessieSettings,
    RestSettings,
    Settings,
    SparkSettings,
)

Json = Any


def file_to_json(file: LoadedFile) -> Json:
    """Write what one file yielded; one that is not repeatable is never kept."""
    return {
        "path": file.path.as_posix(),
        "models": [
            {
                "model": model_to_json(loaded.model),
                "reads": [
                    [[name.namespace, name.name], location_to_json(location)]
                    for name, location in loaded.reads.items()
                ],
            }
            for loaded in file.models
        ],
        "tests": [test_to_json(test) for test in file.tests],
        "uses": list(file.uses),
        "variables": list(file.variables),
        "catalogs": list(file.catalogs),
    }


def file_from_json(data: Json) -> LoadedFile:
    """Read what `file_to_json` wrote."""
    paths: dict[str, Path] = {}
    return LoadedFile(
        path=Path(data["path"]),
        models=tuple(
            LoadedModel(
                model_from_json(item["model"], paths),
                {
                    ModelName(*name): location_from_json(place, paths)
                    for name, place in item["reads"]
                },
            )
            for item in data["models"]
        ),
        tests=tuple(test_from_json(item) for item in data["tests"]),
        uses=tuple(data["uses"]),
        variables=tuple(data["variables"]),
        catalogs=tuple(data["catalogs"]),
    )


def test_to_json(test: UnitTest) -> Json:
    """Write a unit test; dates in its rows are tagged."""
    return {
        "name": test.name,
        "model": [test.model.namespace, test.model.name],
        "location": location_to_json(test.location),
        "inputs": [[[n.namespace, n.name], _table_to_json(t)] for n, t in test.inputs],
        "expected": None if test.expected is None else _table_to_json(test.expected),
        "ctes": [[name, _table_to_json(table)] for name, table in test.ctes],
        "times": [_value_to_json(t) for t in (test.start, test.end, test.execution_time)],
        "variables": [[name, _value_to_json(value)] for name, value in test.variables],
        "description": test.description,
    }


def test_from_json(data: Json) -> UnitTest:
    """Read what `test_to_json` wrote."""
    start, end, execution_time = (_value_from_json(value) for value in data["times"])
    return UnitTest(
        name=data["name"],
        model=ModelName(*data["model"]),
        location=location_from_json(data["location"]),
        inputs=tuple((ModelName(*n), _table_from_json(t)) for n, t in data["inputs"]),
        expected=None if data["expected"] is None else _table_from_json(data["expected"]),
        ctes=tuple((name, _table_from_json(table)) for name, table in data["ctes"]),
        start=start,
        end=end,
        execution_time=execution_time,
        variables=tuple((name, _value_from_json(value)) for name, value in data["variables"]),
        description=data["description"],
    )


def _table_to_json(table: TestTable) -> Json:
    rows = [[_value_to_json(value) for value in row] for row in table.rows]
    return [table.columns, rows, table.types, table.partial, table.query]


def _table_from_json(data: Json) -> TestTable:
    columns, rows, types, partial, query = data
    values = tuple(tuple(_value_from_json(value) for value in row) for row in rows)
    return TestTable(tuple(columns), values, as_tuples(types), partial, query)


def _value_to_json(value: Any) -> Json:
    if isinstance(value, datetime):
        return {"$datetime": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, bytes):
        return {"$bytes": value.hex()}
    if isinstance(value, dict):
        return {"$dict": [[k, _value_to_json(v)] for k, v in value.items()]}
    if isinstance(value, list | tuple):
        return [_value_to_json(item) for item in value]
    return value


def _value_from_json(data: Json) -> Any:
    if isinstance(data, list):
        return [_value_from_json(item) for item in data]
    if not isinstance(data, dict):
        return data
    ((tag, value),) = data.items()
    if tag == "$datetime":
        return datetime.fromisoformat(value)
    if tag == "$date":
        return date.fromisoformat(value)
    if tag == "$bytes":
        return bytes.fromhex(value)
    return {key: _value_from_json(item) for key, item in value}


def error_to_json(error: ProjectError) -> Json:
    """Write a project's error."""
    place = None if error.location is None else location_to_json(error.location)
    unknown = None if error.unknown is None else [error.unknown.what, error.unknown.name]
    models = [[name.namespace, name.name] for name in error.models]
    return [error.message, error.hint, place, unknown, models]


def error_from_json(data: Json) -> ProjectError:
    """Read what `error_to_json` wrote."""
    message, hint, place, unknown, models = data
    return ProjectError(
        message,
        hint=hint,
        location=None if place is None else location_from_json(place),
        unknown=None if unknown is None else Unknown(*unknown),
        models=tuple(ModelName(*parts) for parts in models),
    )


def settings_to_json(settings: Settings) -> dict[str, Any]:
    """Write settings without their root."""
    values = dataclasses.asdict(settings)
    del values["root"]
    values["start"] = settings.start.isoformat() if settings.start else None
    return values


def settings_from_json(root: Path, values: dict[str, Any]) -> Settings:
    """Read what `settings_to_json` wrote."""
    given = dict(values)
    spark, dagster = dict(given.pop("spark")), dict(given.pop("dagster"))
    linter: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value
        for key, value in given.pop("linter").items()
    }
    layout = LayoutOptions(**given.pop("format"))
    nessie, rest = dict(given.pop("nessie")), dict(given.pop("rest"))
    spark["packages"] = tuple(spark["packages"])
    for name, value in given.items():
        if isinstance(value, list):
            given[name] = tuple(value)
    given["start"] = date.fromisoformat(given["start"]) if given["start"] else None
    return Settings(
        root=root,
        spark=SparkSettings(**spark),
        dagster=DagsterSettings(**dagster),
        linter=LinterSettings(**linter),
        nessie=NessieSettings(**nessie),
        rest=RestSettings(**rest),
        format=layout,
        **given,
    )
