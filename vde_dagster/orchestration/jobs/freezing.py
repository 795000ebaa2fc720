"""The job that freezes a version of an environment: `vde freeze` with a form to fill in."""

# Dagster reads the annotations of decorated functions, so they are not postponed here.
from collections.abc import Iterator
from typing import Any

import dagster as dg

from vde_dagster.base.durations import parse_duration
from vde_dagster.base.instants import instant_text
from vde_dagster.orchestration.config import FreezeConfig
from vde_dagster.orchestration.events.publication import published_events
from vde_dagster.orchestration.events.records import passing_events
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG
from vde_dagster.orchestration.shown import refresh_after


def freeze_job(
    catalog: AssetCatalog, hooks: frozenset[dg.HookDefinition], executor: dg.ExecutorDefinition
) -> dg.JobDefinition:
    """Return the job.

    Args:
        catalog: The code location's models and names.
        hooks: What tells people how runs ended.
        executor: What runs its step.
    """
    names = catalog.names

    @dg.op(
        name=names.named("freeze"),
        description="Make an environment that shows a version for ever.",
        required_resource_keys={names.resource},
    )
    def freeze(context: dg.OpExecutionContext, config: FreezeConfig) -> Iterator[Any]:
        workspace = names.workspace(context)
        with as_failure():
            keep = parse_duration(config.keep, "the config's keep") if config.keep else None
            done = workspace.freeze(config.version, config.name, keep)
        made = done.environment
        until = f"until {instant_text(made.expires_at)}" if made.expires_at else "for ever"
        context.log.info(
            f"{made.name} shows {made.frozen}, {done.tables} tables at what they held; kept {until}"
        )
        if done.live:
            context.log.warning(
                f"not frozen: {', '.join(map(str, done.live))}; external tables have no versions"
            )
        for failed in done.failed_statements:
            context.log.error(f"{failed.model}: {failed.error}: {failed.statement}")
        events = published_events(
            catalog,
            workspace.store,
            context.instance,
            made,
            built=frozenset(),
            tags={ENVIRONMENT_TAG: made.name},
        )
        yield from passing_events(workspace.store.database.effects, events)
        yield dg.Output(made.name)
        refresh_after(context, workspace)

    @dg.job(
        name=names.named("vde_freeze"),
        description="Freeze a version of an environment under a name of its own.",
        tags=names.tags,
        executor_def=executor,
        hooks=set(hooks),
    )
    def vde_freeze() -> None:
        freeze()

    return vde_freeze
