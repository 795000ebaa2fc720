"""One asset per model, filled from its page, from a backfill or from the lineage."""

# Dagster reads the annotations of its functions, so they are not postponed here.
import warnings
from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.assets.check_steps import audit_checks, execute_checks
from vde_dagster.orchestration.config import FillConfig
from vde_dagster.orchestration.events.applying import Work
from vde_dagster.orchestration.events.projection import Combination
from vde_dagster.orchestration.events.provenance import data_version, newest_record, provenance_tags
from vde_dagster.orchestration.events.publication import combination_of
from vde_dagster.orchestration.events.unit_test_checks import unit_test_checks
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.models.behind_views import without_circles
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.models.live import LiveModel, LiveVersion
from vde_dagster.orchestration.models.partitions import partition_mapping, requested
from vde_dagster.orchestration.models.translator import safe_name
from vde_dagster.orchestration.names import POOL, VERSION_TAG
from vde_dagster.orchestration.pages.markdown import spans
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.cadence import ALWAYS, EPOCH, FAR
from vde_dagster.planning.interval import Interval, IntervalSet

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def model_specs(
    catalog: AssetCatalog, *, virtual_views: bool = False
) -> dict[ModelName, dg.AssetSpec]:
    """Complete the translator's specs with parents, partitions and code versions.

    Args:
        catalog: The code location's models.
        virtual_views: Whether assets of VIEW models are virtual.
    """
    out = {}
    models = catalog.live.models
    direct = {
        name: [parent for parent in model.snapshot.model.depends_on if parent != name]
        for name, model in models.items()
    }
    behind = without_circles(
        direct, {name: model.current.behind for name, model in models.items() if model.current}
    )
    for name, model in models.items():
        spec = catalog.specs[name]
        current = model.current
        out[name] = spec.replace_attributes(
            deps=[*spec.deps, *_deps(catalog, model, (*direct[name], *behind.get(name, ())))],
            partitions_def=catalog.partitions[name],
            code_version=current.key if current else None,
        )
        if virtual_views and model.snapshot.is_virtual:
            with warnings.catch_warnings():
                # Virtual assets are a preview in Dagster; who asks for them was told so.
                warnings.simplefilter("ignore")
                out[name] = out[name].replace_attributes(is_virtual=True)
    return out


def _deps(
    catalog: AssetCatalog, model: LiveModel, parents: Iterable[ModelName]
) -> Iterator[dg.AssetDep]:
    for parent in parents:
        known = catalog.live.models.get(parent)
        mapping = partition_mapping(model, known, catalog.partitions) if known else None
        yield dg.AssetDep(catalog.key(parent), partition_mapping=mapping)


def model_asset(catalog: AssetCatalog, spec: dg.AssetSpec, name: ModelName) -> Any:
    """Return the asset of a model: one that can be materialised where there is data to fill.

    The decorators of Dagster look at the function's signature anew for each of a thousand
    models, which takes seconds; here one function serves them all.

    Args:
        catalog: The code location's models.
        spec: The model's complete spec.
        name: The model.
    """
    if spec.partitions_def is None:
        return spec
    model = catalog.live.models[name].snapshot.model
    checks = {found.name: found for found in audit_checks(catalog, model, spec.key)}
    tests = catalog.live.tests.get(name, ())
    checks.update((found.name, found) for found in unit_test_checks(model, tests, spec.key))
    inputs = {f"parent_{number}": dep.asset_key for number, dep in enumerate(spec.deps)}

    def compute(context: dg.AssetExecutionContext, _inputs: Any) -> Iterator[Any]:
        workspace = catalog.names.workspace(context)
        chosen = {key.name for key in context.selected_asset_check_keys}
        if spec.key not in context.selected_asset_keys:
            yield from execute_checks(context, workspace, catalog, name, chosen)
            return
        config = FillConfig(**context.op_execution_context.op_config)
        yield from fill_model(context, config, workspace, catalog, name)
        # What blocks was audited before the publication: what comes after need not wait for it.
        yield from (dg.Output(None, f"check_{check}") for check in checks if check in chosen)

    operation = dg.OpDefinition(
        compute_fn=compute,
        name=safe_name("__".join(spec.key.path)),
        ins=dict.fromkeys(inputs, _IN),
        # Audits run with the fills that they check, unit tests with plans, and either by itself.
        outs={RESULT: _OUT, **{f"check_{check}": _CHECK_OUT for check in checks}},
        config_schema=_CONFIG,
        required_resource_keys={catalog.names.resource},
        pool=POOL,
    )
    return dg.AssetsDefinition(
        keys_by_input_name=inputs,
        keys_by_output_name={RESULT: spec.key},
        node_def=operation,
        specs=[spec],
        check_specs_by_output_name={f"check_{check}": found for check, found in checks.items()},
        can_subset=True,
        backfill_policy=dg.BackfillPolicy.single_run(),
    )


RESULT = "result"
_IN = dg.In(dg.Nothing)
_OUT = dg.Out(dg.Nothing, is_required=False)
_CHECK_OUT = dg.Out(dg.Nothing, is_required=False)
_CONFIG = FillConfig.to_config_schema()


def fill_model(
    context: dg.AssetExecutionContext,
    config: FillConfig,
    workspace: "Workspace",
    catalog: AssetCatalog,
    name: ModelName,
) -> Iterator[Any]:
    """Fill the partitions that a run asks for.

    The work is that of the version's stored definition, whatever the files say now, and the
    event carries the version's own code version: Dagster would write the working copy's.

    Args:
        context: The step.
        config: Whether filled partitions are computed again.
        workspace: The project.
        catalog: The code location's models.
        name: The model.
    """
    model = catalog.live.models[name]
    partitions = catalog.partitions[name]
    assert partitions is not None
    wanted = requested(partitions, context.partition_keys)
    if len(wanted) != 1:
        raise dg.Failure(
            f"a run fills one version of {name}, this one asks for {', '.join(wanted)}",
            allow_retries=False,
        )
    key, intervals = next(iter(wanted.items()))
    version = model.version(key)
    if version is None or not version.environments:
        raise dg.Failure(
            f"no environment shows version {key} of {name}: apply the plan that introduces it",
            allow_retries=False,
        )
    environment = catalog.live.environments[version.environments[0]]
    with as_failure():
        combination = combination_of(workspace.store, environment)
    pointer = newest_record(context.instance) if version.table else None
    snapshot = combination.snapshots[combination.entries[name].snapshot_id]
    commit = None
    rows: dict[str, Any] = {}
    if version.table is None:
        context.log.info(f"{name} is a view: its parents' rows show at once")
    else:
        _check_parents(catalog, combination, name, intervals)
        work = Work(context, catalog, workspace, skip=catalog.key(name))
        restate = not config.only_missing
        yield from work.fill(snapshot.id, intervals or ALWAYS, restate=restate)
        newest = next((f for f in reversed(work.recorder.skipped) if f.iceberg_snapshot_id), None)
        _check_filled(workspace, version, intervals)
        if newest is not None:
            commit = newest.iceberg_snapshot_id
            table = combination.tables[version.table.id]
            rows = preview(workspace, context.log, snapshot, table, commit, [newest.interval])
    inputs = combination.inputs(context.instance, catalog, snapshot, pointer)
    tags = provenance_tags(key, data_version(key, commit), inputs)
    yield dg.MaterializeResult(
        metadata={
            "vde/version": key,
            **({} if commit is None else {"vde/iceberg_snapshot_id": str(commit)}),
            **rows,
        },
        tags={**tags, VERSION_TAG: key},
    )


def _check_parents(
    catalog: AssetCatalog, combination: Combination, name: ModelName, intervals: IntervalSet
) -> None:
    """Refuse ranges for which a parent holds no data yet: they would be recorded and stay wrong."""
    snapshot = combination.snapshots[combination.entries[name].snapshot_id]
    for parent in snapshot.parents:
        entry = combination.entries[parent]
        known = combination.snapshots[entry.snapshot_id]
        if not known.is_incremental or entry.table_id is None:
            continue
        start = catalog.live.starts.get(parent, EPOCH)
        end = known.model.end_at(datetime.now(timezone.utc)) or FAR
        needed = intervals & IntervalSet.of([Interval(start, end)] if start < end else [])
        left = needed - combination.tables[entry.table_id].available
        if left:
            raise dg.Failure(
                f"{name} reads {parent}, which holds no data for {spans(left)} yet: fill it first",
                allow_retries=False,
            )


def _check_filled(workspace: "Workspace", version: LiveVersion, intervals: IntervalSet) -> None:
    """Fail rather than show partitions as filled whose parents' data is not there yet."""
    assert version.table is not None
    table = workspace.store.tables.get(version.table.id)
    left = [interval.text for interval in intervals - table.intervals]
    if left:
        raise dg.Failure(
            f"{version.snapshot.name}: {', '.join(left[:5])} cannot be filled yet: "
            "its parents' data is missing there, or it is not due",
            allow_retries=False,
        )
