"""What one file of a project yields, before the files are put together."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.model import Model

if TYPE_CHECKING:
    from vde_dagster.project.unit_values import UnitTest


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model with the places where it and its audits name other tables.

    Args:
        model: The model.
        reads: Place of the first mention, by table.
    """

    model: Model
    reads: dict[ModelName, SourceLocation] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """The models and unit tests of one file.

    Args:
        path: The file, relative to the project's root.
        models: Its models.
        tests: Its unit tests.
        uses: Other files that were read on its behalf (a seed's CSV, imported modules, what its
            macros opened), or would have been, had they been there.
        variables: Environment variables that were read on its behalf; `*` for all of them.
        catalogs: Other catalogs that it names, which no setting names.
        repeatable: Whether nothing else was asked, so that it need not be read again while
            these are as they were.
    """

    path: Path
    models: tuple[LoadedModel, ...] = ()
    tests: tuple[UnitTest, ...] = ()
    uses: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    catalogs: tuple[str, ...] = ()
    repeatable: bool = True
