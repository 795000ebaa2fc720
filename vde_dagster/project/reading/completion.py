"""Models of kinds that are made of files: what the files say is filled in when they are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vde_dagster.project.kinds import Kind, Seed
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings

Completer = Callable[[Settings, Model, Path], Model]
"""Takes the settings, a model as its header defines it, and its file relative to the root."""


def completed(settings: Settings, model: Model, path: Path) -> Model:
    """Return a model with what its kind's files say; most kinds have none.

    Raises:
        ProjectError: A file is missing or wrong.
    """
    complete = COMPLETERS.get(type(model.kind))
    return model if complete is None else complete(settings, model, path)


def _seed(settings: Settings, model: Model, path: Path) -> Model:
    from vde_dagster.project.reading.seeds import load_seed

    return load_seed(settings, model, path)


COMPLETERS: dict[type[Kind], Completer] = {Seed: _seed}
