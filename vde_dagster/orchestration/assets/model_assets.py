"""Assets of models, and checks of models that are never materialized."""

# Dagster evaluates the annotations of functions, so they are not postponed here.
import warnings
from collections.abc import Iterator, Set
from datetime import datetime, timezone
from typing import Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.execution.unit_testing.run_test import run_test
from vde_dagster.execution.unit_testing.test_report import TestRecord
from vde_dagster.orchestration.assets.control_assets import check_result
from vde_dagster.orchestration.config import FillConfig
from vde_dagster.orchestration.dagster_private import ModelAssets, output_without_events
from vde_dagster.orchestration.events.applying import Work
from vde_dagster.orchestration.events.checks import (
    AuditEvents,
    unit_test_checks,
    unit_test_evaluation,
    unit_test_names,
)
from vde_dagster.orchestration.events.fills import ServedModel, filled_partitions, recorded_events
from vde_dagster.orchestration.events.provenance import (
    ProjectionContext,
    input_tags,
    provenance_tags,
)
from vde_dagster.orchestration.events.records import FilledPartitions
from vde_dagster.orchestration.events.steps import guarded_step
from vde_dagster.orchestration.models.catalog import (
    AssetCatalog,
    check_names,
    partition_mapping,
    requested_ranges,
)
from vde_dagster.orchestration.models.live import Combination, LiveVersion, without_circles
from vde_dagster.orchestration.names import POOL, dagster_name
from vde_dagster.planning.environments.environment import production_first
from vde_dagster.planning.intervals.cadence import ALWAYS
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts
from vde_dagster.planning.plan.parent_coverage import ParentCoverage
from vde_dagster.planning.snapshots.snapshot import sort_parents_first
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.loading.loader import read_with_test_variables
from vde_dagster.project.model import Model
from vde_dagster.reports.document import format_ranges
from vde_dagster.state.store import StateStore


def model_specs(
    catalog: AssetCatalog, *, virtual_views: bool = False
) -> dict[ModelName, dg.AssetSpec]:
    """Return the asset spec of each model, with its parents, partitions and code version."""
    out = {}
    models = catalog.live.models
    direct = {
        name: [parent for parent in model.snapshot.model.depends_on if parent != name]
        for name, model in models.items()
    }
    behind = without_circles(
        direct,
        {name: model.current.indirect_parents for name, model in models.items() if model.current},
    )
    for name, model in models.items():
        spec = catalog.specs[name]
        current = model.current
        deps = []
        for parent in (*direct[name], *behind.get(name, ())):
            known = models.get(parent)
            mapping = partition_mapping(model, known, catalog.partitions) if known else None
            deps.append(dg.AssetDep(catalog.key(parent), partition_mapping=mapping))
        out[name] = spec.replace_attributes(
            deps=[*spec.deps, *deps],
            partitions_def=catalog.partitions[name],
            code_version=current.key if current else None,
        )
        if virtual_views and model.snapshot.is_virtual:
            with warnings.catch_warnings():
                # Virtual assets are a preview feature of Dagster, which the setting's docs mention.
                warnings.simplefilter("ignore")
                out[name] = out[name].replace_attributes(is_virtual=True)
    return out


def model_asset(catalog: AssetCatalog, spec: dg.AssetSpec, name: ModelName) -> Any:
    """Return the asset of a model. Materializing the asset fills the model's partitions."""
    if spec.partitions_def is None:
        return spec
    model = catalog.live.models[name].snapshot.model
    tests = unit_test_checks(model, catalog.live.tests.get(name, ()), spec.key)
    checks = {one.name: one for one in (*audit_checks(catalog, model, spec.key), *tests)}
    translator = catalog.translator
    inputs = {f"parent_{number}": dep.asset_key for number, dep in enumerate(spec.deps)}

    @guarded_step
    def compute(context: dg.AssetExecutionContext, _inputs: Any) -> Iterator[Any]:
        chosen = {key.name for key in context.selected_asset_check_keys}
        projection = ProjectionContext.from_step(context, catalog)
        if spec.key not in context.selected_asset_keys:
            yield from execute_checks(projection, name, chosen)
            return
        config = FillConfig(**context.op_execution_context.op_config)
        work = Work(context, projection)
        try:
            yield from fill_model(context, config, work, name)
        except Exception:
            yield from restored_checks(work, name, chosen)
            raise
        yield from restored_checks(work, name, chosen)
        # Blocking audits ran before the publication, so downstream assets need not wait for checks.
        yield from (dg.Output(None, f"check_{check}") for check in checks if check in chosen)

    # Dagster's decorators would inspect one signature per model, which takes seconds for a thousand
    # models.
    operation = dg.OpDefinition(
        compute_fn=compute,
        name=_operation(spec.key),
        ins=dict.fromkeys(inputs, _IN),
        # Audits run with the fills that they check, unit tests with plans; both also run alone.
        outs={RESULT: _OUT, **{f"check_{check}": _OUT for check in checks}},
        config_schema=_CONFIG,
        required_resource_keys={catalog.names.resource},
        retry_policy=translator.get_retry_policy(model),
        tags=translator.get_op_tags(model),
        pool=translator.get_pool(model),
    )
    return ModelAssets(
        keys_by_input_name=inputs,
        keys_by_output_name={RESULT: spec.key},
        node_def=operation,
        specs=[spec],
        check_specs_by_output_name={f"check_{check}": found for check, found in checks.items()},
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


def _operation(key: dg.AssetKey) -> str:
    name = dagster_name(*key.path)
    # The prefix keeps `type` and other reserved words valid.
    return name if len(key.path) > 1 else f"__{name}"


RESULT = "result"
_IN = dg.In(dg.Nothing)
_OUT = dg.Out(dg.Nothing, is_required=False)
_CONFIG = FillConfig.to_config_schema()


def fill_model(
    context: dg.AssetExecutionContext, config: FillConfig, work: Work, name: ModelName
) -> Iterator[Any]:
    """Fill the selected partitions of a model, and write an event for each partition."""
    projection, catalog = work.projection, work.projection.catalog
    model, partitions = catalog.live.models[name], catalog.partitions[name]
    assert partitions is not None
    wanted = requested_ranges(partitions, context.partition_keys)
    if len(wanted) != 1:
        raise dg.Failure(
            f"a run fills one version of {name}, but this run selects {', '.join(wanted)}",
            allow_retries=False,
        )
    key, intervals = next(iter(wanted.items()))
    version = model.version(key)
    if version is None or not version.environments:
        raise dg.Failure(
            f"no environment shows version {key} of {name}: apply the plan that introduces it",
            allow_retries=False,
        )
    # The stored definition is filled, even if the files have changed since.
    combination = projection.combination(catalog.live.environments[version.environments[0]])
    snapshot, pointer = combination.served[name][0], projection.newest_record()
    if version.table is None:
        context.log.info(f"{name} is a view: it needs no fill")
        tags = provenance_tags(key, key, input_tags(projection, combination, snapshot, None))
        yield dg.MaterializeResult(metadata={"vde/version": key}, tags=tags)
        return
    _check_parents(projection, combination, name, intervals)
    restate = not config.only_missing
    yield from work.fill(snapshot.id, intervals or ALWAYS, restate=restate)
    table = _filled_table(projection.store, version, intervals)
    served = ServedModel(snapshot, table, combination, version.environments)
    left = {*context.partition_keys} - work.filled.get(catalog.key(name), set())
    found = [item for item in filled_partitions(projection, served) if item.partition in left]
    if found:  # filled before, so that the plan skipped them
        inputs = input_tags(projection, combination, snapshot, pointer)
        events = recorded_events(projection, served, found, inputs)
        for batch in FilledPartitions.in_batches(events):
            yield from work.report(batch)
    yield output_without_events(RESULT)


def _check_parents(
    projection: ProjectionContext, combination: Combination, name: ModelName, intervals: IntervalSet
) -> None:
    served = sort_parents_first({one: found for one, (found, _) in combination.served.items()})
    now = datetime.now(timezone.utc)
    window = Window(now, default_start=projection.workspace.settings.start_time)
    coverage = ParentCoverage(infer_starts(served, window), now)
    for parent, snapshot in served.items():
        coverage.record_coverage(snapshot, combination.table(parent), IntervalSet())
    left = intervals - coverage.complete_parent_ranges(served[name])
    # The fill would record incomplete rows as complete.
    if left:
        lacking = coverage.waits_of_parents(served[name]).items()
        parents = ", ".join(sorted(str(root) for root, ranges in lacking if ranges & left))
        raise dg.Failure(
            f"{name} cannot be filled: no data for {format_ranges(left)} in {parents} yet. "
            f"Materialize {parents} first, or wait for the run after the next cron tick of each",
            allow_retries=False,
        )


def _filled_table(store: StateStore, version: LiveVersion, intervals: IntervalSet) -> PhysicalTable:
    assert version.table is not None
    table = store.tables.get(version.table.id)
    left = [interval.text for interval in intervals - table.intervals]
    if left:
        raise dg.Failure(
            f"{version.snapshot.name} cannot be filled for {', '.join(left[:5])} yet: "
            "data of its parents is missing, or the range is not due",
            allow_retries=False,
        )
    return table


def restored_checks(work: Work, name: ModelName, chosen: Set[str]) -> Iterator[Any]:
    """Yield the latest results of selected checks that this run did not evaluate."""
    for event in AuditEvents(work.projection).latest_results(name):
        if event.check_name in chosen and event.asset_check_key not in work.evaluated:
            yield from work.report(event)


def execute_checks(
    projection: ProjectionContext, name: ModelName, chosen: Set[str]
) -> Iterator[dg.AssetCheckResult]:
    """Run the selected audits and unit tests of a model, and yield their results."""
    for evaluation in (*_audits(projection, name, chosen), *_unit_tests(projection, name, chosen)):
        yield check_result(evaluation)


def audit_checks(
    catalog: AssetCatalog, model: Model, asset: dg.AssetKey
) -> Iterator[dg.AssetCheckSpec]:
    names = check_names(model.audits)
    for audit in model.audits:
        effect = "failing rows block the publication" if audit.blocking else "warns"
        yield dg.AssetCheckSpec(
            names[audit.label],
            asset=asset,
            additional_deps=[catalog.key(one) for one in audit.reads if one != model.name],
            blocking=audit.blocking,
            description=f"`{audit.label}`: {effect}",
        )


def checks_of_unmaterialized(
    catalog: AssetCatalog, spec: dg.AssetSpec, name: ModelName
) -> dg.AssetChecksDefinition | None:
    """Return the checks of a model whose asset is never materialized, or None without checks."""
    model = catalog.live.models[name].snapshot.model
    specs = list(unit_test_checks(model, catalog.live.tests.get(name, ()), spec.key))
    # Audits are included only for models without a table.
    if model.kind.is_audited and not model.kind.is_shown:
        specs += audit_checks(catalog, model, spec.key)
    if not specs:
        return None

    @guarded_step
    def compute(context: dg.AssetCheckExecutionContext, _inputs: Any) -> Iterator[Any]:
        chosen = {key.name for key in context.selected_asset_check_keys}
        yield from execute_checks(ProjectionContext.from_step(context, catalog), name, chosen)

    # Dagster's decorator would derive names of inputs and outputs from keys of any characters.
    keys = dict.fromkeys(
        [spec.key, *(dep.asset_key for one in specs for dep in one.additional_deps)]
    )
    inputs = {f"parent_{number}": key for number, key in enumerate(keys)}
    checks = {f"check_{one.name}": one for one in specs}
    operation = dg.OpDefinition(
        compute_fn=compute,
        name=f"{_operation(spec.key)}__checks",
        ins=dict.fromkeys(inputs, _IN),
        outs=dict.fromkeys(checks, _OUT),
        required_resource_keys={catalog.names.resource},
        pool=POOL,
    )
    found: dg.AssetChecksDefinition = dg.AssetChecksDefinition.create(
        keys_by_input_name=inputs,
        node_def=operation,
        check_specs_by_output_name=checks,
        can_subset=True,
    )
    return found


def _audits(
    projection: ProjectionContext, name: ModelName, chosen: Set[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    live = projection.catalog.live.environments.values()
    found = sorted((one.name for one in live if name in one.entries), key=production_first)
    environment = projection.store.environments.get(found[0]) if found else None
    if environment is None or name not in environment.entries:
        projection.log.warning(f"nothing to audit: no environment contains {name}")
        return
    snapshot = projection.combination(environment).snapshot(name)
    checks = check_names(snapshot.model.audits) if snapshot is not None else {}
    labels = {label for label, check in checks.items() if check in chosen}
    if labels:
        audit = projection.workspace.environments.audit
        report = audit(environment.name, select=[str(name)], labels=labels)
        for event in AuditEvents(projection).audited_alone(report.run.id, environment):
            if isinstance(event, dg.AssetCheckEvaluation):
                yield event


def _unit_tests(
    projection: ProjectionContext, name: ModelName, chosen: Set[str]
) -> Iterator[dg.AssetCheckEvaluation]:
    if not any(check.startswith("test_") for check in chosen):
        return  # audits of published tables read no project files
    workspace = projection.workspace
    tests = [test for test in workspace.project.tests if test.model == name]
    snapshots = workspace.snapshots() if tests else {}
    known = unit_test_names(snapshots[name].model, tests) if tests else {}
    for test in tests:
        if known[test.name, test.location.path.as_posix()] in chosen:
            test = read_with_test_variables(test, workspace.root, workspace.project.models)
            result = run_test(test, snapshots, workspace.engine())
            ended = TestRecord.from_result(snapshots[name], result)
            yield unit_test_evaluation(projection.catalog, ended, snapshots[name])
