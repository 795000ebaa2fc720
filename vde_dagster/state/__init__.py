"""What has been built and published, in SQL: snapshots, tables, environments, plans, leases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from vde_dagster.state.audits import AuditRecord
    from vde_dagster.state.clock import Clock, SystemClock
    from vde_dagster.state.effects import Effects, NoEffects
    from vde_dagster.state.leases import HeldLease, Lease
    from vde_dagster.state.pending import PendingInterval
    from vde_dagster.state.plans import PlanRecord, PlanStatus
    from vde_dagster.state.publications import PublicationRecord, PublishedFile
    from vde_dagster.state.versions import EnvironmentVersion

_LAZY = {
    "AuditRecord": "audits",
    "Clock": "clock",
    "Effects": "effects",
    "EnvironmentVersion": "versions",
    "HeldLease": "leases",
    "Lease": "leases",
    "NoEffects": "effects",
    "PendingInterval": "pending",
    "PlanRecord": "plans",
    "PlanStatus": "plans",
    "PublicationRecord": "publications",
    "PublishedFile": "publications",
    "SystemClock": "clock",
}

__all__ = [
    "AuditRecord",
    "Clock",
    "Effects",
    "EnvironmentVersion",
    "HeldLease",
    "Lease",
    "NoEffects",
    "PendingInterval",
    "PlanRecord",
    "PlanStatus",
    "PublicationRecord",
    "PublishedFile",
    "StateStore",
    "SystemClock",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
