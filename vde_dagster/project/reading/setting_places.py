"""Where a project's settings are written: in `[tool.vde]`, or in SQLMesh's configuration."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vde_dagster.errors import ProjectError, SourceLocation

PYPROJECT = Path("pyproject.toml")


@dataclass(frozen=True, slots=True)
class SettingPlaces:
    """The places of settings.

    Args:
        text: The text of `pyproject.toml`.
        taken: Places of those that another file gives, by dotted name.
    """

    text: str
    taken: Mapping[str, SourceLocation] = field(default_factory=dict)

    def problem(self, key: str, message: str, hint: str) -> ProjectError:
        """Make an error that points at a setting, given by its dotted name."""
        return ProjectError(message, hint=hint, location=self.of(key))

    def of(self, key: str) -> SourceLocation:
        """Return the place of a setting, as well as a search can find it."""
        if key in self.taken:
            return self.taken[key]
        section = ""
        wanted = ["tool", "vde", *(key.split(".") if key else [])]
        section_line = None
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[\s*([^\]]+?)\s*\]", line)
            if header:
                section = header[1].replace('"', "")
                if section.split(".") == wanted[: len(section.split("."))] and "vde" in section:
                    section_line = number
                continue
            assignment = re.match(r"\s*([\w.\"-]+)\s*=", line)
            if assignment and section:
                path = [*section.split("."), *assignment[1].replace('"', "").split(".")]
                if path[: len(wanted)] == wanted or (len(path) > 2 and path == wanted[: len(path)]):
                    return SourceLocation(PYPROJECT, number)
        return SourceLocation(PYPROJECT, section_line)
