"""Models of kinds that are made of files: what the files say is filled in when they are loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from vde_dagster.project.kinds import Custom, Kind, Seed
from vde_dagster.project.kinds.custom import FoundCode
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings


class Shared(Protocol):
    """What all files of a project share."""

    @property
    def settings(self) -> Settings:
        """The settings."""

    @property
    def materializations(self) -> Mapping[str, tuple[FoundCode, ...]]:
        """The functions that write tables, by name in lower case."""


Completer = Callable[[Shared, Model, Path], Model]
"""Takes what files share, a model as its header defines it, and its file relative to the root."""


def completed(shared: Shared, model: Model, path: Path) -> Model:
    """Return a model with what its kind's files say; most kinds have none.

    Raises:
        ProjectError: A file is missing or wrong.
    """
    complete = COMPLETERS.get(type(model.kind))
    return model if complete is None else complete(shared, model, path)


def _seed(shared: Shared, model: Model, path: Path) -> Model:
    from vde_dagster.project.reading.seeds import load_seed

    return load_seed(shared.settings, model, path)


def _custom(shared: Shared, model: Model, path: Path) -> Model:
    from vde_dagster.project.reading.materializations import with_its_code

    return with_its_code(model, shared.materializations)


COMPLETERS: dict[type[Kind], Completer] = {Seed: _seed, Custom: _custom}
