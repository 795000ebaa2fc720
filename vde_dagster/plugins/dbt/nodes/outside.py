"""Exposures of a dbt project, and names of its nodes in Dagster.

The names equal dagster-dbt's defaults, so existing schedules, sensors and assets keep working.

Source: https://docs.dagster.io/integrations/libraries/dbt/reference
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vde_dagster.api.errors import SourceLocation, placed
from vde_dagster.api.models import Asset, Exposure
from vde_dagster.api.sources import LoadedFile, TableNames
from vde_dagster.plugins.dbt.manifest import Node
from vde_dagster.plugins.dbt.units import Reader, owner_name


def read_exposure(unit: str, reader: Reader, path: Path, names: TableNames) -> LoadedFile:
    """Convert an exposure of dbt, with the models that it reads."""
    exposure, place = reader.exposure, SourceLocation(path)
    with placed(place):
        reads = tuple((names.model_name(parts), None, place) for parts in reader.reads)
    name, owner = exposure.label or exposure.name, owner_name(exposure.owner)
    description = exposure.description or None
    converted = Exposure(name, owner, exposure.url, reads, place, description=description)
    return LoadedFile(Path(unit), exposures=(converted,) if reads else ())


def read_asset(node: Node, meta: Mapping[str, Any]) -> Asset:
    """Return a node's asset key, group and owners, from `meta.dagster` or else from dbt's names."""
    value = meta.get("dagster")
    given: Mapping[str, Any] = value if isinstance(value, Mapping) else {}
    group = given.get("group") or node.group or node.config.get("group")
    owners = tuple(map(str, _as_list(given.get("owners"))))
    return Asset(
        tuple(map(str, _as_list(given.get("asset_key")))) or _asset_key(node),
        str(group) if group else None,
        owners,
    )


def _asset_key(node: Node) -> tuple[str, ...]:
    if node.resource_type == "source":
        return (node.source_name, node.name) if node.source_name else ()
    if node.version is not None:
        return (node.alias or node.name,)
    schema = node.config.get("schema")
    return (str(schema), node.name) if schema else (node.name,)


def _as_list(value: Any) -> list[Any]:
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) else []
