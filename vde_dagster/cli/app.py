"""Command `vde`: its subcommands and their exit codes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any

import typer

from vde_dagster.base.plugins import Seam
from vde_dagster.base.secrets import masking_output
from vde_dagster.cli import options
from vde_dagster.cli.commands import (
    access,
    changes,
    engine,
    environments,
    inspecting,
    lineage,
    maintenance,
    planning,
    project,
    serving,
    testing,
)
from vde_dagster.cli.errors import Cancelled, report, report_call, report_cancelled
from vde_dagster.cli.help import CALL_ERROR, SentenceGroup, grouped, show_help
from vde_dagster.sql.trees import collect_rarely

_PLUGINS: Seam[Callable[..., Any]] = Seam("commands")


class _Commands(SentenceGroup):
    """Finds built-in commands and plug-ins' commands. A name may have two words: `plan reject`."""

    def get_command(self, ctx: Any, name: str) -> Any:
        known = super().get_command(ctx, name)
        if known is not None:
            return known
        found = typer.Typer(cls=SentenceGroup, add_completion=False, rich_markup_mode=None)
        function = _PLUGINS.find(name)
        if function is not None:
            found.command(name, context_settings=ctx.command.context_settings)(function)
            return typer.main.get_command(found)
        begun = f"{name} "
        parts = {both.removeprefix(begun): one for both, one in _PLUGINS.working(begun).items()}
        for second, one in parts.items():
            found.command(second)(one)
        # A callback makes a group of a single command, too.
        help_ = f"Commands that begin with `vde {name}`."
        found.callback(help=help_, no_args_is_help=True)(lambda: None)
        return typer.main.get_command(found) if parts else None

    def list_commands(self, ctx: Any) -> list[str]:
        return [*super().list_commands(ctx), *_PLUGINS.working()]

    def panels(self, names: list[str]) -> Iterable[tuple[str, list[str]]]:
        return grouped(names)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        both = " ".join(args[:2])
        if both in self.commands or self._is_plugin_command(both):
            args = [both, *args[2:]]
        try:
            return super().resolve_command(ctx, args)
        except CALL_ERROR as error:
            # Typer suggests only built-in commands.
            words = sorted({name.partition(" ")[0] for name in _PLUGINS.names()})
            message = getattr(error, "message", "")
            is_unknown = message.startswith("No such command") and "Did you mean" not in message
            if close := get_close_matches(args[0], words) if is_unknown else []:
                error.message = f"{message} Did you mean {', '.join(map(repr, close))}?"  # type: ignore[attr-defined]
            raise

    def _is_plugin_command(self, both: str) -> bool:
        first, _, second = both.partition(" ")
        ours = self.commands.get(first)
        if hasattr(ours, "commands") or not second or second.startswith("-"):
            return False
        if ours is None:
            return _PLUGINS.find(both) is not None
        # A plug-in may add `plan sign` next to `plan reject`, although `plan` takes an environment.
        if any(name.startswith(f"{first} ") for name in self.commands):
            return _PLUGINS.find(both) is not None
        takes = (one for one in ours.params if one.param_type_name == "argument")
        return next(takes, None) is None and _PLUGINS.find(both) is not None

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        # Shells would read two words as two commands.
        return [one for one in super().shell_complete(ctx, incomplete) if " " not in one.value]


app = typer.Typer(
    name="vde",
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.callback()(project.about)
app.command("init")(project.init)
app.command("help")(show_help)
app.command("info")(inspecting.info)
app.command("plan")(planning.plan)
app.command("plan reject")(planning.reject)
app.command("diff")(planning.diff)
app.command("apply")(planning.apply)
app.command("run")(planning.run)
app.command("environments")(environments.environments)
app.command("history")(environments.history)
app.command("rollback")(environments.rollback)
app.command("freeze")(environments.freeze)
app.command("drop")(environments.drop)
app.command("janitor")(maintenance.janitor)
app.command("render")(inspecting.render)
app.command("query")(inspecting.query)
app.command("show")(inspecting.show)
app.command("changes")(changes.changes)
app.command("test")(testing.run_tests)
app.command("audit")(planning.audit)
app.command("evaluate")(inspecting.evaluate)
app.command("table-diff")(inspecting.table_diff)
app.command("lint")(project.lint)
app.command("format")(project.format_sql)
app.command("dag")(inspecting.dag)
app.command("lineage")(lineage.lineage)
app.command("table-name")(inspecting.table_name)
app.command("check-intervals")(planning.check_intervals)
app.command("create-external-models")(project.create_external_models)
app.command("clean")(maintenance.clean)
app.command("sync")(maintenance.sync)
app.command("export")(maintenance.export)
app.command("fsck")(maintenance.fsck)
app.command("ui")(serving.ui)
app.command("serve")(serving.serve)
app.command("schema")(project.schema)
app.command("log")(access.log)
app.command("log verify")(access.log_verify)
app.command("roles")(access.roles)
app.command("roles create")(access.roles_create)
app.command("roles grant")(access.roles_grant)
app.command("roles revoke")(access.roles_revoke)
app.add_typer(engine.engine, name="engine", no_args_is_help=True)
app.add_typer(serving.token, name="token", no_args_is_help=True)
app.add_typer(maintenance.state, name="state", no_args_is_help=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code: 0 success, 1 failed work, 2 invalid input."""
    prepare()
    options.process_ends = True
    sys.exit(call(sys.argv[1:] if arguments is None else arguments))


def prepare() -> None:
    """Prepare a process for running commands: build the parser, and collect garbage rarely."""
    collect_rarely()
    _command()


def call(arguments: Sequence[str]) -> int:
    """Run the command line and return the process's exit code."""
    with masking_output():
        return _call(list(arguments) or ["--help"])


def _call(given: list[str]) -> int:
    as_json = "--json" in given or "--format=json" in given or "--format json" in " ".join(given)
    try:
        code = _command()(given, prog_name="vde", standalone_mode=False)
        return code if isinstance(code, int) else 0
    except CALL_ERROR as error:
        path = getattr(getattr(error, "ctx", None), "command_path", "vde")
        described = str(getattr(error, "format_message", error.__str__)())
        if described.startswith("Usage: "):  # The help of a group.
            described = f"a command is missing after `{path}`"
        return report_call(described, path, as_json=as_json)
    except (Cancelled, typer.Abort):
        return report_cancelled(as_json=as_json)
    except BrokenPipeError:
        # The reader closed stdout early (`vde … | head`).
        sys.stderr.close()
        return 0
    except Exception as error:
        return report(error, as_json=as_json, debug="--debug" in given)


@cache
def _command() -> Any:
    # Typer would build the parser for each call.
    return typer.main.get_command(app)
