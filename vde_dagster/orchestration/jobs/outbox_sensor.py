"""The sensor that tells Dagster of work by the command line and by other processes."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.orchestration.events.fill_events import Log
from vde_dagster.orchestration.events.outbox import BUDGET_SECONDS, NewsCursor, Teller
from vde_dagster.orchestration.events.plan_events import Origins, telling
from vde_dagster.orchestration.events.sync import Sync
from vde_dagster.orchestration.models.catalog import AssetCatalog, build_catalog
from vde_dagster.orchestration.models.load_live import load_live
from vde_dagster.orchestration.models.translator import VdeTranslator

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.project.settings import Settings
    from vde_dagster.state.db.outbox import NewsPlace


def news_sensor(root: Path, settings: Settings, translator: VdeTranslator) -> dg.SensorDefinition:
    """Return the sensor.

    Args:
        root: The project's folder.
        settings: Its settings: the interval.
        translator: The one that the code location uses.
    """

    @dg.sensor(
        name=translator.names.named("vde_state_news"),
        description="Shows what the command line and other processes planned, filled, audited, "
        "published and rolled back.",
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_state_news(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = tell_news(root, context.instance, context.cursor, translator, context.log)
        if isinstance(found, str):
            return dg.SensorResult(cursor=found, skip_reason=dg.SkipReason("told what others did"))
        return found

    return vde_state_news


def tell_news(
    root: Path,
    instance: dg.DagsterInstance,
    text: str | None,
    translator: VdeTranslator,
    log: Log,
    *,
    budget_seconds: float = BUDGET_SECONDS,
) -> str | dg.SkipReason:
    """Tell a Dagster instance once what is new in a project's state.

    Without a cursor, with that of another store, or when news were forgotten since, everything is
    compared, as `vde sync` does; nothing that Dagster shows is taken away by that.

    Args:
        root: The project's folder.
        text: The cursor that the last tick returned.
        translator: The one that the code location uses.
        log: The tick's log.
        budget_seconds: After which the rest is left to the next tick.

    Returns:
        The new cursor, or why there was nothing to tell.

    Raises:
        Failure: The state store or the project's settings cannot be used.
    """
    from vde_dagster.execution.workspace import Workspace

    try:
        with Workspace.open(root) as workspace:
            place = workspace.store.news.place()
            cursor = NewsCursor.parse(text)
            if cursor is not None and not cursor.goes_on_to(place):
                cursor = None
            if cursor is not None and _is_told(cursor, place, instance):
                return dg.SkipReason("nothing is new in the state")
            try:
                with telling(workspace.store, instance):
                    return _tell(
                        workspace, instance, cursor, place, translator, log, budget_seconds
                    )
            except ConflictError as error:
                return dg.SkipReason(f"somebody else tells it: {error.message}")
    except VdeError as error:
        raise dg.Failure(str(error)) from error


def _is_told(cursor: NewsCursor, place: NewsPlace, instance: dg.DagsterInstance) -> bool:
    origins = Origins(instance)
    return cursor.number == place.newest and all(map(origins.is_working, cursor.runs))


def _tell(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    cursor: NewsCursor | None,
    place: NewsPlace,
    translator: VdeTranslator,
    log: Log,
    budget_seconds: float,
) -> str | dg.SkipReason:
    now = datetime.now(timezone.utc)

    def load() -> AssetCatalog:
        return build_catalog(load_live(workspace, now), translator, now)

    if cursor is None:
        return _compare(workspace, instance, place, load(), log, budget_seconds)
    teller = Teller(workspace, instance, load, log, translator.names, budget_seconds)
    return str(teller.tell_since(cursor))


def _compare(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    place: NewsPlace,
    catalog: AssetCatalog,
    log: Log,
    budget_seconds: float,
) -> str | dg.SkipReason:
    """Write what Dagster misses; what runs tell that are working now is looked through later."""
    origins = Origins(instance)
    working = [origin for origin in origins.unfinished() if workspace.store.news.by(origin)]
    report = Sync(workspace, instance, catalog, log, budget_seconds).run(wipe=False)
    if not report.complete:
        return dg.SkipReason("there is more to tell: the next tick goes on")
    runs = {origins.run_of(origin) or "": 0 for origin in working}
    return str(NewsCursor(place.store, place.newest, runs))
