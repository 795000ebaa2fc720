"""The project that a command works on, opened; a line on stderr while Spark starts."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, get_type_hints

from vde_dagster.cli.options import Debug, Json, ProjectDir, declared
from vde_dagster.cli.output import Output
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


def on_project(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command `--project`, `--json` and `--debug` for its `workspace` and `output`."""
    hints = get_type_hints(command, localns={"Workspace": object}, include_extras=True)
    own = [
        parameter.replace(annotation=hints[name])
        for name, parameter in signature(command).parameters.items()
        if name not in ("workspace", "output")
    ]

    def run(project: Path, as_json: bool, debug: bool, **given: Any) -> None:
        with opened(project) as workspace:
            command(workspace=workspace, output=Output(as_json), **given)

    return declared(run, command, [*own, *signature(_common, eval_str=True).parameters.values()])


def _common(project: ProjectDir = Path("."), as_json: Json = False, debug: Debug = False) -> None:
    """Take the options of every command on a project."""


@contextmanager
def opened(project: Path) -> Iterator[Workspace]:
    """Open a project's workspace and close it afterwards, Spark included.

    Raises:
        UsageError: The folder does not exist.
    """
    if not project.is_dir():
        raise UsageError(
            f"there is no folder '{project}'",
            hint="give the project's folder with --project, or make a project with `vde init`",
        )
    from vde_dagster.execution.workspace import Workspace

    announce_spark()
    workspace = Workspace.open(project.resolve())
    try:
        yield workspace
    finally:
        workspace.close()


LOGGER: Final = "vde_dagster.spark.session.session"


class _OnTerminal(logging.Handler):
    """Prints to whatever stderr is by then: bars of progress put themselves in its place."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a message in a line of its own."""
        print(self.format(record), file=sys.stderr, flush=True)


def announce_spark() -> None:
    """Print a line on stderr when Spark starts and when it is there, if that is a terminal."""
    logger = logging.getLogger(LOGGER)
    told = any(isinstance(handler, _OnTerminal) for handler in logger.handlers)
    if told or not sys.stderr.isatty():
        return
    logger.setLevel(logging.INFO)
    logger.addHandler(_OnTerminal())
