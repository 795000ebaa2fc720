"""Values of a SQLMesh configuration, each with its place, and the files that decided them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.python.watching import Seen

if TYPE_CHECKING:
    from vde_dagster.project.yaml_text import KeyPath


@dataclass(frozen=True, slots=True)
class WrittenConfig:
    """A configuration as it is written, not checked yet.

    Args:
        path: The file, relative to the project's folder.
        lines: Line of every value by the keys that lead to it, as far as it is known.
        seen: Files and environment variables that decided what it says.
        above: What won over it, key by key.
    """

    path: Path
    values: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    above: WrittenConfig | None = None

    def location(self, keys: KeyPath) -> SourceLocation:
        """Return the place of a value, or of the nearest thing around it."""
        if self.above is not None and keys in self.above.lines:
            return self.above.location(keys)
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return SourceLocation(self.path, self.lines.get(keys))

    def error(self, keys: KeyPath, message: str, hint: str | None = None) -> ProjectError:
        """Make an error that points at a value."""
        return ProjectError(message, hint=hint, location=self.location(keys))
