"""Command `vde help`: the help of a command, and pages such as the cheat sheet."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer

from vde_dagster.base.texts import suggest
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

Topic = Annotated[
    list[str] | None,
    typer.Argument(metavar="[TOPIC]", help="A page, such as cheatsheet, or a command."),
]


def read_pages() -> dict[str, str]:
    """Return the pages of the documentation, by name."""
    # The folder `pages` is a link to docs/, which a wheel contains as files.
    folder = files("vde_dagster.cli") / "pages"
    found = {Path(page.name).stem: page for page in folder.iterdir() if page.name.endswith(".md")}
    return {name: found[name].read_text(encoding="utf-8") for name in sorted(found, key=str.lower)}


def show_help(
    context: typer.Context,
    topic: Topic = None,
    project: ProjectDir = Path("."),
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Print a page of the documentation, or the help of a command.

    Examples: vde help; vde help cheatsheet; vde help metrics; vde help plan
    """
    pages, words = read_pages(), topic or []
    name, root = " ".join(words), context.find_root()
    if not words:
        listed = fill(", ".join(pages), 78, initial_indent="  ", subsequent_indent="  ")
        text = f"{root.get_help()}\n\nPages, to read by `vde help PAGE`:\n{listed}"
    else:
        text = pages.get(name) or _command_help(root, words)
    Output(as_json).result({"topic": name or None, "text": text}, text.rstrip())


def _command_help(root: Any, words: list[str]) -> str:
    """Return the help of the command that the words name.

    Raises:
        UsageError: No command has this name.
    """
    command, context, left = root.command, root, list(words)
    while left and hasattr(command, "commands"):
        names = command.list_commands(context)
        first, both = left[0], " ".join(left[:2])
        if first not in names and both not in names:
            break
        word, command, left = command.resolve_command(context, left)
        context = command.make_context(word, [], parent=context, resilient_parsing=True)
    if left:
        name = " ".join(words)
        known = [*read_pages(), *root.command.list_commands(root)]
        hint = suggest(name, known, otherwise="to list all commands and pages, run: vde help")
        raise UsageError(f"'{name}' is neither a command nor a page of help", hint=hint)
    return str(context.get_help())
