"""Columns of other models, which some macros need.

A file that needs columns of a model that is not read yet is read later, see
`loading/waiting_files.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError

Columns = Mapping[str, str | None]
"""A model's columns in order: Spark SQL type by name, None if no type is declared."""


class ColumnsWantedError(BaseException):  # So that code of a project does not catch it.
    """Raised if a file needs columns of a model that is not read yet. The file is read later.

    Args:
        name: Model whose columns are needed.
        mistake: Error if the columns cannot be determined; None if the file does not require them.
    """

    def __init__(self, name: ModelName, mistake: ProjectError | None) -> None:
        super().__init__(str(name))
        self.name = name
        self.mistake = mistake


@dataclass(slots=True)
class KnownColumns:
    """The columns of models, as far as files determine them.

    Args:
        columns: Columns by model; None if the files do not determine them.
        files: Files that determine a model's columns.
        asked: Models whose columns the current file has requested.
    """

    columns: dict[ModelName, Columns | None] = field(default_factory=dict)
    files: dict[ModelName, frozenset[str]] = field(default_factory=dict)
    asked: set[ModelName] = field(default_factory=set)

    def find(self, name: ModelName, mistake: ProjectError | None = None) -> Columns | None:
        """Return a model's columns, or None if its files do not determine them.

        Raises:
            ColumnsWantedError: The columns are not known yet. With `mistake`, also if the model's
                files do not determine them.
        """
        if self.columns.get(name) is None and (mistake is not None or name not in self.columns):
            raise ColumnsWantedError(name, mistake)
        self.asked.add(name)
        return self.columns[name]
