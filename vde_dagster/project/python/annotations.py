"""SQLMesh classes that are only named: in annotations, and as edits proposed by linter rules."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
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


@dataclass(frozen=True)
class Position:
    """A place in a file, both counted from 0."""

    line: int
    character: int


@dataclass(frozen=True)
class Range:
    """A part of a file."""

    start: Position
    end: Position


@dataclass(frozen=True)
class TextEdit:
    """A change of a file."""

    path: Path
    range: Range
    new_text: str


@dataclass(frozen=True)
class CreateFile:
    """A new file."""

    path: Path
    text: str


@dataclass(frozen=True)
class Fix:
    """What would mend a violation."""

    title: str
    edits: list[TextEdit] = field(default_factory=list)
    create_files: list[CreateFile] = field(default_factory=list)
