"""The events of what one plan filled: as it happens, or read from the state later."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from vde_dagster.orchestration.events.figures import Log, fill_facts, filled_by, skipped_facts
from vde_dagster.orchestration.events.projection import Combination, Filled, filled_event
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.names import ENVIRONMENT_TAG, PLAN_TAG
from vde_dagster.orchestration.pages.preview import preview
from vde_dagster.planning.contents import Skipped
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import FillResult

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Fill:
    """One fill of a table.

    Args:
        table: The table.
        interval: What was filled (UTC).
        result: The commit and its figures.
        holds: Returns what the table holds with this fill, without what its plan fills later.
        newest: Whether its plan filled nothing later: then the newest rows are shown.
        recovered: Whether a process that died had written it.
        skipped: Set where nothing was computed: the result is that of an earlier fill.
    """

    table: PhysicalTable
    interval: Interval
    result: FillResult
    holds: Callable[[], IntervalSet]
    newest: bool = False
    recovered: bool = False
    skipped: Skipped | None = None


@dataclass(frozen=True, slots=True)
class FilledPartition:
    """A partition that a fill filled, of one of the models that its table serves.

    Args:
        snapshot: The model.
        key: The version's partition key.
        filled: The partition.
        facts: What its event says beside its own figures.
    """

    snapshot: Snapshot
    key: str
    filled: Filled
    facts: Mapping[str, Any]


@dataclass
class FillEvents:
    """Makes events of one plan's fills.

    Args:
        catalog: The code location's models.
        workspace: The project.
        instance: The Dagster instance.
        log: Takes what could not be shown.
        plan: The plan.
    """

    catalog: AssetCatalog
    workspace: Workspace
    instance: dg.DagsterInstance
    log: Log
    plan: Plan
    combination: Combination = field(init=False)

    def __post_init__(self) -> None:
        tables = {model.table.id: model.table for model in self.plan.models if model.table}
        self.combination = Combination(self.plan.entries, self.plan.snapshots, tables)

    def partitions(self, fill: Fill) -> Iterator[FilledPartition]:
        """Yield what a fill filled, of every model of the plan that its table serves."""
        table = fill.table
        for planned in self.plan.models:
            if planned.table is None or planned.snapshot_id is None:
                continue
            # A plan that found its table made by somebody else fills that one.
            if planned.table.version != table.version:
                continue
            snapshot = self.plan.snapshots[planned.snapshot_id]
            partitions = self.catalog.partitions_of(snapshot)
            found = filled_by(
                self.workspace,
                self.log,
                snapshot,
                table,
                partitions,
                fill.interval,
                fill.result,
                fill.holds,
            )
            for filled in found:
                facts = self._facts(fill, snapshot, found, filled)
                rows: dict[str, Any] = {}
                if fill.newest and filled == found[-1]:
                    commit, ranges = filled.iceberg_snapshot_id, (filled.interval, fill.interval)
                    rows = preview(self.workspace, self.log, snapshot, table, commit, ranges)
                yield FilledPartition(snapshot, table.version, filled, {**facts, **rows})

    def event(self, found: FilledPartition, pointer: int | None) -> dg.AssetMaterialization:
        """Return the event of a filled partition.

        Args:
            found: The partition.
            pointer: The event log's newest record before the model ran.
        """
        inputs = self.combination.inputs(self.instance, self.catalog, found.snapshot, pointer)
        return filled_event(
            self.catalog,
            found.snapshot,
            found.key,
            found.filled,
            inputs,
            metadata=found.facts,
            tags=self.tags,
        )

    @property
    def tags(self) -> dict[str, str]:
        """The tags of every event of the plan."""
        return {PLAN_TAG: self.plan.id, ENVIRONMENT_TAG: self.plan.environment}

    def _facts(
        self, fill: Fill, snapshot: Snapshot, found: list[Filled], filled: Filled
    ) -> dict[str, Any]:
        facts: dict[str, Any] = {
            "vde/plan": self.plan.id,
            "vde/table": str(fill.table.ref),
            "vde/environments": self.plan.environment,
            **fill_facts(snapshot, fill.interval, fill.result, found, filled),
        }
        if fill.recovered:
            facts["vde/recovered"] = True
        if fill.skipped is not None:
            facts |= skipped_facts(fill.skipped)
        return facts
