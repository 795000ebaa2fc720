"""Definitions of a project's code location, built in one line of the user's `definitions.py`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.base.plugins import Seam
from vde_dagster.base.secrets import mask_logs
from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.assets import control_assets
from vde_dagster.orchestration.assets.model_assets import (
    checks_of_unmaterialized,
    model_asset,
    model_specs,
)
from vde_dagster.orchestration.jobs import jobs
from vde_dagster.orchestration.jobs.sensors import code_sensor, outbox_sensor
from vde_dagster.orchestration.models.catalog import (
    AssetCatalog,
    load_catalog,
    paused_garbage_collection,
)
from vde_dagster.orchestration.models.recording import with_recording_note
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names
from vde_dagster.orchestration.resource import workspace_resource

if TYPE_CHECKING:
    from dagster_pyspark import LazyPySparkResource, PySparkResource

    from vde_dagster.orchestration.pyspark_resource import VdePySparkResource
    from vde_dagster.project.settings import Settings


_MAKERS: Seam[Callable[[AssetCatalog, Settings], Iterable[Any]]] = Seam("assets")
"""Entry points of plug-ins that add assets to a project's code location."""
_SENSORS: Seam[Callable[[Settings], Iterable[dg.SensorDefinition]]] = Seam("sensors")
"""Entry points of plug-ins that add sensors to a project's code location."""


def vde_definitions(
    project_root: str | Path,
    translator: VdeTranslator | None = None,
    *,
    assets: Sequence[Any] = (),
    spark: PySparkResource | LazyPySparkResource | None = None,
    notify: Callable[[jobs.Notification], None] | None = None,
    executor: dg.ExecutorDefinition | None = jobs.EXECUTOR,
) -> dg.Definitions:
    """Build the assets, jobs, sensors and schedules of a project.

    Example:
        `defs = vde_definitions(Path(__file__).parent)`

    Args:
        translator: Customizes how models look; see `VdeTranslator`.
        assets: Your own assets upstream or downstream of models; they replace external tables with
            the same asset key.
        spark: Your own resource of dagster-pyspark: models run in its JVM. Its session needs the
            project's catalog, see `spark_config`. By default your assets get the project's
            session. In both cases the resource key is `pyspark`, with the prefix `dagster.prefix`.
        executor: Runs everything in one process by default, so that one Spark session serves a
            whole run. Pass None to leave the choice to other definitions in the location.

    Raises:
        ProjectError: The project's settings are invalid. Errors in model files do not raise.
        UsageError: One of `assets` has the key of a model.
    """
    mask_logs()
    with paused_garbage_collection():
        found = _definitions(
            Path(project_root).resolve(), translator, assets, spark, notify, executor
        )
        if len(list(found.assets or ())) > _LARGE:
            # Dagster now builds its repository from the same number of objects.
            gc.freeze()
    return found


_LARGE = 1000
"""Number of assets above which the garbage collector skips a code location's objects."""


def _definitions(
    root: Path,
    translator: VdeTranslator | None,
    assets: Sequence[Any],
    spark: PySparkResource | LazyPySparkResource | None,
    notify: Callable[[jobs.Notification], None] | None,
    executor: dg.ExecutorDefinition | None,
) -> dg.Definitions:
    with Workspace.open(root) as workspace:
        settings = workspace.settings
        looks = translator or VdeTranslator(root, settings.catalog)
        catalog = with_recording_note(load_catalog(workspace, looks), workspace.store)

    names = catalog.names
    pyspark = names.named("pyspark")
    hooks = jobs.notification_hooks(notify) if notify else frozenset()
    by_partition = jobs.asset_jobs(names, hooks)
    others = jobs.op_jobs(catalog, settings, hooks)
    return dg.Definitions(
        assets=[*_assets(catalog, assets, settings), *assets],
        jobs=[*by_partition, *others.values()],
        schedules=jobs.schedules(root, settings, others),
        sensors=[
            code_sensor(root, settings, [*by_partition, others[jobs.AUTO_APPLY]]),
            outbox_sensor(root, settings, looks, catalog.time_units),
            *(one for make in _SENSORS.working().values() for one in make(settings)),
        ],
        resources={
            names.resource: workspace_resource(root, spark=pyspark if spark else None),
            pyspark: spark or _project_session(names),
        },
        executor=executor,
    )


def _project_session(names: Names) -> dg.ResourceDefinition:
    @dg.resource(
        config_schema={},
        required_resource_keys={names.resource},
        description="The project's Spark session, as a LazyPySparkResource of dagster-pyspark.",
    )
    def pyspark(context: dg.InitResourceContext) -> VdePySparkResource:
        # PySpark takes half a second to import, so only runs import it.
        from vde_dagster.orchestration.pyspark_resource import VdePySparkResource

        return VdePySparkResource(vde=getattr(context.resources, names.resource))

    return pyspark


def _assets(catalog: AssetCatalog, others: Sequence[Any], settings: Settings) -> Iterable[Any]:
    taken = {
        key
        for asset in others
        for key in (
            asset.keys if isinstance(asset, dg.AssetsDefinition) else [getattr(asset, "key", None)]
        )
    }
    for name, spec in catalog.specs.items():
        model = catalog.live.models[name]
        if spec.key in taken and model.in_project and not model.snapshot.model.kind.is_external:
            raise UsageError(
                f"the asset {spec.key.to_user_string()} in `assets` has the key of the model "
                f"{name}",
                hint="give the asset another key; an asset in `assets` replaces an external table "
                "with the same key, but no other model",
                location=model.snapshot.model.location,
            )
    yield control_assets.plan_asset(catalog, check_queries=settings.dagster.check_queries)
    yield control_assets.apply_asset(catalog)
    yield control_assets.reject_asset(catalog)
    yield control_assets.environment_asset(catalog)
    yield control_assets.janitor_asset(catalog)
    for name, spec in model_specs(catalog, virtual_views=settings.dagster.virtual_views).items():
        if spec.key not in taken:
            yield model_asset(catalog, spec, name)
            # A model that is never materialized has no step to run its checks.
            checks = (
                checks_of_unmaterialized(catalog, spec, name)
                if spec.partitions_def is None
                else None
            )
            if checks is not None:
                yield checks
    for exposure in catalog.live.readers:
        if exposure.what != "exposure":
            continue  # plug-ins make the assets of syncs and metrics
        shown = catalog.translator.get_exposure_spec(exposure, catalog.key)
        if shown.key not in taken:
            taken.add(shown.key)
            yield shown
    for make in _MAKERS.working().values():
        yield from make(catalog, settings)
