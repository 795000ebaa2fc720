"""Topological order of snapshots."""

from __future__ import annotations

from collections.abc import Mapping
from graphlib import TopologicalSorter

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshot import Snapshot


def in_order(snapshots: Mapping[ModelName, Snapshot]) -> dict[ModelName, Snapshot]:
    """Return the snapshots with parents before children, by name among equals."""
    graph = {
        name: [parent for parent in snapshots[name].parents if parent in snapshots]
        for name in sorted(snapshots)
    }
    return {name: snapshots[name] for name in TopologicalSorter(graph).static_order()}
