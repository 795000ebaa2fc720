"""SQLMesh classes that are only named: in annotations, and as edits proposed by linter rules."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from vde_dagster.errors import UsageError


class _Named:
    """A class that stands in annotations."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UsageError(
            f"SQLMesh's {type(self).__name__} cannot be made here",
            hint="from vde_dagster import Workspace; Workspace.open(path) is the project",
        )


class Context(_Named):
    """The whole project."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls


class Model(_Named):
    """A model."""


BaseContext = GenericContext = Context
ExecutionContext = type("ExecutionContext", (Context,), {})
SqlModel, PythonModel, SeedModel, ExternalModel = (
    type(name, (Model,), {}) for name in ("SqlModel", "PythonModel", "SeedModel", "ExternalModel")
)
EngineAdapter, Snapshot = (type(name, (_Named,), {}) for name in ("EngineAdapter", "Snapshot"))
QueryOrDF = DF = Query = TableName = SchemaName = Any


Position = namedtuple("Position", "line character")
Range = namedtuple("Range", "start end")
TextEdit = namedtuple("TextEdit", "path range new_text")
CreateFile = namedtuple("CreateFile", "path text")
Fix = namedtuple("Fix", "title edits create_files", defaults=((), ()))
"""What mends a violation; one that creates files is not made."""
