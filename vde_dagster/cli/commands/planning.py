"""`vde plan` and `vde diff`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import (
    Debug,
    End,
    EnvironmentName,
    Json,
    ProjectDir,
    Select,
    SkipBackfill,
    Start,
    time_range,
)
from vde_dagster.cli.output import Output


def plan(
    environment: EnvironmentName,
    start: Start = None,
    end: End = None,
    select: Select = None,
    skip_backfill: SkipBackfill = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Say what an apply would compute and publish.

    The plan is stored, and can be applied by its id.
    """
    output = Output(as_json)
    since, until = time_range(start, end)
    with opened(project) as workspace:
        made = workspace.plan(
            environment,
            start=since,
            end=until,
            select=select or (),
            skip_backfill=skip_backfill,
        )
        from vde_dagster.cli.applying import previous_snapshots
        from vde_dagster.cli.plan_view import show_plan

        shown = made.to_json() if as_json else {}
        previous = {} if as_json else previous_snapshots(workspace, made)
        output.result(shown, lambda console: show_plan(console, made, previous))
        if not as_json and not made.is_empty:
            output.note(f"apply it with: vde apply {made.environment} --plan {made.id}")


def diff(
    environment: EnvironmentName,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Show how the project differs from an environment.

    Compares model by model, and stores nothing.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        made = workspace.plan(environment, skip_backfill=True, save=False)
        from vde_dagster.cli.applying import previous_snapshots
        from vde_dagster.cli.model_diffs import diff_json, model_diffs, show_diffs

        found = model_diffs(made, previous_snapshots(workspace, made))
        output.result(
            diff_json(made.environment, found),
            lambda console: show_diffs(console, made.environment, found),
        )
