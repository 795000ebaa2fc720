"""Iceberg without Spark: catalog, view and table metadata, the publish transaction, clean-up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.lakehouse.publishing.publication import FastForward, Publication

__all__ = ["FastForward", "Lakehouse", "Publication"]


def __getattr__(name: str) -> Any:
    """Import a name at its first use: a plan publishes nothing."""
    if name in __all__:
        from vde_dagster.lakehouse import lakehouse
        from vde_dagster.lakehouse.publishing import publication

        return lakehouse.Lakehouse if name == "Lakehouse" else getattr(publication, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
