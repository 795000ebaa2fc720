"""Columns of other models, which some macros need.

A file that needs columns of a model that is not read yet is read again later, see
`loading/waiting_files.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, UsageError

if TYPE_CHECKING:
    from vde_dagster.base.names import ModelName
    from vde_dagster.project.macros.expansion import Expander
    from vde_dagster.project.table_names import TableNames

Columns = Mapping[str, str | None]
"""A model's columns in order: Spark SQL type by name, None if only Spark can infer it."""


class ColumnsWantedError(BaseException):
    """Signal that a file must wait for another file; it passes through the project's code.

    Args:
        name: Model whose columns are needed.
        mistake: Error if the columns cannot be determined; None if the file can do without.
    """

    def __init__(self, name: ModelName, mistake: ProjectError | None) -> None:
        super().__init__(str(name))
        self.name = name
        self.mistake = mistake


@dataclass(slots=True)
class KnownColumns:
    """Columns of models known during a load.

    Args:
        columns: Columns by model; None if the files do not determine them.
        files: Files that determine a model's columns.
        asked: Models whose columns the current file has asked for.
    """

    columns: dict[ModelName, Columns | None] = field(default_factory=dict)
    files: dict[ModelName, frozenset[str]] = field(default_factory=dict)
    asked: set[ModelName] = field(default_factory=set)

    def find(self, name: ModelName, mistake: ProjectError | None = None) -> Columns | None:
        """Return the columns of a model, or None if its files do not determine them.

        Raises:
            ColumnsWantedError: The columns are not known yet.
        """
        if self.columns.get(name) is None and (mistake is not None or name not in self.columns):
            raise ColumnsWantedError(name, mistake)
        self.asked.add(name)
        return self.columns[name]


def relation_columns(expander: Expander, relation: str) -> Columns:
    """Return the columns of a table that a macro names.

    Raises:
        ColumnsWantedError: The columns are not known yet.
        ProjectError: The name is invalid.
    """
    scope = expander.scope
    if scope.names is None or scope.known_columns is None:
        raise expander.error(f"the columns of {relation} are not known here")
    try:
        name = scope.names.read(relation.strip())
    except UsageError as problem:
        raise expander.error(problem.message, problem.hint) from None
    if len(ModelName.split(relation.strip())) == 1:
        name = _with_its_schema(name, expander.source.text, scope.names)
    mistake = expander.error(
        f"the columns of {name} are not known when the project is loaded",
        "declare them: in the model's header, or in external_models.yaml",
    )
    return scope.known_columns.find(name, mistake) or {}


def _with_its_schema(name: ModelName, text: str, names: TableNames) -> ModelName:
    """Return the table that a text reads under a name with a schema, if there is exactly one.

    SQLMesh's `columns_to_types` does the same: it compares as many parts of the name as are given
    with the tables that the model reads.
    """
    last = rf"[`\"]?{re.escape(name.name)}\b"
    written = re.findall(rf"\b(?:FROM|JOIN)\s+((?:[\w`\"]+\s*\.\s*)+{last})", text, re.IGNORECASE)
    parts = (re.sub(r"[`\"\s]", "", one).split(".") for one in written)
    found = {names.model_name_or_none(one) for one in parts} - {None}
    return found.pop() or name if len(found) == 1 else name
