"""Tables that nobody defines: no model, not declared, and not in the catalog."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem

_NEAR = 0.8
_FILES = frozenset(
    [
        "avro",
        "binaryfile",
        "csv",
        "delta",
        "hudi",
        "iceberg",
        "json",
        "orc",
        "parquet",
        "text",
        "xml",
    ],
)
"""Formats of files that Spark reads by their path, as in parquet.`/path`; in lower case."""
_NO_NAMESPACE = "default"
"""The namespace of names without one, unless the settings name another."""


def absent_tables(
    absent: Collection[ModelName], models: Mapping[ModelName, Model]
) -> Iterator[Problem]:
    """Say of each absent table which of ours is likely to be meant.

    Args:
        absent: Tables that are read and that are not there.
        models: All models, external ones included.
    """
    own = [name for name, model in models.items() if not model.kind.is_external]
    for name in absent:
        meant = _meant(name, own)
        file = name.namespace.lower() in _FILES
        readers = [str(one) for one, model in models.items() if name in _named(model)]
        reader = readers[0] if readers else "a model"
        what = f"{reader} reads {name}, which is no model, not declared and not in the catalog"
        hint = "declare tables that others write in external_models.yaml"
        if file:
            what = f"{reader} reads files by their path, {name.namespace}.`{name.name}`, "
            what += "which is looked up as a table of the lakehouse"
            hint = (
                "read them in a Python model, context.spark.read.format("
                f"'{name.namespace}').load('{name.name}'); a small CSV file is a SEED model"
            )
        elif meant is not None:
            hint = f"did you mean '{meant}'? Else {hint}"
        yield Problem(what, hint, models[name].location, certain=file or meant is not None)


def _named(model: Model) -> tuple[ModelName, ...]:
    return *model.depends_on, *model.audited_against


def _meant(name: ModelName, own: Collection[ModelName]) -> ModelName | None:
    """A model of nearly this name in a schema of nearly this name, or in any if none is given."""
    for candidate in own:
        same = candidate.name.lower() == name.name.lower()
        if name.namespace.lower() == _NO_NAMESPACE and same:
            return candidate
        if _one_letter_off(name.namespace.lower(), candidate.namespace.lower()) and (
            same or _is_near(name.name, candidate.name)
        ):
            return candidate
    return None


def _is_near(one: str, other: str) -> bool:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio() >= _NEAR


def _one_letter_off(one: str, other: str) -> bool:
    """Whether one letter is wrong, missing or too many, or two are in the wrong order."""
    shorter, longer = sorted((one, other), key=len)
    if one == other or len(longer) - len(shorter) > 1 or len(shorter) < 2:
        return False
    if len(shorter) < len(longer):
        return any(longer[:i] + longer[i + 1 :] == shorter for i in range(len(longer)))
    wrong = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(wrong) == 2:
        first, second = wrong
        return one[first] == other[second] and one[second] == other[first]
    return len(wrong) == 1
