"""Dagster integration: assets, plans, environments, jobs, sensors and schedules.

Submodules load on first use, so `import vde_dagster.orchestration` is cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.orchestration.component import VdeProjectComponent as VdeProjectComponent
    from vde_dagster.orchestration.definitions import vde_definitions as vde_definitions
    from vde_dagster.orchestration.models.translator import VdeTranslator as VdeTranslator
    from vde_dagster.orchestration.pyspark_resource import VdePySparkResource as VdePySparkResource
    from vde_dagster.orchestration.pyspark_resource import spark_config as spark_config
    from vde_dagster.orchestration.resource import WorkspaceResource as WorkspaceResource

_HOMES = {
    "VdeProjectComponent": "vde_dagster.orchestration.component",
    "VdePySparkResource": "vde_dagster.orchestration.pyspark_resource",
    "VdeTranslator": "vde_dagster.orchestration.models.translator",
    "WorkspaceResource": "vde_dagster.orchestration.resource",
    "spark_config": "vde_dagster.orchestration.pyspark_resource",
    "vde_definitions": "vde_dagster.orchestration.definitions",
}
__all__ = [*_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names, for Dagster's search for components."""
    return __all__
