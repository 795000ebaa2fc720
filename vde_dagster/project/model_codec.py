"""A model as JSON: its one form, for the cache of a project and for the state store.

Written by hand, without reflection: a thousand models are read in some ten milliseconds, and
nothing heavy is imported. A snapshot's form (`planning.snapshot_codec`) stands on this one.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import kind_from_json
from vde_dagster.project.kinds.base import as_tuples
from vde_dagster.project.model import Audit, Column, Model, PythonSource, Signal

Json = Any


def model_to_json(model: Model) -> Json:
    """Write a model as a JSON object; fields at their defaults are left out."""
    data: dict[str, Json] = {
        "name": [model.name.namespace, model.name.name],
        "kind": model.kind.to_json(),
        "location": location_to_json(model.location),
    }
    for field in _PLAIN:
        value = getattr(model, field)
        if value != _DEFAULTS[field]:
            data[field] = value
    if model.python is not None:
        source = model.python
        further = [source.outside, source.variables, source.settings, source.sqlmesh_dialect]
        while further and not further[-1]:
            further.pop()
        data["python"] = [model.python.entrypoint, model.python.files, *further]
    if model.signals:
        data["signals"] = [
            [s.name, s.arguments, s.python.entrypoint, s.python.files] for s in model.signals
        ]
    if model.columns:
        data["columns"] = [[c.name, c.type, c.description] for c in model.columns]
    if model.depends_on:
        data["depends_on"] = [[name.namespace, name.name] for name in model.depends_on]
    for key in ("start", "end"):
        value = getattr(model, key)
        if value is not None:
            data[key] = value.isoformat()
    if model.audits:
        data["audits"] = [_audit_to_json(audit) for audit in model.audits]
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
            values[field] = as_tuples(value) if isinstance(value, list) else value
    if "python" in data:
        values["python"] = PythonSource(*data["python"])
    if "signals" in data:
        values["signals"] = tuple(
            Signal(name, as_tuples(arguments), PythonSource(entrypoint, files))
            for name, arguments, entrypoint, files in data["signals"]
        )
    if "columns" in data:
        values["columns"] = tuple(Column(*column) for column in data["columns"])
    if "depends_on" in data:
        values["depends_on"] = tuple(ModelName(*name) for name in data["depends_on"])
    for key in ("start", "end"):
        if key in data:
            values[key] = datetime.fromisoformat(data[key])
    if "audits" in data:
        values["audits"] = tuple(_audit_from_json(*audit) for audit in data["audits"])
    return Model(**values)


def _audit_to_json(audit: Audit) -> Json:
    reads = [[name.namespace, name.name] for name in audit.reads]
    return [audit.name, audit.arguments, audit.query, audit.blocking, *([reads] if reads else ())]


def _audit_from_json(
    name: str, arguments: Json, query: str, blocking: bool, reads: Json = ()
) -> Audit:
    read = tuple(ModelName(*parts) for parts in reads)
    return Audit(name, as_tuples(arguments), query, blocking, read)


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
    "on_virtual_update",
    "grains",
    "stamp",
    "session",
    "table",
    "cron_tz",
    "interval_unit",
    "allow_partials",
    "relative_start",
    "relative_end",
    "reads_itself",
    "column_descriptions",
    "skip_unchanged",
    "virtual_properties",
    "physical_version",
    "ignored_rules",
)
_DEFAULTS = {
    field.name: field.default_factory()
    if field.default_factory is not dataclasses.MISSING
    else field.default
    for field in dataclasses.fields(Model)
}


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
