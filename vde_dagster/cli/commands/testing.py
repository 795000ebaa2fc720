"""`vde test`."""

from __future__ import annotations

from pathlib import Path

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir, Select
from vde_dagster.cli.output import Output


def run_tests(
    select: Select = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Run the project's unit tests.

    They run on Spark; nothing is written to the warehouse. An apply does not run again what passed
    here.
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.cli.test_results import results_json, show_results
        from vde_dagster.execution.unit_testing.check import check_test
        from vde_dagster.execution.unit_testing.passed import PassedTests
        from vde_dagster.execution.unit_testing.run import run_test
        from vde_dagster.execution.unit_testing.select_tests import select_tests
        from vde_dagster.project.loading.with_variables import with_variables

        tests = select_tests(
            workspace.project.tests,
            workspace.project.models,
            select or (),
            workspace.warehouse.changed_files,
        )
        snapshots = workspace.snapshots()
        models = workspace.project.models
        tests = [with_variables(test, workspace.root, models) for test in tests]
        for test in tests:
            check_test(test, snapshots)
        results = [run_test(test, snapshots, workspace.engine()) for test in tests]
        passed = PassedTests.of(workspace.settings)
        for result in results:
            if result.passed:
                passed.add(result.test, snapshots)
        passed.save()
        output.result(results_json(results), lambda console: show_results(console, results))
    if not all(result.passed for result in results):
        raise typer.Exit(1)
