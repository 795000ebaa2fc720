"""Metrics that belong to an environment, compiled by MetricFlow, see docs/metrics.md.

`definitions` reads `metrics/*.yaml`, `layer` gets a metric's SQL from MetricFlow, `kept` stores
definitions with environments. In plans and lineage, a metric is a consumer that reads columns of
models.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.api.values import Settings, how_to_install

if TYPE_CHECKING:
    from vde_dagster.api.dagster import AssetCatalog
    from vde_dagster.api.sources import FileContext, Folder, LoadedFile

FOLDER = "metrics"
"""Folder of metrics and semantic models."""


def load_metrics(folder: Folder, path: Path, text: str, context: FileContext) -> LoadedFile:
    """Read a file of `metrics/`, together with the folder's other files.

    Each metric becomes an `Exposure`: a consumer that reads columns of models.

    Raises:
        ProjectError: MetricFlow rejects a metric or semantic model of the file.
    """
    from vde_dagster.api.sources import LoadedFile

    found = find_spec("metricflow")
    if found is None or found.origin is None:
        absence = "metrics are left out, MetricFlow is not installed"
        # Where it will be once it is installed: a folder's content is the names in it.
        return LoadedFile(path, uses=tuple(one for one in sys.path if _is_outside(one, folder)),
                          unread=(f"{absence}; {how_to_install('metrics')}",))  # fmt: skip
    from vde_dagster.plugins.metrics.dialects import (
        AGGREGATIONS,
        MANIFEST,
        adapter_dialect,
        translate_manifest,
    )
    from vde_dagster.plugins.metrics.reading import file_exposures

    # dbt's compiled manifest is one file, next to the product's own files.
    own = folder.files_in(FOLDER, ".yaml", ".yml") if path.suffix != ".json" else ()
    others = [one for one in own if one != path.as_posix()]
    dialect = "spark"
    if path.suffix == ".json":
        manifest = folder.text(path.with_name(MANIFEST).as_posix())
        text = translate_manifest(path, text, manifest, folder.settings)
        dialect = adapter_dialect(manifest)
    texts = {path: text, **{Path(one): folder.text(one) for one in others}}
    about = str(Path(found.origin).with_name("__about__.py"))
    folders = {Path(one).parent.as_posix() for one in (*others, path.as_posix())}
    read = LoadedFile(path, uses=(*others, *sorted(folders), about))
    trusted = tuple(sorted({*folder.settings.trusted_functions, *AGGREGATIONS}))
    readers = (
        replace(one, dialect=dialect, dialect_trust=trusted)
        for one in file_exposures(path, texts, context.names)
    )
    return replace(read, exposures=tuple(readers))


def metrics_assets(catalog: AssetCatalog, settings: Settings) -> Iterable[Any]:
    """Return a Dagster asset for each metric, or no assets if the project's files have mistakes."""
    has_dbt = (settings.root / "dbt_project.yml").is_file() or settings.sources
    if catalog.live.errors or not ((settings.root / FOLDER).is_dir() or has_dbt):
        return ()
    if find_spec("metricflow") is None:
        return ()
    from vde_dagster.plugins.metrics.assets import make_assets

    return make_assets(catalog, settings)


def _is_outside(path: str, folder: Folder) -> bool:
    return Path(path).is_dir() and not Path(path).resolve().is_relative_to(folder.root)
