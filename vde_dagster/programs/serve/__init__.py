"""Environments for any engine: an Iceberg REST catalog, and rows over HTTP; read-only.

`catalog_tables` finds the tables of the catalog, `loading` makes responses, and `read_rows` reads
rows at a version's pins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vde_dagster.base.installing import how_to_install
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.execution.publishers import ServerOptions
    from vde_dagster.execution.workspace import Workspace
    from vde_dagster.programs.serve.server import Server


class Http:
    """The plug-in `http` of the extension point `publishers`."""

    @staticmethod
    def open(workspace: Workspace, asked: ServerOptions) -> Server:
        """Return a server that begins to listen when it is used in `with`.

        Raises:
            UsageError: The extra `serve` is not installed.
        """
        try:
            from vde_dagster.programs.serve.server import Server
        except ModuleNotFoundError as error:
            raise UsageError(
                f"`vde serve` needs a package that is not installed: {error.name}",
                hint=how_to_install("serve"),
            ) from error
        return Server(workspace, asked)

    @staticmethod
    def check_filter(text: str) -> None:
        """Check the row filter of a token, such as `tenant = 7`.

        Raises:
            UsageError: The text is not a condition over columns and values.
        """
        from vde_dagster.lakehouse.rows.row_filters import parse_filter

        parse_filter(text)
