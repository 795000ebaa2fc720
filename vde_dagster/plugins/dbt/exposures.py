"""dbt's exposures as the project's: what outside of it reads which models."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.errors import SourceLocation, placed
from vde_dagster.plugins.dbt.manifest import Reader, owner_of
from vde_dagster.project.model import Exposure, LoadedFile
from vde_dagster.project.table_names import TableNames


def read_exposure(unit: str, reader: Reader, path: Path, names: TableNames) -> LoadedFile:
    """Read an exposure.

    Args:
        unit: The unit's name.
        path: The file that declares it, relative to the root.
    """
    exposure, place = reader.exposure, SourceLocation(path)
    with placed(place):
        reads = tuple((names.model_name(parts), None, place) for parts in reader.reads)
    name, owner = exposure.label or exposure.name, owner_of(exposure.owner)
    told = Exposure(name, owner, exposure.url, reads, place)
    return LoadedFile(Path(unit), exposures=(told,) if reads else ())
