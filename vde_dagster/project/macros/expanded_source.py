"""Text that was made of a file's, for whoever reads it as if it were the file."""

from __future__ import annotations

from dataclasses import dataclass

from vde_dagster.errors import SourceLocation
from vde_dagster.project.macros.expanded import Expanded
from vde_dagster.sql.scanner import SourceText


@dataclass(frozen=True, slots=True)
class ExpandedSource(SourceText):
    """Text with variables replaced, whose places are those of the file.

    Args:
        file: The file.
        expanded: Knows where the text came from.
    """

    file: SourceText
    expanded: Expanded

    def location(self, offset: int) -> SourceLocation:
        """Return the line and column in the file."""
        return self.file.location(self.expanded.origin(max(offset, 0)))
