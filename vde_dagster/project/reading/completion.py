"""Kinds that files complete: seeds by their CSV, CUSTOM models by a function of the project."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from vde_dagster.base.suggestions import suggest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.kinds import Custom, Kind, Seed
from vde_dagster.project.kinds.incremental import FoundCode
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings
from vde_dagster.sql.scanner import SourceText


class Shared(Protocol):
    """The context shared by all files of a project."""

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
    return with_its_code(model, shared.materializations)


COMPLETERS: dict[type[Kind], Completer] = {Seed: _seed, Custom: _custom}


def with_its_code(model: Model, known: Mapping[str, tuple[FoundCode, ...]]) -> Model:
    """Return a model with the code of the function that writes its table.

    Args:
        known: The functions of the project, by name in lower case.

    Raises:
        ProjectError: No file has such a function, or several have.
    """
    assert isinstance(model.kind, Custom)
    wanted = model.kind.materialization
    found = known.get(wanted.lower(), ())
    if len(found) > 1:
        places = " and ".join(one.entrypoint.rpartition(":")[0] for one in found)
        raise ProjectError(
            f"the materialization '{wanted}' is defined in {places}",
            hint="give one of them another name",
            location=model.location,
        )
    if not found:
        hint = f"write a function under @materialization('{wanted}') in materializations/"
        raise ProjectError(
            f"{model.name} asks for the materialization '{wanted}', which no file defines",
            hint=suggest(wanted, known, "materializations") if known else hint,
            location=_place(model, wanted),
            unknown=Unknown("materialization", wanted),
        )
    entrypoint, code, outside = found[0]
    kind = dataclasses.replace(model.kind, entrypoint=entrypoint, code=code, outside=outside)
    return dataclasses.replace(model, kind=kind)


def _place(model: Model, wanted: str) -> SourceLocation:
    """Return the place at which a header names its materialization."""
    source = SourceText(model.location.path, model.source)
    lines = model.source.splitlines(keepends=True)[: (model.location.line or 1) - 1]
    named = re.compile(rf"materialization\W+{re.escape(wanted)}", re.IGNORECASE)
    found = named.search(model.source, sum(map(len, lines)))
    return model.location if found is None else source.location(found.end() - len(wanted))
