"""Places of settings in `pyproject.toml`, for errors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.settings import PYPROJECT


@dataclass(frozen=True, slots=True)
class SettingPlaces:
    """Finds the line of a setting in its file, for errors.

    Args:
        text: Text of `pyproject.toml`.
        taken: Places of settings in SQLMesh's configuration file, by dotted name.
    """

    text: str
    taken: Mapping[str, SourceLocation] = field(default_factory=dict)

    def problem(self, key: str, message: str, hint: str) -> ProjectError:
        """Create an error at the line of a setting, such as `spark.master`."""
        return ProjectError(message, hint=hint, location=self.find(key))

    def find(self, key: str) -> SourceLocation:
        """Return the line of a setting, from `taken` or by a search in the text."""
        if key in self.taken:
            return self.taken[key]
        section = ""
        wanted = ["tool", "vde", *(key.split(".") if key else [])]
        section_line, arrays = None, list[str]()
        for number, line in enumerate(self.text.splitlines(), start=1):
            header = re.match(r"\s*\[(\[?)\s*([^\]]+?)\s*\]", line)
            if header:
                section = header[2].replace('"', "")
                if header[1]:  # `[[budgets.plan]]` begins the table `budgets.plan.0`.
                    arrays.append(section)
                    section += f".{arrays.count(section) - 1}"
                if section.split(".") == wanted[: len(section.split("."))] and "vde" in section:
                    section_line = number
                continue
            assignment = re.match(r"\s*([\w.\"-]+)\s*=", line)
            if assignment and section:
                path = [*section.split("."), *assignment[1].replace('"', "").split(".")]
                if path[: len(wanted)] == wanted or (len(path) > 2 and path == wanted[: len(path)]):
                    return SourceLocation(PYPROJECT, number)
        return SourceLocation(PYPROJECT, section_line)
