"""Assets and sensors that a plug-in adds to the code location. Imports Dagster."""

from vde_dagster.orchestration.events.steps import guarded_step
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import Names

__all__ = ["AssetCatalog", "Names", "guarded_step"]
