"""Edits that rules of a linter may propose to editors; they are taken and not used."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


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
