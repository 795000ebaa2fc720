"""Stand-ins for SQLMesh's classes, for annotations and linter rules in Python files."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from vde_dagster.errors import UsageError


class _AnnotationOnly:
    """Base of classes that exist only for annotations."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UsageError(
            f"SQLMesh's {type(self).__name__} cannot be created here",
            hint="use vde_dagster.Workspace.open(path) instead",
        )


class Context(_AnnotationOnly):
    """Stand-in for SQLMesh's `Context`, the whole project."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls


class Model(_AnnotationOnly):
    """Stand-in for SQLMesh's class `Model`, for annotations."""


BaseContext = GenericContext = Context
ExecutionContext = type("ExecutionContext", (Context,), {})
SqlModel, PythonModel, SeedModel, ExternalModel = (
    type(name, (Model,), {}) for name in ("SqlModel", "PythonModel", "SeedModel", "ExternalModel")
)
EngineAdapter, Snapshot = (
    type(name, (_AnnotationOnly,), {}) for name in ("EngineAdapter", "Snapshot")
)
QueryOrDF = DF = Query = TableName = SchemaName = Any


Position = namedtuple("Position", "line character")
Range = namedtuple("Range", "start end")
TextEdit = namedtuple("TextEdit", "path range new_text")
CreateFile = namedtuple("CreateFile", "path text")
Fix = namedtuple("Fix", "title edits create_files", defaults=((), ()))
"""Fix for a rule's violation; fixes that create files are not applied."""
