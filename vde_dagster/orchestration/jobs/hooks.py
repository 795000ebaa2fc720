"""Telling people how a job ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import dagster as dg

from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG


@dataclass(frozen=True, slots=True)
class Notification:
    """The end of one job of the project.

    Args:
        succeeded: Whether it did its work.
        job: The job's name.
        run_id: Dagster's run.
        environment: The environment that it worked on, when the run's tags say.
        plan_id: The plan, when the run's tags say.
        error: Why it failed, or None.
    """

    succeeded: bool
    job: str
    run_id: str
    environment: str | None
    plan_id: str | None
    error: str | None = None


def notification_hooks(notify: Callable[[Notification], None]) -> frozenset[dg.HookDefinition]:
    """Return hooks that call a function when a job of the project succeeds or fails.

    Args:
        notify: Sends a message, opens a ticket; what it raises shows in the run's log.
    """

    def tell(context: dg.HookContext, succeeded: bool) -> None:
        run = context.instance.get_run_by_id(context.run_id)
        tags = dict(run.tags) if run else {}
        error = context.op_exception
        notify(
            Notification(
                succeeded=succeeded,
                job=context.job_name,
                run_id=context.run_id,
                environment=tags.get(ENVIRONMENT_TAG),
                plan_id=tags.get(PLAN_TAG),
                error=str(error) if error else None,
            )
        )

    @dg.success_hook(name="vde_notify_success")
    def succeeded(context: dg.HookContext) -> None:
        tell(context, True)

    @dg.failure_hook(name="vde_notify_failure")
    def failed(context: dg.HookContext) -> None:
        tell(context, False)

    return frozenset({succeeded, failed})
