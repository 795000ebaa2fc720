"""Syncs: rows of published views copied to outside systems, see docs/sync.md.

`changed_rows` finds the differences between two versions, `syncs` sends them to a sink in batches,
`ledger` stores positions. Sinks are entry points with the protocol of `vde_dagster.api.sinks`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.api.dagster import AssetCatalog
    from vde_dagster.api.sources import FileContext, Folder, LoadedFile
    from vde_dagster.api.values import Settings


def load_syncs(folder: Folder, path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read `syncs.yaml`, and report each sync as a consumer of its model."""
    from vde_dagster.plugins.sync.definitions import load_file

    return load_file(path, text, context.names)


def sync_assets(catalog: AssetCatalog, settings: Settings) -> Iterable[Any]:
    """Return a Dagster asset for each sync, or no assets if the project's files have mistakes."""
    if catalog.live.errors or not any(settings.root.glob("syncs.y*ml")):
        return ()
    from vde_dagster.plugins.sync.assets import make_sync_assets

    return make_sync_assets(catalog, settings)
