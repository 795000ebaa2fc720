"""Choice of a fill's method: compute all rows, or only the rows that changes affect."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.execution.changes.changed_keys import LastRead, table_name
from vde_dagster.lakehouse.metadata.commit_summaries import (
    bytes_at,
    bytes_between,
    commit_line,
    growth_between,
)
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.changes.comparison import LineageComparison, choose_comparison
from vde_dagster.planning.changes.refresh import (
    LEAST_BYTES,
    NEWEST,
    RULE_OF_THUMB,
    Method,
    Refresh,
    RefreshCode,
    RefreshCosts,
    RefreshSizes,
    choose_refresh,
)
from vde_dagster.planning.engine_tasks import ChangedGroups, ChangedKeys, ChangedRows, Changes
from vde_dagster.planning.environments.resolver import TableRead
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.plan import Plan
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import InputState
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.environments.pins import Growth

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.execution.plan_tasks import PlanTasks


_PARTS: dict[type[Changes], Literal["keys", "rows", "groups"]] = {
    ChangedKeys: "keys",
    ChangedRows: "rows",
    ChangedGroups: "groups",
}


def project_costs(handles: Handles, plan: Plan) -> Callable[[], RefreshCosts]:
    """Return a function that returns refresh costs. It reads fills of the plan's tables once."""

    @cache
    def read() -> RefreshCosts:
        refreshing = {
            id_
            for id_, one in plan.snapshots.items()
            if meaning_of(one.model.kind).refreshes(one.model)
        }
        found = (one.table.id for one in plan.models if one.table and one.snapshot_id in refreshing)
        tables = list(islice(found, _MOST_TABLES))
        return RULE_OF_THUMB.fit(handles.store.fills.measured(tables, NEWEST))

    return read


_MOST_TABLES = 50
"""Maximum number of tables whose fills are read to fit the refresh costs."""


@dataclass(frozen=True, slots=True)
class RefreshChoice:
    """Decides whether a fill computes all rows or only the rows that changed inputs affect."""

    tasks: PlanTasks
    filler: Snapshot
    table: PhysicalTable
    reads: Sequence[TableRead]
    now: Mapping[str, InputState]

    def from_changes(self, changed: Changes, earlier: Mapping[str, LastRead]) -> Refresh:
        """Choose the method of a fill whose affected rows are known.

        Args:
            changed: The changes to compute, as in `FillTask.changed`.
            earlier: Inputs of the last fill by table.
        """
        key = () if isinstance(changed, ChangedRows) else changed.key
        sizes, code, estimate = self._read_sizes(earlier, changed), RefreshCode.ASKED, None
        if sizes is not None:
            fills = self.tasks.handles.store.fills.measured([self.table.id])
            costs = self.tasks.costs().fit(fills, NEWEST)
            estimate = costs.estimate(sizes)
        if meaning_of(self.filler.model.kind).chooses(self.filler.model):
            if sizes is None:
                return Refresh(RefreshCode.IMPOSSIBLE, "the sizes of its inputs are unknown")
            code = choose_refresh(sizes, costs, fills)
        moved = [one for one in self.reads if self._has_moved(one, earlier)]
        names = tuple(table_name(self.tasks, one) for one in moved)
        part = _PARTS[type(changed)]
        return Refresh(code, tables=names, key=key, sizes=sizes, changes=part, estimate=estimate)

    def compute_small_inputs(self) -> Refresh | None:
        """Choose to compute all rows if the inputs are so small that changes cannot save time.

        Returns None if inputs are larger or of unknown size, or if the model has no choice.
        """
        if not meaning_of(self.filler.model.kind).chooses(self.filler.model):
            return None
        sizes = self._read_sizes({})
        is_small = sizes is not None and sizes.inputs < LEAST_BYTES
        return Refresh(RefreshCode.SMALL, sizes=sizes) if is_small else None

    def whole(self, why: str) -> Refresh:
        return Refresh(RefreshCode.IMPOSSIBLE, why, sizes=self._read_sizes({}))

    def _has_moved(self, read: TableRead, earlier: Mapping[str, LastRead]) -> bool:
        was = earlier.get(read.key)
        return was is None or was.has_changed(self.now[read.key])

    def _read_sizes(
        self, earlier: Mapping[str, LastRead], how: Changes | None = None
    ) -> RefreshSizes | None:
        if any(read.key not in self.now for read in self.reads):
            return None
        sizes, changed, growths = dict[str, int](), dict[str, int](), list[Growth]()
        refs = [read.ref for read in self.reads] + [self.table.ref] * self.table.created
        tables = self.tasks.handles.lakehouse.tables_metadata(refs)
        for read in self.reads:
            if read.ref not in tables:
                return None
            metadata = tables[read.ref]
            size = bytes_at(metadata, self.now[read.key].read_id)
            if size is None:
                return None
            sizes[read.key] = size
            if self._has_moved(read, earlier):
                moved = self._changed_bytes(metadata, read, size, earlier.get(read.key))
                if moved is None:
                    return None
                changed[read.key] = moved
                growths.append(self._count_rows(metadata, read, earlier.get(read.key)))
        inputs, own = sum(sizes.values()), 0
        if self.table.created and self.table.ref in tables:
            metadata = tables[self.table.ref]
            own = bytes_at(metadata, head_of(metadata, self.table.branch)) or 0
        method: Method = _PARTS[type(how)] if how is not None else "keys"
        if isinstance(how, ChangedRows) and how.only_added:
            method = "added"
        if method == "groups" and all(one.removed == 0 for one in growths):
            method = "added_groups"
        scanned = sum(inputs - sizes[key] for key in changed)
        scanned += inputs if method == "keys" else 0
        scanned += 0 if method == "added" else own
        counts = [count for one in growths for count in (one.added, one.removed)]
        known = [count for count in counts if count is not None]
        rows = sum(known) if known and len(known) == len(counts) else None
        return RefreshSizes(inputs, own, sum(changed.values()), scanned, method, rows)

    def _count_rows(
        self, metadata: dict[str, Any], read: TableRead, was: LastRead | None
    ) -> Growth:
        if was is None or was.other is not None:
            return Growth(None, None, None)
        return growth_between(metadata, was.state.read_id, self.now[read.key].read_id)

    def _changed_bytes(
        self, metadata: dict[str, Any], read: TableRead, size: int, was: LastRead | None
    ) -> int | None:
        if was is None or was.other is not None:
            return 2 * size  # Both tables are read and compared.
        since, until = was.state.read_id, self.now[read.key].read_id
        before, after = (commit_line(metadata, one, read.key) for one in (since, until))
        way = choose_comparison(before, after)
        if way is not None and not isinstance(way, LineageComparison):
            return bytes_between(metadata, since, until)
        was_size = bytes_at(metadata, since)
        return None if was_size is None else size + was_size
