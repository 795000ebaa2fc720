"""`make run`: plans and applies a project with the same Dagster jobs as the UI, with progress."""

from __future__ import annotations

import argparse
import logging
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import current_user
from vde_dagster.base.texts import count
from vde_dagster.cli.progress import ApplyProgress
from vde_dagster.errors import ExecutionError, UsageError, VdeError
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.reports.reasons import describe_breaks
from vde_dagster.terminal.tables import show_rows

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.planning.environments.environment import Environment


_UI = "See it in Dagster: make ui, then open http://127.0.0.1:3000"
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


def run_main_job(
    project_root: Path, environment: str, console: Console, *, yes: bool = False
) -> int:
    """Plan and apply a project to an environment through its Dagster jobs.

    Args:
        console: Console for progress, on stderr. The result and sample rows go to stdout.
        yes: Whether published columns may break.

    Returns:
        Exit code: 0 success or nothing to do, 1 failed work, 2 an error in the project.
    """
    from rich.console import Console as Out

    from vde_dagster.execution.plans.due_work import pending_work
    from vde_dagster.execution.workspace import Workspace

    # A pipe has no width; treat a CI log like a wide terminal.
    out = Out(highlight=False, width=None if sys.stdout.isatty() else 120)
    try:
        with Workspace.open(project_root) as workspace:
            began = time.monotonic()
            if not workspace.has_state:
                workspace.start_engine_for_first_plan()
            plan = workspace.plan(environment, author=current_user(), at_once=True)
            if plan.is_empty:
                current = workspace.store.environments.get(environment)
                version = f" (version {current.version})" if current else ""
                missing = pending_work(workspace, plan)
                out.print(
                    f"{'Nothing to publish' if missing else 'Nothing to do'}: "
                    f"{environment}{version} is up to date with the project, "
                    f"checked in {time.monotonic() - began:.1f} s."
                )
                if missing:
                    out.print(missing.sentence())
                out.print(_UI)
                return 0
            if not yes and (breaks := workspace.plans.breaks_to_accept(plan)):
                raise UsageError(
                    f"{environment} was not changed, because this breaks published columns: "
                    f"{describe_breaks(breaks)}",
                    hint=f"review it: vde plan {environment}; then run this again with --yes",
                )
            if plan.builds:
                workspace.start_engine_in_background()  # Importing Dagster takes as long.
            published = apply_in_dagster(workspace, plan, console)
            out.print(
                f"\nPublished {environment} version {published.version}: "
                f"{count(len(plan.views.created), 'view')} created, {len(plan.views.replaced)} "
                f"replaced, {len(plan.views.dropped)} dropped, {count(len(plan.builds), 'model')} "
                f"computed in {time.monotonic() - began:.0f} s."
            )
            _show_rows(workspace, published, plan, out)
            out.print(_UI)
            return 0
    except VdeError as error:
        console.print("[red]error:[/] ", end="")
        console.print(str(error), highlight=False, markup=False, soft_wrap=True)
        return error.exit_code


def apply_in_dagster(workspace: Workspace, plan: Plan, console: Console) -> Environment:
    """Run `vde_plan_job` and `vde_apply_job` for a stored plan in this process.

    The workspace's Spark session stays open afterwards.
    """
    warnings.filterwarnings("ignore", module="dagster")
    from vde_dagster.orchestration.definitions import vde_definitions
    from vde_dagster.orchestration.events.applying import watch_events
    from vde_dagster.orchestration.events.records import Reporter
    from vde_dagster.orchestration.instance import only_location, open_instance
    from vde_dagster.orchestration.names import Names
    from vde_dagster.orchestration.resource import lend

    logging.getLogger("alembic").setLevel(logging.WARNING)
    definitions = vde_definitions(workspace.root)
    names = Names.from_settings(workspace.settings)
    location = only_location(workspace.root)
    progress = ApplyProgress(console, plan)
    with open_instance(workspace.root) as instance, lend(workspace):
        Reporter(workspace, instance).add_plan(plan.id)
        with progress, watch_events(progress.show):
            for name in ("vde_plan_job", "vde_apply_job"):
                job = definitions.resolve_job_def(names.named(name))
                _run(job, instance, plan, location)
    environment = workspace.store.environments.get(plan.environment)
    assert environment is not None
    return environment


def _run(job: Any, instance: Any, plan: Plan, location: Any) -> None:
    from vde_dagster.orchestration.dagster_private import REPOSITORY_LABEL_TAG
    from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG

    origin = _origin(job, location) if location is not None else None
    result = job.execute_in_process(
        instance=instance,
        partition_key=plan.id,
        run_config=QUIET,
        tags={
            PLAN_TAG: plan.id,
            ENVIRONMENT_TAG: plan.environment,
            **({REPOSITORY_LABEL_TAG: origin.repository_origin.get_label()} if origin else {}),
        },
        raise_on_error=False,
    )
    if origin is not None:
        instance.run_storage.replace_job_origin(result.dagster_run, origin)
    if result.success:
        return
    text = "see the run's log in Dagster"
    for event in result.all_events:
        if event.is_step_failure:
            failure = event.step_failure_data
            said = failure.user_failure_data
            text = said.description if said else str(failure.error)
    raise ExecutionError(f"{job.name} failed: {text}")


def _origin(job: Any, location: Any) -> Any:
    from vde_dagster.orchestration.dagster_private import (
        SINGLETON_REPOSITORY_NAME,
        RemoteJobOrigin,
        RemoteRepositoryOrigin,
    )

    # Dagster's Overview and job pages show only runs with an origin.
    repository = RemoteRepositoryOrigin(location, SINGLETON_REPOSITORY_NAME)
    return RemoteJobOrigin(repository, job.name)


def _show_rows(workspace: Workspace, environment: Environment, plan: Plan, out: Any) -> None:
    # Of the tables that no model reads, the one with the fewest columns is shown.
    read = {parent for snapshot in plan.snapshots.values() for parent in snapshot.parents}
    leaves = sorted(
        (
            name
            for name, entry in environment.entries.items()
            if name not in read and entry.table_id is not None
        ),
        key=lambda name: len(plan.snapshots[environment.entries[name].snapshot_id].columns),
    )
    if not leaves:
        return
    grains = plan.snapshots[environment.entries[leaves[0]].snapshot_id].model.grains
    plain = bool(grains) and all(column.isidentifier() for column in grains[0])
    order = f" ORDER BY {', '.join(grains[0])}" if plain else ""
    sql = f"SELECT * FROM {leaves[0]}{order} LIMIT 5"
    result = workspace.query(environment.name, sql)
    out.print(sql)
    show_rows(out, result.columns, result.rows)


def main(arguments: list[str] | None = None) -> int:
    from rich.console import Console

    parser = argparse.ArgumentParser(description=run_main_job.__doc__)
    parser.add_argument("--project", type=Path, default=Path.cwd(), help="the project's folder")
    parser.add_argument("--environment", default="prod", help="the environment's name")
    parser.add_argument("--yes", action="store_true", help="apply even if published columns break")
    given = parser.parse_args(arguments)
    return run_main_job(given.project, given.environment, Console(stderr=True), yes=given.yes)


if __name__ == "__main__":
    sys.exit(main())
