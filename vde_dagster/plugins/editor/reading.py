"""The project as the editor has it: files of the folder, texts that are not saved yet, and what
their words stand for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import decoded
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Model


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of a file's text.

    Args:
        path: From the project's root, with forward slashes.
        start: Offset in characters (code points).
        end: Offset behind the last of them.
    """

    path: str
    start: int
    end: int


class Symbol(NamedTuple):
    """What a word stands for.

    Args:
        kind: `model`, `column` of a model, `inner` column of a query in a query, `cte`, or `alias`
            of a table.
        model: The model that it is, or in whose text it lies.
        name: The column's or the table's name in lower case.
        scope: Which query of the model's has it, for what is known inside of it alone.
    """

    kind: str
    model: ModelName
    name: str = ""
    scope: int = -1


class Mention(NamedTuple):
    """A word of a file with what it stands for.

    Args:
        defines: Whether it is made or named here.
        output: Whether the word also names an output column, which keeps its name when the word is
            exchanged only if it is said behind it.
        qualifies: Whether it is a table's own name in front of a column's.
        keeps: Text to write behind the word instead of a new word, with `{}` for the new name.
        by_hand: Whether only the author can change the word: an edit cannot be proved right.
    """

    span: Span
    symbol: Symbol
    defines: bool = False
    output: bool = False
    qualifies: bool = False
    keeps: str = ""
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Reading:
    """A project at one moment, as far as it can be read.

    Where a text that is being typed cannot be read, its models are those of its last readable one.

    Args:
        project: Has the models of the files that can be read.
        snapshots: Of the models whose queries are understood, parents first.
        mistakes: Everything that a plan would refuse, in the order of files and lines.
        warnings: What looks like a mistake.
        buffers: Texts of the files that are open in the editor, by path.
        broken: Files that are read by an earlier text of theirs.
    """

    project: Project
    snapshots: Mapping[ModelName, Snapshot]
    mistakes: tuple[ProjectError, ...] = ()
    warnings: tuple[Problem, ...] = ()
    buffers: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    @property
    def said(self) -> tuple[ProjectError | Problem, ...]:
        """Mistakes, and then warnings."""
        return (*self.mistakes, *self.warnings)

    def text(self, path: str) -> str:
        """Return what a file says now: the editor's text, or the folder's; '' without a file."""
        known = self.buffers.get(path)
        if known is not None:
            return known
        file = self.project.root / path
        return decoded(Path(path), file.read_bytes()) if file.is_file() else ""

    def models_of(self, path: str) -> list[Model]:
        """Return the models that a file defines, in the order of their places."""
        found = [m for m in self.project.models.values() if m.location.path.as_posix() == path]
        return sorted(found, key=lambda model: model.location.order)


def columns_of(snapshots: Mapping[ModelName, Snapshot], name: ModelName) -> list[str] | None:
    """Return the columns of a table in lower case; None where they are not known."""
    snapshot = snapshots.get(name)
    if snapshot is None or not snapshot.columns:
        return None
    return [column.name.lower() for column in snapshot.columns]
