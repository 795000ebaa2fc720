"""`vde sync`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output


def sync(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Repair Dagster's record of the state store.

    Dagster's sensor follows the state by itself; this compares everything. It works on the Dagster
    instance in DAGSTER_HOME, or in the project's .dagster_home, and does nothing the second time.

    Example: vde sync
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.orchestration.events.origins import telling
        from vde_dagster.orchestration.events.sync import sync as sync_instance
        from vde_dagster.orchestration.instance import open_instance

        with (
            open_instance(workspace.root) as instance,
            telling(workspace.store, instance, wait_seconds=60),
        ):
            report = sync_instance(workspace, instance)
        output.result(
            {
                "materializations": report.materializations,
                "environments": report.environments,
                "wiped": report.wiped,
                "checks": report.checks,
                "plans": report.plans,
            },
            lambda console: console.print(
                f"written to Dagster: {report.materializations} materializations, "
                f"{report.environments} versions of environments, {report.checks} checks, "
                f"{report.plans} pages of plans; "
                f"{report.wiped} partitions shown as missing again"
                if not report.is_empty
                else "Dagster is up to date"
            ),
        )
