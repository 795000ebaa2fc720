"""The record of what was built and published, in SQL: tables, environments, plans, leases.

`StateStore` has its parts by name over one `Database`. Whoever changes something writes to the
outbox (`db.outbox`) in the same transaction, from which others are told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.state.store import StateStore

if TYPE_CHECKING:
    from vde_dagster.state.db.effects import Clock, Effects, NoEffects, SystemClock
    from vde_dagster.state.db.leases import HeldLease, Lease
    from vde_dagster.state.environments.publications import PublicationRecord, PublishedFile
    from vde_dagster.state.environments.versions import EnvironmentVersion
    from vde_dagster.state.fills.fills import FillRecord
    from vde_dagster.state.plans.audits import AuditRecord
    from vde_dagster.state.plans.plans import PlanRecord, PlanStatus

_LAZY = {
    "AuditRecord": "vde_dagster.state.plans.audits",
    "Clock": "vde_dagster.state.db.effects",
    "Effects": "vde_dagster.state.db.effects",
    "EnvironmentVersion": "vde_dagster.state.environments.versions",
    "HeldLease": "vde_dagster.state.db.leases",
    "Lease": "vde_dagster.state.db.leases",
    "NoEffects": "vde_dagster.state.db.effects",
    "FillRecord": "vde_dagster.state.fills.fills",
    "PlanRecord": "vde_dagster.state.plans.plans",
    "PlanStatus": "vde_dagster.state.plans.plans",
    "PublicationRecord": "vde_dagster.state.environments.publications",
    "PublishedFile": "vde_dagster.state.environments.publications",
    "SystemClock": "vde_dagster.state.db.effects",
}

__all__ = [
    "AuditRecord",
    "Clock",
    "Effects",
    "EnvironmentVersion",
    "FillRecord",
    "HeldLease",
    "Lease",
    "NoEffects",
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

    return getattr(import_module(module), name)
