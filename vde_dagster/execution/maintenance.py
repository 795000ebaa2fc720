"""Looking after a warehouse: what nobody reads is dropped, files are checked, state is moved."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vde_dagster.errors import UsageError
from vde_dagster.execution.changes.followers import follow
from vde_dagster.planning.environments.environment import PRODUCTION

if TYPE_CHECKING:
    from pathlib import Path

    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.lakehouse.maintenance.fsck import Finding
    from vde_dagster.lakehouse.maintenance.janitor import JanitorReport


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What keeps a warehouse small and whole."""

    warehouse: Warehouse

    def janitor(self, *, dry_run: bool = False) -> JanitorReport:
        """Drop what no kept version of any environment reaches."""
        from vde_dagster.lakehouse.maintenance.janitor import run_janitor

        warehouse = self.warehouse
        warehouse.store.project.require_own()
        if not dry_run:
            # Before versions are forgotten that these views read.
            follow(warehouse, PRODUCTION, "janitor", first=True)
        return run_janitor(
            warehouse.store, warehouse.lakehouse, warehouse.settings, dry_run=dry_run
        )

    def fsck(self, *, deep: bool = False) -> tuple[Finding, ...]:
        """Check that every pointer leads to its files, and that what is shown is there.

        Args:
            deep: Whether the footers of data files are read, too.
        """
        from vde_dagster.lakehouse.maintenance.fsck import fsck
        from vde_dagster.lakehouse.maintenance.janitor import retention_of

        grace = retention_of(self.warehouse.settings).uncommitted_grace
        return fsck(self.warehouse.lakehouse, grace, deep=deep)

    def export_state(self, path: Path, *, replace: bool = False) -> dict[str, int]:
        """Write state and catalog to a file; return its rows by table.

        Args:
            replace: Whether it may exist.

        Raises:
            UsageError: The file exists, or its folder does not.
        """
        from vde_dagster.state.db.transfer import export_state

        if path.exists() and not replace:
            raise UsageError(f"{path} exists", hint="give another file, or --force to replace it")
        if not path.absolute().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent}", hint="make it first")
        return export_state(self.warehouse.store.database, path)
