"""The sensor that tells Dagster of work by the command line and by other processes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from vde_dagster.errors import ConflictError, VdeError
from vde_dagster.orchestration.events.consumer import (
    BUDGET_SECONDS,
    Origins,
    OutboxCursor,
    Teller,
    telling,
)
from vde_dagster.orchestration.events.provenance import Log
from vde_dagster.orchestration.events.sync import sync
from vde_dagster.orchestration.models.load_live import load_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator

if TYPE_CHECKING:
    from vde_dagster.project.settings import Settings


def outbox_sensor(root: Path, settings: Settings, translator: VdeTranslator) -> dg.SensorDefinition:
    """Return the sensor.

    Args:
        settings: Its settings: the interval.
    """

    @dg.sensor(
        name=translator.names.named("vde_state_news"),
        description="Shows what the command line and other processes planned, filled, audited, "
        "published and rolled back.",
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
    )
    def vde_state_news(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        found = tell_instance(root, context.instance, context.cursor, translator, context.log)
        if isinstance(found, str):
            return dg.SensorResult(cursor=found, skip_reason=dg.SkipReason("told what others did"))
        return found

    return vde_state_news


def tell_instance(
    root: Path,
    instance: dg.DagsterInstance,
    text: str | None,
    translator: VdeTranslator,
    log: Log,
    *,
    budget_seconds: float = BUDGET_SECONDS,
) -> str | dg.SkipReason:
    """Tell a Dagster instance once what is new in a project's state.

    Without a cursor, with that of another store, or when records were forgotten since, everything
    is compared, as `vde sync` does; nothing that Dagster shows is taken away by that.

    Args:
        text: The cursor that the last tick returned.
        budget_seconds: After which the rest is left to the next tick.

    Returns:
        The new cursor, or why there was nothing to tell.

    Raises:
        Failure: The state store or the project's settings cannot be used.
    """
    from vde_dagster.execution.workspace import Workspace

    try:
        with Workspace.open(root) as workspace:
            origins, cursor = Origins(instance), OutboxCursor.parse(text)
            known = workspace.store.outbox.number()
            if cursor is not None and cursor.goes_on_to(known):
                if cursor.number == known.newest and all(map(origins.is_working, cursor.runs)):
                    return dg.SkipReason("nothing is new in the state")
            else:
                cursor = None
            with telling(workspace.store, instance):
                if cursor is not None:
                    teller = Teller(
                        workspace,
                        instance,
                        lambda: load_catalog(workspace, translator),
                        log,
                        translator.names,
                        budget_seconds,
                    )
                    return str(teller.tell_since(cursor))
                # What runs tell that are working now is looked through later.
                runs = dict.fromkeys(origins.working(workspace.store), 0)
                report = sync(
                    workspace, instance, translator, wipe=False, seconds=budget_seconds, log=log
                )
                if not report.complete:
                    return dg.SkipReason("there is more to tell: the next tick goes on")
                return str(OutboxCursor(known.store, known.newest, runs))
    except ConflictError as error:
        return dg.SkipReason(f"somebody else tells it: {error.message}")
    except VdeError as error:
        raise dg.Failure(str(error)) from error
