"""The Dagster sensor `vde_notify`, which sends notifications about events of all processes."""

from __future__ import annotations

import time

import dagster as dg

from vde_dagster.api.dagster import Names
from vde_dagster.api.errors import ConflictError, VdeError
from vde_dagster.api.values import Settings
from vde_dagster.api.workspace import Workspace
from vde_dagster.plugins.notifications.deliver import describe_result, send_notifications

BUDGET_SECONDS = 8.0
"""Time after which a tick leaves records and receivers to the next tick."""


def notify_sensor(settings: Settings) -> dg.SensorDefinition:
    is_on = settings.plugins["notify"]["sensor"]

    @dg.sensor(
        name=Names.from_settings(settings).named("vde_notify"),
        description="Sends the notifications in [tool.vde.notify], as `vde notify send` does.",
        minimum_interval_seconds=settings.dagster.sensor_interval_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING if is_on else dg.DefaultSensorStatus.STOPPED,
    )
    def vde_notify(context: dg.SensorEvaluationContext) -> dg.SkipReason:
        until = time.monotonic() + BUDGET_SECONDS
        try:
            with Workspace.open(settings.root) as workspace:
                done = send_notifications(workspace, lambda: time.monotonic() > until)
        except ConflictError as error:
            return dg.SkipReason(str(error))
        except VdeError as error:
            raise dg.Failure(str(error)) from error
        results = "; ".join(map(describe_result, done))
        if any(one.problem for one in done):
            raise dg.Failure(results)
        return dg.SkipReason(results)

    return vde_notify
