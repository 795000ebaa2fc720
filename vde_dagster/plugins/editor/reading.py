"""The project as the editor has it: files of the folder, and texts that are not saved yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import Project


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


@dataclass(frozen=True, slots=True)
class Reading:
    """A project at one moment, as far as it can be read.

    Args:
        project: Has the models of the files that can be read, and the mistakes of the others.
        snapshots: Of the models whose queries are understood, parents first.
        mistakes: Everything that a plan would refuse, in the order of files and lines.
        buffers: Texts of the files that are open in the editor, by path.
    """

    project: Project
    snapshots: Mapping[ModelName, Snapshot]
    mistakes: tuple[ProjectError, ...] = ()
    buffers: Mapping[str, str] = field(default_factory=dict)

    def text(self, path: str) -> str:
        """Return what a file says now: the editor's text, or the folder's; '' without a file."""
        known = self.buffers.get(path)
        if known is not None:
            return known
        file = self.project.root / path
        return file.read_text(encoding="utf-8-sig") if file.is_file() else ""
