"""Unit tests of models as asset checks: their names, what they say, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.execution.unit_testing.test_report import ToldDifference, ToldTest
from vde_dagster.orchestration.events.provenance import ProjectionContext
from vde_dagster.orchestration.models.catalog import AssetCatalog, check_names
from vde_dagster.orchestration.models.translator import safe_name
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, EVALUATION, PLAN_TAG
from vde_dagster.orchestration.pages.markdown import markdown_table
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model, UnitTest

if TYPE_CHECKING:
    from vde_dagster.state import StateStore

BY_ITSELF = "working copy"
"""Stands for the environment of a test that ran by itself: it is of the files."""


def unit_test_checks(
    model: Model, tests: Sequence[UnitTest], asset: dg.AssetKey
) -> Iterator[dg.AssetCheckSpec]:
    """Yield the check of each unit test of a model."""
    names = unit_test_names(model, tests)
    for test in tests:
        said = f": {test.description}" if test.description else ""
        yield dg.AssetCheckSpec(
            names[_place(test)],
            asset=asset,
            description=f"Unit test `{test.name}`{said}. It runs with a plan that changes the "
            "model; when it fails nothing is computed or published.",
        )


def unit_test_names(model: Model, tests: Sequence[UnitTest]) -> dict[tuple[str, str], str]:
    """Return the checks' names of a model's unit tests by name and file; none is an audit's."""
    taken = set(check_names(model.audits).values())
    names: dict[tuple[str, str], str] = {}
    for test in tests:
        name = safe_name(test.name)[:80]
        name = name if name.startswith("test_") else f"test_{name}"
        if name in taken:
            name = f"{name}_{digest(*_place(test))[:6]}"
        taken.add(name)
        names[_place(test)] = name
    return names


def unit_test_event(
    context: ProjectionContext, told: ToldTest, snapshot: Snapshot
) -> dg.AssetCheckEvaluation | dg.AssetObservation:
    """Return the event of the end of a unit test that ran with a plan.

    Dagster keeps one status of a check, that of the published model. So what a plan has not
    published, or not to production, is an observation where production shows the model.
    """
    evaluation = unit_test_evaluation(context.catalog, told, snapshot)
    if decides(context.store, told):
        return evaluation
    ended = "passed" if told.passed else f"failed ({told.summary}), so nothing was published"
    tags = {ENVIRONMENT_TAG: told.environment, PLAN_TAG: told.plan}
    return dg.AssetObservation(
        asset_key=evaluation.asset_key,
        description=f"{told.environment}: unit test {told.test} {ended}",
        metadata=evaluation.metadata,
        tags={key: value for key, value in tags.items() if value is not None},
    )


def decides(store: StateStore, told: ToldTest) -> bool:
    """Say whether the check shows how a test ended: not what only a plan knows that failed."""
    shown = store.environments.entry(PRODUCTION, told.model)
    if shown is None:
        return True
    ours = told.environment == PRODUCTION or shown.snapshot_id == told.snapshot
    return told.passed and ours


def unit_test_evaluation(
    catalog: AssetCatalog, told: ToldTest, snapshot: Snapshot
) -> dg.AssetCheckEvaluation:
    """Return the evaluation of a unit test, with the rows that differ."""
    own = UnitTest(told.test, told.model, SourceLocation(Path(told.file)), (), None)
    known = catalog.live.tests.get(snapshot.name, ())
    # The code location may have been loaded before the test was written.
    tests = known if _place(own) in map(_place, known) else (*known, own)
    metadata: dict[str, Any] = {
        "vde/test": told.test,
        "vde/file": told.place,
        "vde/version": snapshot.table_version,
        "vde/environment": told.environment or BY_ITSELF,
        "vde/missing_rows": sum(found.missing_rows for found in told.differences),
        "vde/unexpected_rows": sum(found.unexpected_rows for found in told.differences),
        EVALUATION: told.id,
    }
    if told.plan is not None:
        metadata["vde/plan"] = told.plan
    if told.remembered:
        metadata["vde/remembered"] = "passed before; neither it nor the model changed since"
    if told.error is not None:
        metadata["vde/error"] = told.error
    for found in told.differences:
        what = "rows" if found.part == "query" else f"rows_of_{safe_name(found.part)}"
        metadata[f"vde/{what}"] = dg.MetadataValue.md(_difference(found))
    return dg.AssetCheckEvaluation(
        asset_key=catalog.key(snapshot.name),
        check_name=unit_test_names(snapshot.model, tests)[_place(own)],
        passed=told.passed,
        metadata=metadata,
        severity=dg.AssetCheckSeverity.ERROR,
        description=told.summary,
    )


def last_unit_tests(context: ProjectionContext, busy: Set[str]) -> Iterator[ToldTest]:
    """Yield how each unit test ended last, by what its check shows and by what it does not."""
    tests = context.catalog.live.tests
    declared = {(name, *_place(test)) for name, own in tests.items() for test in own}
    latest: dict[tuple[ModelName, str, str, bool], ToldTest] = {}
    for record in context.store.outbox.of_kind("test") if declared else ():
        told = ToldTest.from_json(record.subject)
        if told.plan not in busy and (told.model, told.test, told.file) in declared:
            key = (told.model, told.test, told.file, decides(context.store, told))
            latest.pop(key, None)
            latest[key] = told
    yield from latest.values()


def _difference(found: ToldDifference) -> str:
    """Write both kinds of rows under one header; a first column says which is which."""
    rows = [
        {"": word, **dict(zip(found.columns, row, strict=True))}
        for word, some in (("expected", found.missing), ("returned", found.unexpected))
        for row in some
    ]
    left = found.missing_rows + found.unexpected_rows - len(rows)
    return markdown_table(rows) + (f"\n\nand {left:,} more rows" if left else "")


def _place(test: UnitTest) -> tuple[str, str]:
    return test.name, test.location.path.as_posix()
