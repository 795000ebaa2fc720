"""Commands of environments: `vde environments`, `history`, `rollback`, `freeze` and `drop`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vde_dagster.cli.options import DryRun, EnvironmentName, on_project
from vde_dagster.cli.output import Output
from vde_dagster.terminal.tables import simple_table

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.environments.compare import VersionChange
    from vde_dagster.execution.environments.environments import FreezeResult
    from vde_dagster.execution.environments.rollback import RollbackResult
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.state.environments.environments import EnvironmentSummary


Version = Annotated[
    int | None,
    typer.Option(
        "--to",
        min=1,
        metavar="VERSION",
        help="The version to return to; default: the latest that differs from the current one.",
    ),
]
DefinitionsOnly = Annotated[bool, typer.Option("--definitions-only", help="Keep the current data.")]
Limit = Annotated[int, typer.Option(min=1, help="Maximum number of versions.")]


@on_project
def environments(workspace: Workspace, output: Output) -> None:
    """List the environments.

    Example: vde environments --json
    """
    from vde_dagster.cli.shapes import environment_json, mirror_json, mirror_text
    from vde_dagster.reports.document import short_time

    found = workspace.store.environments.summaries()
    mirrors = workspace.store.mirror.standings()
    now = workspace.store.database.clock.now()
    headers = (
        *("environment", "version", "models", "published (UTC)", "by", "expires (UTC)"),
        *("shows", "mirror"),
    )
    rows = [
        (
            one.name,
            one.version,
            one.models,
            short_time(one.published_at),
            one.published_by,
            short_time(one.expires_at) or "never",
            _standing(one),
            mirror_text(mirrors.get(one.name), now),
        )
        for one in found
    ]
    # The last two columns are empty for most projects.
    shown = [i for i in range(len(headers)) if i < 6 or any(row[i] for row in rows)]
    table = simple_table([headers[i] for i in shown], [[row[i] for i in shown] for row in rows])
    names = {one.name for one in found}
    ended = {name: standing for name, standing in mirrors.items() if name not in names}
    listed = [
        {**environment_json(one), "mirror": mirror_json(mirrors.get(one.name), now)}
        for one in found
    ]
    gone = {name: mirror_json(standing, now) for name, standing in ended.items()}

    def show(console: Console) -> None:
        console.print(table if found else "no environment has been published yet")
        for name, standing in ended.items():
            text = f"'{name}' no longer exists; its mirror: {mirror_text(standing, now)}"
            console.print(text, markup=False)

    result = {"environments": listed}
    output.result({**result, "ended_mirrors": gone} if gone else result, show)


def _standing(environment: EnvironmentSummary) -> str:
    if environment.frozen is not None:
        return f"frozen {environment.frozen}"
    models = "1 model" if environment.held == 1 else f"{environment.held} models"
    return f"{models} rolled back" if environment.held else ""


@on_project
def history(
    workspace: Workspace, output: Output, environment: EnvironmentName, limit: Limit = 20
) -> None:
    """List the versions of an environment, newest first, with the changes of each.

    Example: vde history prod --limit 5
    """
    from vde_dagster.overviews.environments import history_section
    from vde_dagster.planning.environments.environment import environment_name
    from vde_dagster.terminal.reports import show_table

    name = environment_name(environment)
    changes = workspace.environments.history(name, limit)
    output.result(
        {"environment": name, "versions": list(map(_version_json, changes))},
        lambda console: show_table(console, history_section(changes)),
    )


def _version_json(change: VersionChange) -> dict[str, Any]:
    from vde_dagster.cli.shapes import instant_json

    version = change.version
    return {
        "version": version.version,
        "published_at": instant_json(version.published_at),
        "published_by": version.published_by,
        "plan": version.plan_id,
        "note": version.note,
        "attached": change.attached or None,
        "added": version.added,
        "changed": version.changed,
        "removed": version.removed,
        "dropped": version.dropped,
        "changes": change.what,
        "data": [table.to_json() for table in change.data],
    }


@on_project
def rollback(
    workspace: Workspace,
    output: Output,
    environment: EnvironmentName,
    to: Version = None,
    definitions_only: DefinitionsOnly = False,
    dry_run: DryRun = False,
) -> None:
    """Roll an environment back to an earlier version, with its data.

    Nothing is computed: tables return to the Iceberg snapshots that the version pinned. --dry-run
    lists the views and tables that would change. Examples: vde rollback prod;
    vde rollback prod --to 1 --dry-run
    """
    from vde_dagster.overviews.environments import (
        rollback_notes,
        rollback_report,
        rollback_sentence,
    )
    from vde_dagster.terminal.reports import show_report

    result = workspace.environments.rollback(
        environment, to, definitions_only=definitions_only, dry_run=dry_run
    )
    facts = _rollback_json(result, dry_run=dry_run)
    if dry_run:
        report = rollback_report(result)
        _print_publication(output, result, facts, lambda console: show_report(console, report), ())
        option = " --definitions-only" if definitions_only else ""
        name = result.environment.name
        output.note(f"to roll back, run: vde rollback {name} --to {result.restored}{option}")
        return
    sentence = rollback_sentence(result)
    _print_publication(output, result, facts, sentence, rollback_notes(result))


def _print_publication(
    output: Output,
    result: RollbackResult | FreezeResult,
    facts: dict[str, Any],
    shown: Callable[[Console], None] | str,
    notes: Iterable[str],
) -> None:
    from vde_dagster.cli.applying import failed_statements_json
    from vde_dagster.cli.shapes import environment_json

    failed = result.failed_statements
    output.result(
        {
            "environment": environment_json(result.environment),
            **facts,
            "failed_statements": failed_statements_json(failed),
        },
        shown,
    )
    for note in notes:
        output.note(note)
    if failed:
        sentences = [one.sentence for one in failed]
        output.show_failed_statements(output.err, failed[0].environment, sentences)
        raise SystemExit(1)


def _rollback_json(result: RollbackResult, *, dry_run: bool) -> dict[str, Any]:
    return {
        "restored": result.restored,
        "dry_run": dry_run,
        "definitions_only": result.definitions_only,
        "base_version": result.base_version,
        "views": {
            str(view.name): {"change": view.change, "before": view.before, "after": view.after}
            for view in result.views
        },
        "moved": {
            str(name): {"rows": rows, "rows_before": result.rows_before.get(name)}
            for name, rows in result.moved.items()
        },
        "unchanged": list(map(str, result.unchanged)),
        "held": [str(name) for name in result.held],
        "holding": {one: [str(name) for name in names] for one, names in result.holding.items()},
        "missing": {str(name): ranges.to_json() for name, ranges in result.missing.items()},
        "reverted": {str(one.name): one.to_json() for one in result.reverted},
    }


@on_project
def drop(workspace: Workspace, output: Output, environment: EnvironmentName) -> None:
    """Mark an environment as expired.

    `vde janitor` removes its views and, after a grace time, its unshared tables. Example: vde drop
    dev
    """
    from vde_dagster.planning.environments.environment import environment_name

    workspace.environments.drop(environment)
    name = environment_name(environment)
    output.result(
        {"environment": name, "dropped": True},
        f"{name} has expired; `vde janitor` removes its views and tables",
    )


Source = Annotated[
    str, typer.Argument(metavar="VERSION", help="prod, prod@41, or prod@2026-11-01T06:00 (UTC).")
]
FrozenName = Annotated[str, typer.Argument(metavar="NAME", help="The new environment's name.")]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Time to keep the environment, such as 400d, 12h or 8w; default: until dropped.",
    ),
]


@on_project
def freeze(
    workspace: Workspace, output: Output, version: Source, name: FrozenName, keep: Keep = None
) -> None:
    """Create an environment that keeps serving one version, with its definitions and data.

    Nothing is computed or copied. Example: vde freeze prod@41 close_2026_11 --keep 400d
    """
    from vde_dagster.base.times import parse_duration
    from vde_dagster.overviews.environments import freeze_notes, freeze_sentence

    length = parse_duration(keep, "--keep") if keep is not None else None
    result = workspace.environments.freeze(version, name, length)
    facts = {"tables": result.tables, "read_live": [str(one) for one in result.live]}
    _print_publication(output, result, facts, freeze_sentence(result), freeze_notes(result))
