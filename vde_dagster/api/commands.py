"""Options of `vde` commands, and printing of the commands' results."""

from vde_dagster.cli.commands.project import Workflow
from vde_dagster.cli.options import on_project
from vde_dagster.cli.output import Output
from vde_dagster.terminal.tables import simple_table

__all__ = ["Output", "Workflow", "on_project", "simple_table"]
