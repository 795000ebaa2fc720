"""Opening the project that a command works on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vde_dagster.cli.spark_start import announce_spark
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


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
