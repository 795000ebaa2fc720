"""`vde check-intervals`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, EnvironmentName, IgnoreCron, Json, ProjectDir
from vde_dagster.cli.output import Output, simple_table

Models = Annotated[
    list[str] | None,
    typer.Argument(metavar="[MODELS]...", help="Only these: name, +name, name+, tag:x or a glob."),
]


def check_intervals(
    environment: EnvironmentName,
    models: Models = None,
    ignore_cron: IgnoreCron = False,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """List the intervals that an environment's tables miss by now; computes nothing.

    Examples: vde check-intervals prod; vde check-intervals prod marts.daily --ignore-cron
    """
    output = Output(as_json)
    with opened(project) as workspace:
        patterns = models or ()
        made = workspace.plan_run(environment, ignore_cron=ignore_cron, save=False, of=patterns)
        from vde_dagster.cli.plan_view import count
        from vde_dagster.cli.shapes import short_time
        from vde_dagster.execution.whats_missing import whats_missing
        from vde_dagster.project.selection import select

        shown = {n: made.snapshots[e.snapshot_id].model for n, e in made.entries.items()}
        changed = workspace.warehouse.changed_files
        among = select(shown, models, changed) if models else set(shown)
        missing = whats_missing(workspace.warehouse, made, ignore_cron=ignore_cron)
        found = [
            (name, by, ranges, missing.units[name])
            for by, ranges_of in missing.by_environment.items()
            for name, ranges in ranges_of.items()
            if name in among
        ]
        rows = [
            (name, units, short_time(one.start), short_time(one.end))
            for name, _, ranges, units in found
            for one in ranges
        ]
        output.result(
            {
                "environment": made.environment,
                "models": [
                    {
                        "name": str(name),
                        "filled_by": by,
                        "count": units,
                        "intervals": ranges.to_json(),
                    }
                    for name, by, ranges, units in found
                ],
            },
            lambda console: console.print(
                simple_table(("model", "intervals", "from", "until (UTC)"), rows)
                if rows
                else f"{count(len(among), 'model')}: nothing is missing"
            ),
        )
