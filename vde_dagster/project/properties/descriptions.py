"""Descriptions of models in separate files, `docs.yml`.

    marts.routes:
      description: Routes of a year
      columns:
        origin: Airport of departure

Descriptions in a model's own file override them; empty descriptions are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import closest, did_you_mean, suggest
from vde_dagster.errors import UsageError, placed
from vde_dagster.project.model import Described, LoadedFile, Model
from vde_dagster.project.table_names import TableNames
from vde_dagster.project.yaml_text import KeyPath, YamlDocument, load_yaml

KEYS = ("description", "columns")


def load_descriptions(path: Path, text: str, names: TableNames) -> LoadedFile:
    """Read a file `docs.yml`; raise ProjectError if it has an invalid form."""
    return LoadedFile(path, described=read_descriptions(load_yaml(path, text), names))


def read_descriptions(document: YamlDocument, names: TableNames) -> tuple[Described, ...]:
    """Read a parsed file `docs.yml`; raise ProjectError if it has an invalid form."""
    form = "write\n  schema.model:\n    description: text\n    columns:\n      column: text"
    if document.value is None:
        return ()
    if not isinstance(document.value, dict):
        raise document.error((), "descriptions must be a table by model", form)
    found: dict[ModelName, Described] = {}
    for key, entry in document.value.items():
        one = _read_entry(document, key, entry, names, form)
        if one.model in found:
            message = f"{one.model} is described twice, first in {found[one.model].location}"
            raise document.error((str(key),), message, "describe it once")
        found[one.model] = one
    return tuple(found.values())


def _read_entry(
    document: YamlDocument, key: Any, entry: Any, names: TableNames, form: str
) -> Described:
    keys: KeyPath = (str(key),)
    place = document.location(keys)
    with placed(place):
        if str(key).count(".") not in (1, 2):
            raise UsageError(f"'{key}' is not a model name", hint="write schema.model")
        model = names.read(str(key))
    if entry is None:
        return Described(model, None, {}, place, {})
    if not isinstance(entry, dict):
        raise document.error(keys, f"the entry of {model} has no 'description'", form)
    for word in entry:
        if word not in KEYS:
            hint = suggest(str(word), KEYS)
            raise document.error((*keys, str(word)), f"unknown key '{word}' of {model}", hint)
    texts = entry.get("columns") or {}
    if not isinstance(texts, dict):
        raise document.error(
            (*keys, "columns"), f"columns of {model} must have the form 'name: text'", form
        )
    columns: dict[str, str] = {}
    places = {}
    for name, value in texts.items():
        below = (*keys, "columns", name)
        if not isinstance(name, str):  # YAML reads `no`, `on` and `1` as other types.
            message = f"the name of a column of {model}, {name!r}, is not a text in YAML"
            raise document.error((*keys, "columns"), message, "put its name in quotes")
        if name.lower() in (one.lower() for one in columns):
            raise document.error(below, f"column {name} of {model} is described twice")
        columns[name] = _read_text(document, below, value)
        places[name] = document.location(below)
    text = _read_text(document, (*keys, "description"), entry.get("description"))
    return Described(model, text or None, columns, place, places)


def _read_text(document: YamlDocument, keys: KeyPath, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        message = f"the description {value!r} is not a text"
        raise document.error(keys, message, "put it in quotes")
    return value.strip()


def with_descriptions(
    models: Mapping[ModelName, Model], files: Iterable[LoadedFile]
) -> tuple[dict[ModelName, Model], list[Problem]]:
    """Return the models with the descriptions from files, and warnings."""
    made = dict(models)
    problems: list[Problem] = []
    known: dict[ModelName, Described] = {}
    for one in (each for file in files for each in file.described):
        model = models.get(one.model)
        if model is None:
            near = closest(str(one.model), [str(name) for name in models])
            hint = "name a model, or remove it"
            hint = did_you_mean(str(one.model), near, f" {hint}") if near else hint
            problems.append(_warning(f"{one.model} is described, but is not a model", hint, one))
        elif one.model in known:
            message = (
                f"{one.model} is already described in {known[one.model].location}; "
                "this description is ignored"
            )
            problems.append(_warning(message, "describe it in one file", one))
        else:
            known[one.model] = one
            problems += _find_conflicts(model, one)
            made[one.model] = _add_description(model, one)
    return made, problems


def _warning(message: str, hint: str, one: Described, column: str | None = None) -> Problem:
    place = one.location if column is None else one.places[column]
    return Problem(message, hint, place, certain=False)


def own_descriptions(model: Model) -> dict[str, str]:
    """Return the descriptions of columns in a model's own file, by lower-case name."""
    declared = {one.name.lower(): one.description for one in model.columns if one.description}
    texts = {name.lower(): text for name, text in model.column_descriptions.items() if text}
    return {**declared, **texts}


def _add_description(model: Model, one: Described) -> Model:
    own = own_descriptions(model)
    added = {name: text for name, text in one.columns.items() if text and name.lower() not in own}
    return replace(
        model,
        description=model.description or one.description,
        column_descriptions={**model.column_descriptions, **added},
        described_in={name.lower(): one.places[name] for name in added},
    )


def _find_conflicts(model: Model, one: Described) -> Iterator[Problem]:
    own = own_descriptions(model)
    hint = f"keep one description; the one in {model.location} is used"
    if one.description and model.description and one.description != model.description.strip():
        message = f"{one.model} has a different description in its own file"
        yield _warning(message, hint, one)
    for name, text in one.columns.items():
        said = own.get(name.lower())
        if text and said and said.strip() != text:
            message = f"{one.model}.{name} has a different description in its own file"
            yield _warning(message, hint, one, name)
