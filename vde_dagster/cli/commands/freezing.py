"""`vde freeze`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vde_dagster.cli.opening import opened
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output

if TYPE_CHECKING:
    from rich.console import Console

    from vde_dagster.execution.freeze import FreezeResult

Source = Annotated[
    str,
    typer.Argument(
        metavar="VERSION", help="What to freeze: prod, prod@41, or prod@2026-11-01T06:00 (UTC)."
    ),
]
FrozenName = Annotated[str, typer.Argument(metavar="NAME", help="The new environment's name.")]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="For how long, such as 400d, 12h or 8w; without it until it is dropped.",
    ),
]


def freeze(
    version: Source,
    name: FrozenName,
    keep: Keep = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Make an environment that shows a version for ever, its definitions and its data.

    Nothing is computed or copied. Example: vde freeze prod@41 close_2026_11 --keep 400d
    """
    output = Output(as_json)
    with opened(project) as workspace:
        from vde_dagster.base.durations import parse_duration
        from vde_dagster.cli.applying import failed_statements_json, show_failed_statements
        from vde_dagster.cli.shapes import environment_json

        length = parse_duration(keep, "--keep") if keep is not None else None
        result = workspace.freeze(version, name, length)
        output.result(
            {
                "environment": environment_json(result.environment),
                "tables": result.tables,
                "read_live": [str(one) for one in result.live],
                "failed_statements": failed_statements_json(result.failed_statements),
            },
            lambda console: _show(console, result),
        )
        if result.live and not as_json:
            output.note(
                f"not frozen: {', '.join(map(str, result.live))}; external tables have no "
                "versions, so models without tables read them as they are"
            )
        if result.failed_statements:
            show_failed_statements(output.err, result.failed_statements)
            raise SystemExit(1)


def _show(console: Console, result: FreezeResult) -> None:
    from vde_dagster.cli.shapes import short_time

    made = result.environment
    until = short_time(made.expires_at)
    kept = f"until {until} UTC" if until else f"until it is dropped: vde drop {made.name}"
    console.print(
        f"[bold]{made.name}[/] shows {made.frozen} for ever: {len(made.entries)} models, "
        f"{result.tables} tables at what they held; kept {kept}"
    )
