"""The project in the editor: files, unsaved texts, and the meaning of their words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.files import decode_text
from vde_dagster.project.loading.loader import Project
from vde_dagster.project.model import Model


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a file's text.

    Args:
        path: From the project's root, with forward slashes.
        start: Offset in characters (code points).
        end: Offset after the last character.
    """

    path: str
    start: int
    end: int


class Symbol(NamedTuple):
    """A model, column, CTE or alias that words refer to.

    Args:
        kind: `model`, `column` of a model, `inner` column of a nested query, `cte`, or `alias` of a
            table.
        model: The model itself, or the model whose text contains the symbol.
        name: The column's or the table's name in lower case.
        scope: Number of the nested query that the symbol is limited to; -1 for the whole model.
    """

    kind: str
    model: ModelName
    name: str = ""
    scope: int = -1


class Mention(NamedTuple):
    """A word of a file, and the model, column, CTE or alias that it refers to.

    Args:
        defines: Whether the word defines or names the object.
        output: Whether the word reads a column and also names an output column, as `a` in
            `SELECT a`. If only the column is renamed, `SELECT b AS a` keeps the output's name.
        qualifies: Whether the word is a table's name, not an alias, before a column.
        keeps: If not empty, a rename keeps the word and adds this text after it, such as
            `, expr: {}` with the new name in place of `{}`.
        by_hand: Whether only the author can change the word.
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
    """A project as analyzed at one moment, with the unsaved texts of the editor.

    A file that cannot be read is represented by its last readable text.

    Args:
        project: The project, with the models of the readable files.
        snapshots: Snapshots of the models whose queries can be analyzed, parents first.
        mistakes: All mistakes that a plan would report, in the order of files and lines.
        warnings: Possible mistakes.
        buffers: Texts of the files that are open in the editor, by path.
        broken: Files that are represented by an earlier text.
    """

    project: Project
    snapshots: Mapping[ModelName, Snapshot]
    mistakes: tuple[ProjectError, ...] = ()
    warnings: tuple[Problem, ...] = ()
    buffers: Mapping[str, str] = field(default_factory=dict)
    broken: frozenset[str] = frozenset()

    @property
    def problems(self) -> tuple[ProjectError | Problem, ...]:
        return (*self.mistakes, *self.warnings)

    def text(self, path: str) -> str:
        """Return a file's text from the editor, or else from disk; "" for a missing file."""
        known = self.buffers.get(path)
        return file_text(self.project.root, path) if known is None else known

    def models_in(self, path: str) -> list[Model]:
        found = [m for m in self.project.models.values() if m.location.path.as_posix() == path]
        return sorted(found, key=lambda model: model.location.order)


def file_text(root: Path, path: str) -> str:
    """Return a file's text on disk, with U+FFFD for invalid bytes; "" for a missing file."""
    file = root / path
    content = file.read_bytes() if file.is_file() else b""
    try:
        return decode_text(Path(path), content)
    except ProjectError:  # Diagnostics report it.
        return content.decode(errors="replace")


def column_names(snapshots: Mapping[ModelName, Snapshot], name: ModelName) -> list[str] | None:
    snapshot = snapshots.get(name)
    if snapshot is None or not snapshot.columns:
        return None
    return [column.name.lower() for column in snapshot.columns]
