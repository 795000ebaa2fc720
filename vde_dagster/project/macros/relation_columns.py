"""Columns of other models, which some macros ask for.

A file that asks for columns of a model which is not read yet is read again when it is, see
`loading/waiting_files.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vde_dagster.base.names import split_identifier
from vde_dagster.errors import ProjectError, UsageError

if TYPE_CHECKING:
    from vde_dagster.base.names import ModelName
    from vde_dagster.project.macros.expansion import Expander

Columns = Mapping[str, str | None]
"""A model's columns in order: Spark SQL type by name, None where only Spark can tell."""


class ColumnsWantedError(BaseException):
    """A file has to wait for another one; it passes through the project's own code.

    Args:
        name: The model whose columns are wanted.
        mistake: The error if nobody can tell them; None where the file does without.
        asked_in: The file's text where the name was written without a schema, else empty.
    """

    def __init__(self, name: ModelName, mistake: ProjectError | None, asked_in: str = "") -> None:
        super().__init__(str(name))
        self.name = name
        self.mistake = mistake
        self.asked_in = asked_in


@dataclass(slots=True)
class KnownColumns:
    """Columns of models known during a load.

    Args:
        columns: By model; None where the files do not tell them.
        files: The files that decide a model's columns.
        asked: The models that the file being read asked for.
        shortened: Names without a schema that stand for the one model of that name which the file
            names with its schema.
    """

    columns: dict[ModelName, Columns | None] = field(default_factory=dict)
    files: dict[ModelName, frozenset[str]] = field(default_factory=dict)
    asked: set[ModelName] = field(default_factory=set)
    shortened: set[ModelName] = field(default_factory=set)

    def of(
        self, name: ModelName, mistake: ProjectError | None = None, asked_in: str = ""
    ) -> Columns | None:
        """Return the columns of a model, or None where its files do not tell them.

        Raises:
            ColumnsWantedError: They are not known yet.
        """
        if self.columns.get(name) is None and (mistake is not None or name not in self.columns):
            raise ColumnsWantedError(name, mistake, asked_in)
        self.asked.add(name)
        return self.columns[name]


def columns_of(expander: Expander, relation: str) -> Columns:
    """Return the columns of a table that a macro names.

    Raises:
        ColumnsWantedError: They are not known yet.
        ProjectError: The name is none.
    """
    scope = expander.scope
    if scope.names is None or scope.known_columns is None:
        raise expander.error(f"the columns of {relation} are not known here")
    try:
        name = scope.names.read(relation.strip())
    except UsageError as problem:
        raise expander.error(problem.message, problem.hint) from None
    mistake = expander.error(
        f"the columns of {name} are not known when the project is loaded",
        "declare them: in the model's header, or in external_models.yaml",
    )
    shortened = len(split_identifier(relation.strip())) == 1
    asked_in = expander.source.text if shortened else ""
    return scope.known_columns.of(name, mistake, asked_in) or {}
