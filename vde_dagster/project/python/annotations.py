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


class BaseContext(_Named):
    """What models, signals and rules get."""


class ExecutionContext(BaseContext):
    """What a Python model gets."""


class GenericContext(BaseContext):
    """What the whole project is."""

    def __class_getitem__(cls, _: Any) -> type:
        return cls


class Context(GenericContext):
    """What the whole project is."""


class EngineAdapter(_Named):
    """What runs SQL."""


class Snapshot(_Named):
    """A version of a model."""


class Model(_Named):
    """A model."""


class SqlModel(Model):
    """A model of SQL."""


class PythonModel(Model):
    """A model of Python."""


class SeedModel(Model):
    """A model of a CSV file."""


class ExternalModel(Model):
    """A table that others write."""


QueryOrDF = Any
DF = Any
Query = Any
TableName = Any
SchemaName = Any


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
