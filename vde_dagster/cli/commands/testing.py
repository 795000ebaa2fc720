from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.unit_testing.create_test import NewTest
    from vde_dagster.execution.workspace import Workspace

SelectTests = Annotated[
    list[str] | None,
    typer.Option(
        "--select",
        metavar="MODELS|TESTS",
        help="Select by model (name, +name, name+, tag:name or a glob) or by a test's name; "
        "repeatable.",
    ),
]
Create = Annotated[
    str | None,
    typer.Option("--create", metavar="MODEL", help="Write a test of a model from rows in ENV."),
]
Of = Annotated[
    str, typer.Option("--environment", "-e", metavar="ENV", help="Source of rows for --create.")
]
Queries = Annotated[
    list[str] | None,
    typer.Option("--query", metavar="PARENT=SQL", help="Query for a parent's rows, for --create."),
]
Variables = Annotated[
    list[str] | None,
    typer.Option("--var", metavar="NAME=VALUE", help="Variable, start or end of the new test."),
]
RowLimit = Annotated[int, typer.Option("--limit", min=0, help="Maximum number of rows per parent.")]
TestName = Annotated[str | None, typer.Option("--name", "-n", help="The new test's name.")]
TestPath = Annotated[
    str | None, typer.Option("--path", "-p", help="The new test's file, in the folder of tests.")
]
Overwrite = Annotated[bool, typer.Option("--overwrite", "-o", help="Replace the file.")]
IncludeCtes = Annotated[
    bool, typer.Option("--include-ctes", help="Also write expected rows for the query's CTEs.")
]


@on_project
def run_tests(
    workspace: Workspace,
    output: Output,
    select: SelectTests = None,
    create: Create = None,
    environment: Of = "prod",
    query: Queries = None,
    var: Variables = None,
    limit: RowLimit = 10,
    name: TestName = None,
    path: TestPath = None,
    overwrite: Overwrite = False,
    include_ctes: IncludeCtes = False,
) -> None:
    """Run the project's unit tests, or write one with --create.

    Tests run on Spark and write nothing to the warehouse. An apply skips tests that passed in
    this command. Examples: vde test --select marts.daily; vde test --select test_daily;
    vde test --create marts.daily --query "raw.orders=SELECT * FROM raw.orders WHERE id < 5"
    """
    if create is not None:
        if select:
            raise UsageError(
                "--select and --create cannot be combined: --create writes a test and runs none",
                hint="remove one of them",
            )
        from vde_dagster.execution.unit_testing.create_test import NewTest

        wanted = NewTest(
            create,
            environment,
            _pairs("--query", query),
            limit,
            _values(_pairs("--var", var)),
            name,
            path,
            overwrite,
            include_ctes,
        )
        _create(workspace, wanted, output)
        return
    given = {
        f"--environment {environment}": environment != "prod",
        "--query": query,
        "--var": var,
        "--limit": limit != 10,
        "--name": name,
        "--path": path,
        "--overwrite": overwrite,
        "--include-ctes": include_ctes,
    }
    if needless := next((option for option, is_given in given.items() if is_given), None):
        raise UsageError(
            f"{needless} requires --create, because existing tests run as their files define them",
            hint="remove it, or add --create MODEL",
        )
    from vde_dagster.cli.report_view import results_json, show_results
    from vde_dagster.execution.apply.plan_tests import PassedTests
    from vde_dagster.execution.unit_testing.run_test import run_test, select_tests
    from vde_dagster.planning.checks.unit_tests import check_test
    from vde_dagster.project.loading.loader import read_with_test_variables

    tests = select_tests(
        workspace.project.tests, workspace.project.models, select or (), workspace.changed_files
    )
    snapshots = workspace.snapshots()
    models = workspace.project.models
    tests = [read_with_test_variables(test, workspace.root, models) for test in tests]
    for test in tests:
        check_test(test, snapshots)
    results = [run_test(test, snapshots, workspace.engine()) for test in tests]
    passed = PassedTests.load(workspace.settings)
    for result in results:
        if result.passed:
            passed.add(result.test, snapshots)
    passed.save(keep=True)
    output.result(results_json(results), lambda console: show_results(console, results))
    if not all(result.passed for result in results):
        raise typer.Exit(1)


def _create(workspace: Workspace, wanted: NewTest, output: Output) -> None:
    from vde_dagster.base.texts import count
    from vde_dagster.execution.unit_testing.create_test import create_test

    done = create_test(workspace, wanted)
    given = ", ".join(f"{rows} of {parent}" for parent, rows in done.inputs.items())
    output.result(
        {"file": done.path, "name": done.name, "inputs": done.inputs, "outputs": done.outputs},
        f"wrote {done.name} to {done.path}: {count(done.outputs, 'row')} "
        f"expected from {given or 'no input rows'}",
    )


def _values(texts: dict[str, str]) -> dict[str, Any]:
    import yaml

    try:
        return {name: yaml.safe_load(text) for name, text in texts.items()}
    except yaml.YAMLError:
        raise UsageError(
            "a value of --var is not valid YAML", hint="write for example: --var size=5"
        ) from None


def _pairs(option: str, given: list[str] | None) -> dict[str, str]:
    pairs = {}
    for text in given or ():
        name, sign, value = text.partition("=")
        if not (name.strip() and sign and value.strip()):
            raise UsageError(
                f"{option} '{text}' does not have the form NAME=VALUE",
                hint=f"write {option} name=value",
            )
        if name.strip() in pairs:
            raise UsageError(f"{option} has '{name.strip()}' twice", hint="remove one of them")
        pairs[name.strip()] = value.strip()
    return pairs
