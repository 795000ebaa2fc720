"""`vde sync`."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output


def sync(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Bring Dagster's record up to the state store.

    Works on the Dagster instance in DAGSTER_HOME, or in the project's .dagster_home; does nothing
    the second time.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.orchestration.events.sync import sync as sync_instance
        from vde_dagster.orchestration.instance import open_instance

        with open_instance(workspace.root) as instance:
            report = sync_instance(workspace, instance)
        output.result(
            {
                "materializations": report.materializations,
                "environments": report.environments,
                "wiped": report.wiped,
            },
            lambda console: console.print(
                f"written to Dagster: {report.materializations} materializations, "
                f"{report.environments} versions of environments; "
                f"{report.wiped} partitions shown as missing again"
                if not report.is_empty
                else "Dagster is up to date"
            ),
        )
