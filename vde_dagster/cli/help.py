"""Command `vde help`, its pages such as the cheat sheet, and the commands grouped by task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from importlib.resources import files
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from vde_dagster.base.texts import suggest
from vde_dagster.cli.options import Debug, Json, ProjectDir
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

# Typer exports only this class of its parser's errors; they all share its base class.
CALL_ERROR: type[Exception] = typer.BadParameter.__mro__[1]

PANELS = {
    "Work": (
        *("init", "plan", "diff", "apply", "run", "evaluate", "test", "lint", "format", "render"),
        *("ui", "lsp", "help"),
    ),
    "Environments": ("environments", "history", "rollback", "freeze", "drop", "query", "show"),
    "Inspect": (
        *("info", "dag", "lineage", "changes", "table-diff", "audit", "check-intervals"),
        *("table-name", "metrics", "cost", "log"),
    ),
    "Operate": (
        *("janitor", "fsck", "sync", "clean", "engine", "state", "export", "serve"),
        *("create-external-models",),
    ),
    "Team": ("plan reject", "plan sign", "keys", "ci", "roles", "token", "notify"),
    "Exports": ("schema", "describe", "docs"),
}
"""Commands by title, in order. `ci` stands for all commands with this first word: `ci run`, …"""
OTHERS = "Plug-ins"
"""The title of commands from other distributions."""
_WHOLE_SENTENCE = 1_000
"""The length (characters) to which the first sentence of a command's help is cut."""


class SentenceGroup(TyperGroup):
    """A command group whose help shows the complete first sentence of each command."""

    def panels(self, names: list[str]) -> Iterable[tuple[str, list[str]]]:
        """Return the titles of the panels, each with the names of its commands."""
        return [("Commands", names)]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not hasattr(command, "commands") and not ctx.resilient_parsing:
            _check_values(command, ctx, name, rest)
        return name, command, rest

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        commands = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        sentences = {
            name: command.get_short_help_str(_WHOLE_SENTENCE)
            for name, command in commands.items()
            if command is not None and not command.hidden
        }
        for title, names in self.panels([*sentences]):
            with formatter.section(title):
                formatter.write_dl([(name, sentences[name]) for name in names])


def _check_values(command: Any, parent: Any, name: str | None, words: list[str]) -> None:
    """Refuse empty values, which unset shell variables leave, and options that are given twice."""
    context = command.context_class(command, info_name=name, parent=parent)
    try:
        given, _, order = command.make_parser(context).parse_args(list(words))
    except CALL_ERROR as error:
        error.ctx = context  # type: ignore[attr-defined]
        raise
    for param in command.params:
        repeatable = param.param_type_name == "argument" or param.is_flag or param.multiple
        if order.count(param) > 1 and not repeatable:
            raise typer.BadParameter("given more than once", ctx=context, param=param)
        value = given.get(param.name)
        if "" in (value if isinstance(value, list | tuple) else [value]):
            raise typer.BadParameter("the value is empty", ctx=context, param=param)


def grouped(names: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield (title, names of commands) for each title that has any of the given commands.

    >>> dict(grouped(["plan", "ci run", "plan reject", "mine"]))
    {'Work': ['plan'], 'Team': ['plan reject', 'ci run'], 'Plug-ins': ['mine']}
    """
    places = {
        word: (panel, place) for panel, words in PANELS.items() for place, word in enumerate(words)
    }
    found: dict[str, list[tuple[int, str]]] = {panel: [] for panel in (*PANELS, OTHERS)}
    for name in names:
        panel, place = places.get(name) or places.get(name.partition(" ")[0]) or (OTHERS, 0)
        found[panel].append((place, name))
    for panel, commands in found.items():
        if commands:
            yield panel, [name for _, name in sorted(commands)]


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
