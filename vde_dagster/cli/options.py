"""The options that commands share, in one spelling."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from vde_dagster.errors import UsageError

ProjectDir = Annotated[Path, typer.Option("--project", help="The project's folder.", metavar="DIR")]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on stdout, and nothing else there.")
]
Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of unexpected errors.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]

EnvironmentName = Annotated[
    str, typer.Argument(metavar="ENV", help="The environment: prod, or a name of your own.")
]

Start = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only intervals from here on: a date or ISO 8601 instant (UTC)."
    ),
]
End = Annotated[
    str | None,
    typer.Option(
        metavar="TIME", help="Only intervals before here: a date or ISO 8601 instant (UTC)."
    ),
]
Select = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MODELS",
        help="Only these: name, +name, name+, tag:name or a glob; give it again for more.",
    ),
]
SkipBackfill = Annotated[
    bool, typer.Option("--skip-backfill", help="Publish without computing anything.")
]
Concurrency = Annotated[int | None, typer.Option(min=1, help="Models worked on at once.")]


def instant(text: str | None, option: str) -> datetime | None:
    """Read a time that the user gave.

    Args:
        text: A date or an instant in ISO 8601; without a zone it is UTC.
        option: The option's name, for the message.

    Raises:
        UsageError: It is neither.
    """
    if text is None:
        return None
    from vde_dagster.planning.interval import parse_iso

    try:
        return parse_iso(text)
    except ValueError:
        raise UsageError(
            f"{option} '{text}' is not a time",
            hint="write a date or an instant (UTC): 2013-02-01, or 2013-02-01T06:00:00Z",
        ) from None
