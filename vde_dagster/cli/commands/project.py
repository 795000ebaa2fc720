"""Commands `vde --version`, `init`, `schema`, `lint`, `format` and `create-external-models`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.base.installing import __version__, how_to_install
from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import count
from vde_dagster.cli.options import Debug, DryRun, Json, Models, ProjectDir, on_project
from vde_dagster.cli.output import Output, print_json
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def _print_version(asked: bool) -> None:
    if asked:
        print(f"vde {__version__}")
        raise typer.Exit


def about(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Virtual data environments: plan, publish and roll back a warehouse like code."""


def schema(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Print the JSON Schema of model properties, for editors and checkers.

    Example: vde schema
    """
    from vde_dagster.project.properties.model_properties import model_schema

    found = model_schema()
    Output(as_json).result(found, lambda console: print_json(found))


Folder = Annotated[
    Path | None, typer.Argument(metavar="DIR", help="The new project's folder; default: --project.")
]
NoDagster = Annotated[
    bool, typer.Option("--no-dagster", help="Do not write definitions.py, Dagster's code location.")
]


OfDbt = Annotated[
    bool, typer.Option("--dbt", help="Add only the required files to an existing dbt project.")
]


CiSystem = Annotated[
    str, typer.Option("--ci", metavar="SYSTEM", help="Write CI jobs: github or gitlab.")
]


@dataclass(frozen=True, slots=True)
class Workflow:
    """Files of a CI system's jobs that check and deploy a project.

    Args:
        left: Remaining manual steps, in sentences.
    """

    files: Mapping[Path, str]
    left: tuple[str, ...] = ()


_WORKFLOWS: Seam[Callable[[Path], Workflow]] = Seam("workflows")


def init(
    folder: Folder = None,
    no_dagster: NoDagster = False,
    dbt: OfDbt = False,
    ci: CiSystem = "",
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Create a new project that runs without changes.

    It has a seed, a view, an incremental model, an audit, a unit test and a code location for
    Dagster. Existing files are never replaced, and no prompt appears. A dbt project gets only
    settings and a code location. With --ci, an existing project gets only CI jobs, which check pull
    requests and deploy merges. Examples: vde init shop; vde init --dbt transform; vde init --ci
    github
    """
    import shlex

    from rich.markup import escape

    output = Output(as_json)
    if folder is not None and project != Path("."):
        raise UsageError("DIR and --project cannot be combined", hint="pass the folder once")
    target = folder if folder is not None else project
    if ci:
        if dbt or no_dagster:
            raise UsageError(
                "--ci adds jobs to an existing project and cannot be combined with other options",
                hint="create the project first: vde init DIR",
            )
        _write_jobs(output, target, ci)
        return
    made = new_project(target, dagster=not no_dagster, dbt=dbt)
    output.result(
        {
            "project": str(target),
            "id": made.id,
            "files": list(made.written),
            "kept": list(made.kept),
        },
        "\n".join(f"{target / path}" for path in made.written),
    )
    if made.kept:
        output.note(f"existing files kept: {', '.join(made.kept)}")
    if ".gitignore" in made.kept:
        output.note("add .vde/ and .dagster_home/ to .gitignore: they contain computed data")
    if "pyproject.toml" in made.kept:
        output.note(
            f'add id = "{made.id}" under [tool.vde]: it identifies the project in a shared state'
        )
    if dbt and _find_dbt() is None:
        output.note(
            f"dbt, which compiles the project, is not installed: {escape(how_to_install('dbt'))}; "
            "or set `executable` in pyproject.toml to the dbt of another Python environment"
        )
    where = "" if target == Path(".") else escape(f" --project {shlex.quote(str(target))}")
    output.note(f"next: vde apply prod{where}")
    if not no_dagster:
        output.note(f"      vde ui{where}")


def _write_jobs(output: Output, folder: Path, system: str) -> None:
    from vde_dagster.project.loading.loader import require_files

    workflow = _WORKFLOWS.require(system)
    if not folder.is_dir():
        raise UsageError(
            f"the folder '{folder}' does not exist", hint="create the project: vde init DIR"
        )
    require_files(folder)
    written = workflow(folder)
    if there := [str(path) for path in written.files if path.exists()]:
        raise UsageError(
            f"nothing was written: {', '.join(there)} would be overwritten",
            hint="rename existing files and run the command again, or keep them",
        )
    for path, text in written.files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    files = list(map(str, written.files))
    said = {"project": str(folder), "files": files, "left": list(written.left)}
    output.result(said, "\n".join(files))
    for sentence in written.left:
        output.note(sentence)


Rules = Annotated[
    list[str] | None,
    typer.Option(
        "--rule",
        metavar="RULE",
        help="Check this rule, or all, instead of the rules in the settings.",
    ),
]


Fixed = Annotated[
    bool,
    typer.Option(
        "--fix", help="First fix all violations and planning errors that have exactly one safe fix."
    ),
]


@on_project
def lint(
    workspace: Workspace,
    output: Output,
    models: Models = None,
    rule: Rules = None,
    fix: Fixed = False,
) -> None:
    """Check models with the rules of the linter; the exit code is 2 if there are errors.

    Severities are set under [tool.vde.linter], or in SQLMesh's configuration. Examples: vde lint;
    vde lint sales.orders+; vde lint --rule noselectstar --fix
    """
    from vde_dagster.execution.linting.linter import Linter, reader_findings

    among = mended = None
    if models:
        from vde_dagster.project.selection import select

        changed = workspace.changed_files
        among = select(workspace.project.models, models, changed)
    if fix:
        from rich.markup import escape

        from vde_dagster.execution.project_files.fixing import fix_project

        mended = fix_project(workspace, rule or (), among)
        for place, one in mended.done:
            output.note(f"{place}: {escape(one.title)}")
        for place, one in mended.left:
            output.note(f"{place}: not applied: it would cause another error: {escape(one.title)}")
    linter = Linter(workspace.project, rule or ())
    findings, looked_at = [], 0
    if not linter.is_idle:
        findings = linter.findings(workspace.snapshots(), among)
        looked_at = linter.count(among)
    if workspace.project.exposures and not rule:
        findings += reader_findings(workspace.project.exposures, workspace.snapshots(), among)
    from vde_dagster.cli.report_view import lint_json, show_lint

    output.result(
        lint_json(findings, looked_at, mended),
        lambda console: show_lint(console, findings, looked_at, idle=linter.is_idle),
    )
    if any(finding.certain for finding in findings):
        raise typer.Exit(2)


Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILES|MODELS]...", help="Files, name, +name, name+, tag:x, or a glob."
    ),
]
Check = Annotated[bool, typer.Option("--check", help="Only list unformatted files.")]


@on_project
def format_sql(
    workspace: Workspace, output: Output, files: Files = None, check: Check = False
) -> None:
    """Format files of models and audits; literals, comments, macros and templates stay unchanged.

    A file is skipped if formatting would change the model or its version. The exit code is 1 if a
    file was skipped or, with --check, if a file is not formatted. Examples: vde format; vde format
    models/sales/orders.sql; vde format sales.* --check
    """
    from vde_dagster.execution.project_files.format_files import format_files

    done = format_files(workspace, files or (), check=check)
    verb = "would format" if check else "formatted"
    lines = [f"{verb} {path}" for path in done.changed]
    lines += [f"skipped {error.location}: {error.message}" for error in done.left_alone]
    output.result(
        {
            "files": done.looked_at,
            "changed": done.changed,
            "left_alone": [
                {
                    "file": error.location.path.as_posix() if error.location else None,
                    "line": error.location.line if error.location else None,
                    "reason": error.message,
                }
                for error in done.left_alone
            ],
        },
        "\n".join(lines) or f"{count(done.looked_at, 'file')}: nothing to format",
    )
    if done.left_alone or (check and done.changed):
        raise typer.Exit(1)


@on_project
def create_external_models(workspace: Workspace, output: Output, dry_run: DryRun = False) -> None:
    """Declare external tables that models read, with their columns.

    Adds undeclared tables to external_models.yaml. Spark is not started: columns are read from the
    project's catalog.

    Example: vde create-external-models --dry-run
    """
    from vde_dagster.execution.project_files.declare_tables import declare_tables

    done = declare_tables(workspace, dry_run=dry_run)
    verb = "would declare" if dry_run else "declared"
    lines = [f"{verb} {name} with {count(len(own), 'column')}" for name, own in done.added.items()]
    output.result(done.to_json(), "\n".join(lines) or "nothing to declare")
    for name in done.absent:
        output.note(f"{name} is not in the project's catalog: declare it in external_models.yaml")


TEMPLATE = Path(__file__).parents[1] / "template"
DEFINITIONS = "definitions.py"

# Packaging drops files with a leading dot, and an installation compiles Python files in place.
_NAMES = {"gitignore": ".gitignore", "definitions.txt": DEFINITIONS}
_OF_DBT = (".gitignore", DEFINITIONS, "pyproject.toml")
_OF_EVERY_FOLDER = frozenset({".gitignore", "README.md", "pyproject.toml"})


@dataclass(frozen=True, slots=True)
class NewProject:
    """Files of a new project, as sorted paths relative to its folder.

    Args:
        kept: Existing files that were not changed.
    """

    written: tuple[str, ...]
    kept: tuple[str, ...]
    id: str


def new_project(folder: Path, *, dagster: bool = True, dbt: bool = False) -> NewProject:
    """Write a small project that runs without changes.

    Existing `.gitignore`, `README.md` and `pyproject.toml` are kept.

    Args:
        dagster: Whether to write `definitions.py`, Dagster's code location.
        dbt: Whether the folder is a dbt project, whose models are used.

    Raises:
        UsageError: The folder has models or another file of the template, or it is not a dbt
            project. Nothing was written.
    """
    if dbt and not (folder / "dbt_project.yml").is_file():
        hint = "pass the folder of a dbt project: vde init --dbt DIR"
        raise UsageError(f"'{folder}' has no dbt_project.yml", hint=hint)
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"'{folder}' is a file", hint="choose another folder: vde init DIR")
    files = {p.relative_to(TEMPLATE).as_posix(): p for p in TEMPLATE.rglob("*") if p.is_file()}
    template = {_NAMES.get(name, name): p.read_text("utf-8") for name, p in files.items()}
    import secrets

    project_id = secrets.token_hex(8)
    template["pyproject.toml"] = template["pyproject.toml"].replace("$ID", project_id)
    if dbt:
        template = {name: template[name] for name in _OF_DBT}
        template["pyproject.toml"] += _dbt_settings()
    if not dagster:
        del template[DEFINITIONS]
    there = {path for path in template if (folder / path).exists()}
    taken = sorted(there - _OF_EVERY_FOLDER)
    if (folder / "models").exists() and not dbt:
        taken = ["models", *(path for path in taken if not path.startswith("models/"))]
    if taken:
        command = "vde init --dbt" if dbt else "vde init"
        hint = f"choose another folder: {command} DIR"
        if taken == [DEFINITIONS]:
            hint += f"; or keep your {DEFINITIONS}: {command} --no-dagster"
        raise UsageError(f"'{folder}' already has {', '.join(taken)}", hint=hint)
    written = sorted(template.keys() - there)
    try:
        for path in written:
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(template[path], "utf-8")
    except OSError as error:
        hint = "choose another folder: vde init DIR"
        raise UsageError(f"cannot write to '{folder}': {error.strerror}", hint=hint) from error
    return NewProject(tuple(written), tuple(sorted(there)), project_id)


def _find_dbt() -> str | None:
    import shutil
    import sys

    return shutil.which("dbt") or shutil.which("dbt", path=Path(sys.executable).parent)


def _dbt_settings() -> str:
    """Return `[tool.vde.dbt]`, with `executable` commented out if dbt is installed with vde."""
    import sys

    found = _find_dbt()
    own = found is None or Path(found).parent == Path(sys.executable).parent
    text = 'executable = "dbt"  # dbt in a separate environment: its path or name'
    return f"\n[tool.vde.dbt]\n{'# ' if own else ''}{text}\n"
