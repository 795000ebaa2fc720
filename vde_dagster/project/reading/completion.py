"""Kinds that files complete: seeds by their CSV, CUSTOM models by a function of the project."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path

from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError, SourceLocation, Unknown
from vde_dagster.project.kinds import Custom, Seed
from vde_dagster.project.kinds.incremental import FoundCode
from vde_dagster.project.model import Model
from vde_dagster.project.settings import Settings
from vde_dagster.sql.scanner import SourceText


def completed(
    model: Model, path: Path, settings: Settings, code: Mapping[str, tuple[FoundCode, ...]]
) -> Model:
    """Return a model with what its kind's files say; most kinds have none.

    Args:
        model: The model as its header defines it.
        path: Its file, relative to the root.
        code: The project's functions that write tables, by name in lower case.

    Raises:
        ProjectError: A file is missing or wrong.
    """
    if isinstance(model.kind, Seed):
        from vde_dagster.project.reading.seeds import load_seed

        return load_seed(settings, model, path)
    return _with_its_code(model, code) if isinstance(model.kind, Custom) else model


def _with_its_code(model: Model, known: Mapping[str, tuple[FoundCode, ...]]) -> Model:
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
