"""Metrics as Dagster assets with values, downstream of the models that they read."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import dagster as dg

from vde_dagster.api.dagster import AssetCatalog, guarded_step
from vde_dagster.api.models import Exposure
from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.reports import literal, plain_table
from vde_dagster.api.values import Settings, json_value, text_value
from vde_dagster.api.workspace import Workspace

MOST_ROWS = 20
"""Maximum number of rows on the page of a saved query."""


class MetricsConfig(dg.Config):
    """The environment to evaluate."""

    environment: str = PRODUCTION


def make_assets(catalog: AssetCatalog, settings: Settings) -> Iterator[dg.AssetsDefinition]:
    with Workspace.open(settings.root) as workspace:
        readers = [one for one in workspace.project.exposures if one.what == "metric"]
    if readers:
        yield _define_assets(catalog, readers)


def _define_assets(catalog: AssetCatalog, readers: Sequence[Exposure]) -> dg.AssetsDefinition:
    names = catalog.names
    all_of = dg.AllPartitionMapping()
    # An update during a run leads to another run.
    updated = dg.AutomationCondition.any_deps_updated()
    requested = dg.AutomationCondition.newly_requested()
    # A publication, and a rollback, too, is an event of this asset.
    published = dg.AssetDep(names.environment_key, partition_mapping=all_of)
    specs = {
        one.name: dg.AssetSpec(
            key=names.asset_key("metric", one.name),
            deps=[
                published,
                *(
                    dg.AssetDep(catalog.key(model), partition_mapping=all_of)
                    for model in dict.fromkeys(model for model, _, _ in one.reads)
                ),
            ],
            group_name=names.group,
            kinds={"metric"},
            description=f"The metric {one.name}, see {one.location}.",
            automation_condition=updated.since(requested & ~updated)
            & ~dg.AutomationCondition.in_progress(),
        )
        for one in readers
    }

    @guarded_step
    def compute(context: dg.AssetExecutionContext, _inputs: Any) -> Iterator[Any]:
        config = MetricsConfig(**context.op_execution_context.op_config)
        workspace = getattr(context.resources, names.resource).get()
        asked = [name for name, one in specs.items() if one.key in context.selected_asset_keys]
        for name, metadata in _compute_metadata(workspace, asked, config.environment):
            metadata["environment"] = config.environment
            yield dg.MaterializeResult(asset_key=specs[name].key, metadata=metadata)

    # Dagster's decorator would derive the names of inputs from keys of any characters.
    keys = dict.fromkeys(dep.asset_key for one in specs.values() for dep in one.deps)
    inputs = {f"parent_{number}": key for number, key in enumerate(keys)}
    operation = dg.OpDefinition(
        compute_fn=compute,
        name=names.named("vde_metrics"),
        ins=dict.fromkeys(inputs, dg.In(dg.Nothing)),
        outs=dict.fromkeys(specs, dg.Out(dg.Nothing, is_required=False)),
        config_schema=MetricsConfig.to_config_schema(),
        required_resource_keys={names.resource},
    )
    return dg.AssetsDefinition(
        keys_by_input_name=inputs,
        keys_by_output_name={name: one.key for name, one in specs.items()},
        node_def=operation,
        specs=list(specs.values()),
        can_subset=True,
    )


def _compute_metadata(
    workspace: Workspace, asked: Sequence[str], environment: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the value of each metric and the rows of each saved query as metadata, by name."""
    from vde_dagster.plugins.metrics.kept import semantic_layer
    from vde_dagster.plugins.metrics.layer import TIME, Question

    layer = semantic_layer(workspace, environment)
    by_time = {name for name in asked if name in layer.metrics and layer.needs_time(name)}
    metrics = tuple(name for name in asked if name in layer.metrics and name not in by_time)
    if metrics:
        found = workspace.query(environment, layer.sql(Question(metrics)))
        values = {
            name: value for (name, _), value in zip(found.columns, found.rows[0], strict=True)
        }
        for name in metrics:
            yield name, {"value": _plotted(values[name]), "version": found.version}
    for name in asked:
        if name in by_time:
            found = workspace.query(environment, layer.sql(Question((name,), (TIME,))))
            # Rows are in the order of time, and an offset metric has none at the newest times.
            at, value = next(
                (row for row in reversed(found.rows) if row[1] is not None), (None,) * 2
            )
            newest = {TIME: json_value(at), "value": _plotted(value)}
            yield name, {**newest, "version": found.version}
        elif name not in metrics:
            question = Question((name,), limit=MOST_ROWS)
            found = workspace.query(environment, layer.sql(question))
            rows = [[literal(text_value(value)) for value in row] for row in found.rows]
            text = plain_table([column for column, _ in found.columns], rows, narrow=True)
            yield name, {"rows": dg.MetadataValue.md(text), "version": found.version}


def _plotted(value: Any) -> Any:
    """Return a value as metadata. A Decimal becomes a float, which Dagster can plot."""
    return float(value) if isinstance(value, Decimal) else json_value(value)
