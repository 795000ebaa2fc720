"""A model's checks by themselves: audits of what is published, unit tests of the files."""

# Dagster reads the annotations of its functions, so they are not postponed here.
from collections.abc import Iterator, Set
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.events.checks import Audited, AuditEvents
from vde_dagster.orchestration.events.publication import combination_of
from vde_dagster.orchestration.events.unit_test_checks import (
    unit_test_checks,
    unit_test_evaluation,
    unit_test_names,
)
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.models.catalog import AssetCatalog, check_names
from vde_dagster.orchestration.models.translator import safe_name
from vde_dagster.orchestration.names import POOL
from vde_dagster.planning.environment import PRODUCTION
from vde_dagster.project.model import Model

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def execute_checks(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    workspace: "Workspace",
    catalog: AssetCatalog,
    name: ModelName,
    chosen: Set[str],
) -> Iterator[dg.AssetCheckResult]:
    """Run a model's chosen checks, and yield what they found.

    Args:
        context: The step.
        workspace: The project.
        catalog: The code location's models.
        name: The model.
        chosen: The checks' names.
    """
    audits = _audits(context, workspace, catalog, name, chosen)
    for evaluation in (*audits, *_unit_tests(workspace, catalog, name, chosen)):
        yield _result(evaluation)


def audit_checks(
    catalog: AssetCatalog, model: Model, asset: dg.AssetKey
) -> Iterator[dg.AssetCheckSpec]:
    """Yield the check of each audit of a model.

    Args:
        catalog: The code location's models.
        model: The model.
        asset: Its asset.
    """
    names = check_names(model.audits)
    for audit in model.audits:
        said = "rows that fail it stop the publication" if audit.blocking else "warns"
        yield dg.AssetCheckSpec(
            names[audit.label],
            asset=asset,
            additional_deps=[catalog.key(one) for one in audit.reads if one != model.name],
            blocking=audit.blocking,
            description=f"`{audit.label}`: {said}",
        )


def checks_alone(
    catalog: AssetCatalog, spec: dg.AssetSpec, name: ModelName
) -> dg.AssetChecksDefinition | None:
    """Return the checks of a model that is never materialised, so that they can be executed.

    Unit tests are those of any model, audits those of what has no table of its own to fill.

    Args:
        catalog: The code location's models.
        spec: The model's spec.
        name: The model.
    """
    model = catalog.live.models[name].snapshot.model
    tests = catalog.live.tests.get(name, ())
    specs = list(unit_test_checks(model, tests, spec.key)) if tests else []
    if model.kind.is_audited and not model.kind.is_shown:
        specs += audit_checks(catalog, model, spec.key)
    if not specs:
        return None

    @dg.multi_asset_check(
        name=safe_name("__".join((*spec.key.path, "checks"))),
        specs=specs,
        can_subset=True,
        required_resource_keys={catalog.names.resource},
        pool=POOL,
    )
    def steps(context: dg.AssetCheckExecutionContext) -> Iterator[dg.AssetCheckResult]:
        workspace = catalog.names.workspace(context)
        chosen = {key.name for key in context.selected_asset_check_keys}
        yield from execute_checks(context, workspace, catalog, name, chosen)

    return steps


def _result(evaluation: dg.AssetCheckEvaluation) -> dg.AssetCheckResult:
    return dg.AssetCheckResult(
        asset_key=evaluation.asset_key,
        check_name=evaluation.check_name,
        passed=evaluation.passed,
        metadata=evaluation.metadata,
        severity=evaluation.severity,
        description=evaluation.description,
    )


def _audits(
    context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext,
    workspace: "Workspace",
    catalog: AssetCatalog,
    name: ModelName,
    chosen: Set[str],
) -> Iterator[dg.AssetCheckEvaluation]:
    """Audit what the environment shows whose status the checks have: production, if it can."""
    shown = [found.name for found in catalog.live.environments.values() if name in found.entries]
    found = sorted(shown, key=lambda environment: (environment != PRODUCTION, environment))
    with as_failure():
        environment = workspace.store.environments.get(found[0]) if found else None
    if environment is None or name not in environment.entries:
        context.log.warning(f"no environment shows {name}: there is nothing to audit")
        return
    combination = combination_of(workspace.store, environment)
    entry = environment.entries[name]
    snapshot = combination.snapshots[entry.snapshot_id]
    names = check_names(snapshot.model.audits)
    labels = {label for label, check in names.items() if check in chosen}
    if not labels:
        return
    with as_failure():
        report = workspace.audit(environment.name, select=[str(name)], labels=labels)
    audited = Audited(
        snapshot,
        combination.tables[entry.table_id] if entry.table_id else None,
        workspace.store.audits.results(plan_id=report.run.id),
        environment.name,
        environment.version,
        report.run.id,
    )
    events = AuditEvents(catalog, workspace.store, context.instance)
    for audit in snapshot.model.audits:
        if audit.label in labels:
            yield from events.evaluation(audited, audit)


def _unit_tests(
    workspace: "Workspace", catalog: AssetCatalog, name: ModelName, chosen: Set[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    """Run unit tests of the files as they are now."""
    from vde_dagster.execution.unit_testing.check import check_test
    from vde_dagster.execution.unit_testing.run import run_test
    from vde_dagster.execution.unit_testing.told import ToldTest
    from vde_dagster.project.loading.with_variables import with_variables

    if not any(check.startswith("test_") for check in chosen):
        return  # an audit of what is published asks no file
    with as_failure():
        tests = [test for test in workspace.project.tests if test.model == name]
        snapshots = workspace.snapshots() if tests else {}
        known = unit_test_names(snapshots[name].model, tests) if tests else {}
        for test in tests:
            if known[test.name, test.location.path.as_posix()] in chosen:
                check_test(test, snapshots)
                test = with_variables(test, workspace.root, workspace.project.models)
                result = run_test(test, snapshots, workspace.engine())
                yield unit_test_evaluation(
                    catalog, ToldTest.of(snapshots[name], result), snapshots[name]
                )
