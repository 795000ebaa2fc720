"""What has been built and published, in SQL: snapshots, tables, environments, plans, leases."""

from __future__ import annotations

from vde_dagster.state.audits import AuditRecord
from vde_dagster.state.clock import Clock, SystemClock
from vde_dagster.state.effects import Effects, NoEffects
from vde_dagster.state.leases import HeldLease, Lease
from vde_dagster.state.pending import PendingInterval
from vde_dagster.state.plans import PlanRecord, PlanStatus
from vde_dagster.state.publications import PublicationRecord, PublishedFile
from vde_dagster.state.store import StateStore
from vde_dagster.state.versions import EnvironmentVersion

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
