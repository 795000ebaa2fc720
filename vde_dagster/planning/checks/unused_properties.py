"""Properties, statements and audits of a model's file that nothing here uses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.diagnostics import (
    Known,
    behind_header,
    compared_with,
    place_in_header,
    properties_in_header,
    repeated_properties,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.macros.variables import EVALUATING, PROMOTING, STAGE
from vde_dagster.project.model import Model
from vde_dagster.project.properties.model_properties import METADATA

_OF_CATALOGS = {"default_catalog": "models live in the project's catalog"}
_OF_TABLES = {
    "partitioned_by": "has no table to be partitioned",
    "clustered_by": "has no table to be sorted",
    "table_properties": "has no table to have properties",
    "physical_properties": "has no table to have properties",
    "storage_format": "has no table to have a format",
}
_OF_KINDS = {
    "materialized": "neither Spark nor Iceberg has materialised views; a FULL model has a table",
    "batch_size": "all of it is filled at once",
    "forward_only": "it is made anew with every change",
}
_NO_STAGES = {
    "loading": "macros run once, when files are read, and what they write is what runs",
    "creating": "a table is made by the fill that first writes it",
    "demoting": "nothing runs when a view is dropped",
}
_OF_VIEWS = {"virtual_properties": "has no view to have properties"}


def unused_properties(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find properties that change nothing."""
    model, kind = known.model, known.model.kind
    given = properties_in_header(model)
    for name, why in {**METADATA, **_OF_CATALOGS}.items():
        if name in given:
            yield _idle(model, name, f"property '{name}' does nothing here: {why}")
    for name in repeated_properties(model):
        message = f"property '{name}' is given twice; the last one counts"
        place = place_in_header(model, name, name)
        yield Problem(message, "remove the other one", place, certain=False)
    lacking = ({} if kind.owns_table else _OF_TABLES) | ({} if kind.is_shown else _OF_VIEWS)
    for name, why in lacking.items():
        if name in given:
            yield _idle(model, name, f"property '{name}' does nothing: a {kind.name} model {why}")
    # How the kind's own SQL is written is read with it.
    read = {item.name for item in kind.properties} | {"name", "dialect"}
    for name in sorted(given.get("kind", frozenset()) - read):
        why = f": {_OF_KINDS[name]}" if name in _OF_KINDS else ""
        yield _idle(model, name, f"property '{name}' does nothing for a {kind.name} model{why}")


def unused_statements(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find statements and audits that nobody runs, or that do not do what they say."""
    model, kind = known.model, known.model.kind
    groups = {
        "statements before and after its query are": model.pre_statements or model.post_statements,
        "statements on virtual update are": model.on_virtual_update,
        "audits are": model.audits,
    }
    for what, given in groups.items():
        if given and not kind.is_shown and not kind.is_audited:
            yield Problem(
                f"{model.name} is {kind.name}, a part of its readers' queries: its {what} not run",
                "move them to the models that read it, or make it a VIEW",
                model.location,
                certain=False,
            )
    for following, place in behind_header(model, "CACHE"):
        if following.is_word("TABLE", "LAZY"):
            yield Problem(
                f"{model.name}: nothing is kept in Spark's cache; what CACHE TABLE names is a part "
                "of each query that reads it",
                "write CREATE TEMPORARY VIEW, or make what is read several times a model",
                place,
                certain=False,
            )


def unused_stages(known: Known, parents: Mapping[ModelName, Snapshot]) -> Iterator[Problem]:
    """Find parts of a file that are for a stage of SQLMesh's that there is not here."""
    for stage, place in compared_with(known.model, STAGE):
        if stage in _NO_STAGES:
            yield Problem(
                f"{known.model.name}: @{STAGE} is never '{stage}' here: {_NO_STAGES[stage]}",
                f"write it for '{EVALUATING}', or '{PROMOTING}' on virtual update",
                place,
                certain=False,
            )


def _idle(model: Model, name: str, message: str) -> Problem:
    return Problem(message, f"remove '{name}'", place_in_header(model, name), certain=False)
