"""Models, unit tests and loaded files as JSON, for the cache and the state store.

Written by hand, without reflection: a thousand models are read in some ten milliseconds, and
nothing heavy is imported.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import date, datetime
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.kinds import (
    Embedded,
    External,
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    Kind,
    Seed,
    View,
)
from vde_dagster.project.loading.loaded import LoadedFile, LoadedModel
from vde_dagster.project.model import Audit, Column, Model, PythonSource
from vde_dagster.project.unit_values import TestTable, UnitTest

Json = Any

_KINDS: dict[str, Callable[..., Kind]] = {
    "FULL": Full,
    "VIEW": View,
    "EMBEDDED": Embedded,
    "SEED": Seed,
    "EXTERNAL": External,
    "INCREMENTAL_BY_TIME_RANGE": IncrementalByTimeRange,
    "INCREMENTAL_BY_UNIQUE_KEY": IncrementalByUniqueKey,
}


def kind_to_json(kind: Kind) -> Json:
    """Write a kind as a JSON object with its `name`."""
    return {field.name: getattr(kind, field.name) for field in dataclasses.fields(kind)}


def kind_from_json(data: Json) -> Kind:
    """Read what `kind_to_json` wrote."""
    values = {key: value for key, value in data.items() if key != "name"}
    for key in ("null_values", "unique_key"):
        if key in values:
            values[key] = tuple(values[key])
    if "column_hashes" in values:
        values["column_hashes"] = tuple((name, text) for name, text in values["column_hashes"])
    return _KINDS[data["name"]](**values)


def location_to_json(location: SourceLocation) -> Json:
    """Write a place as `[path, line, column]`."""
    return [location.path.as_posix(), location.line, location.column]


def location_from_json(data: Json, paths: dict[str, Path] | None = None) -> SourceLocation:
    """Read what `location_to_json` wrote; `paths` shares equal `Path` objects."""
    text, line, column = data
    if paths is None:
        return SourceLocation(Path(text), line, column)
    path = paths.get(text)
    if path is None:
        path = paths[text] = Path(text)
    return SourceLocation(path, line, column)


def model_to_json(model: Model) -> Json:
    """Write a model as a JSON object; fields at their defaults are left out."""
    data: dict[str, Json] = {
        "name": [model.name.namespace, model.name.name],
        "kind": kind_to_json(model.kind),
        "location": location_to_json(model.location),
    }
    for field in _PLAIN:
        value = getattr(model, field)
        if value != _DEFAULTS[field]:
            data[field] = value
    if model.python is not None:
        outside = [model.python.outside] if model.python.outside else []
        data["python"] = [model.python.entrypoint, model.python.files, *outside]
    if model.columns:
        data["columns"] = [[c.name, c.type, c.description] for c in model.columns]
    if model.depends_on:
        data["depends_on"] = [[name.namespace, name.name] for name in model.depends_on]
    for key in ("start", "end"):
        value = getattr(model, key)
        if value is not None:
            data[key] = value.isoformat()
    if model.audits:
        data["audits"] = [[a.name, a.arguments, a.query, a.blocking] for a in model.audits]
    return data


def model_from_json(data: Json, paths: dict[str, Path] | None = None) -> Model:
    """Read what `model_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: It is something else.
    """
    values: dict[str, Any] = {
        "name": ModelName(*data["name"]),
        "kind": kind_from_json(data["kind"]),
        "location": location_from_json(data["location"], paths),
    }
    for field in _PLAIN:
        if field in data:
            value = data[field]
            values[field] = _tuples(value) if isinstance(value, list) else value
    if "python" in data:
        values["python"] = PythonSource(*data["python"])
    if "columns" in data:
        values["columns"] = tuple(Column(*column) for column in data["columns"])
    if "depends_on" in data:
        values["depends_on"] = tuple(ModelName(*name) for name in data["depends_on"])
    for key in ("start", "end"):
        if key in data:
            values[key] = datetime.fromisoformat(data[key])
    if "audits" in data:
        values["audits"] = tuple(
            Audit(name, _tuples(arguments), query, blocking)
            for name, arguments, query, blocking in data["audits"]
        )
    return Model(**values)


_PLAIN = (
    "query",
    "source",
    "description",
    "owner",
    "tags",
    "cron",
    "partitioned_by",
    "clustered_by",
    "table_properties",
    "pre_statements",
    "post_statements",
    "grains",
    "stamp",
    "session",
    "column_descriptions",
)
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not dataclasses.MISSING
    else field.default
    for field in dataclasses.fields(Model)
}


def _tuples(value: Json) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list) else value


def file_to_json(file: LoadedFile) -> Json:
    """Write what one file yielded."""
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
    }


def file_from_json(data: Json) -> LoadedFile:
    """Read what `file_to_json` wrote."""
    return LoadedFile(
        path=Path(data["path"]),
        models=tuple(
            LoadedModel(
                model_from_json(item["model"]),
                {ModelName(*name): location_from_json(place) for name, place in item["reads"]},
            )
            for item in data["models"]
        ),
        tests=tuple(test_from_json(item) for item in data["tests"]),
        uses=tuple(data["uses"]),
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
    return TestTable(tuple(columns), values, _tuples(types), partial, query)


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
