"""Skips of models without new input, in an apply and as a forecast in a plan.

A model whose table is replaced as a whole is skipped if its query is repeatable and its inputs have
the same rows as at its last computation, according to Iceberg's commits and the digests of fills.
So if a computed model gets the same rows as before, its descendants are skipped in the same run.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, VdeError
from vde_dagster.execution.changes.changed_keys import (
    ComputesAllError,
    find_changed_rows,
    read_last_inputs,
)
from vde_dagster.execution.changes.refresh_choice import RefreshChoice
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.commit_summaries import DEFINITION_KEY, TABLE_KEY, commit_line
from vde_dagster.lakehouse.metadata.table_metadata import head_of, history
from vde_dagster.planning.changes.backlog import FIRST_FILL, RESTATED
from vde_dagster.planning.changes.refresh import Refresh, RefreshCode
from vde_dagster.planning.engine_tasks import ChangedKeys, Changes, FillResult
from vde_dagster.planning.environments.resolver import TableRead, tables_read
from vde_dagster.planning.intervals.interval import Interval
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.assign_tables import choose_filler
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.table_contents import (
    FillFacts,
    InputState,
    Output,
    Skipped,
    changed_inputs,
    find_unchanged_sets,
    read_input_state,
)
from vde_dagster.planning.tables.pinned_reads import CommitRange, Input, PinnedTable, range_since
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.state.fills.fills import FillRecord

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.planning.environments.warehouse_state import WarehouseState


_LOG = logging.getLogger(__name__)

States = Mapping[str, InputState]
"""States of input tables by `TableRead.key`; only Iceberg tables of this catalog are included."""


@dataclass(frozen=True, slots=True)
class FillInputs:
    """State of a fill's input tables, read before the fill begins.

    Args:
        commits: The commits to read, by parent. Other parents are read as a whole.
        anew: Whether the rows of `commits` replace all rows of the table.
        pinned: Fixed Iceberg snapshots to read, by input table.
        changed: The rows to change, if the fill only applies changes to the table.
        refresh: How the rows are computed, for a model that may refresh from changes.
    """

    reads: tuple[TableRead, ...]
    inputs: States
    commits: Mapping[ModelName, CommitRange] = field(default_factory=dict)
    anew: bool = False
    pinned: Mapping[str, PinnedTable] = field(default_factory=dict)
    changed: Changes | None = None
    refresh: Refresh | None = None


@dataclass(frozen=True, slots=True)
class SkipDecisions:
    """Decides which models to skip, because their inputs have not changed. Threads may share it."""

    tasks: PlanTasks

    @property
    def _handles(self) -> Handles:
        return self.tasks.handles

    def find_skip(
        self, filler: Snapshot, table: PhysicalTable
    ) -> tuple[FillRecord, FillFacts] | None:
        """Return a table's last fill, and the inputs and output to record for a skipped fill.

        Returns None if the table must be filled.
        """
        last = self._handles.store.fills.latest([table.id]).get(table.id)
        if last is None or last.facts.inputs is None:
            return None
        reads = self.tasks.tables_read(filler)
        now = unchanged_inputs(self._handles, reads, last.facts.inputs)
        skipped = last.as_skipped()
        if now is None or not self._holds(table, skipped.commit):
            return None
        lacks = self.tasks.lacks.get(table.id, {})
        was = last.facts.inputs
        kept = {key: replace(now[key], how=was[key].how, since=was[key].since) for key in now}
        return last, FillFacts(kept, last.facts.output, skipped, lacks)

    def read_inputs(
        self, filler: Snapshot, table: PhysicalTable, *, anew: bool = False
    ) -> FillInputs:
        """Return the inputs of a fill: states of tables, commits to read, and rows to change."""
        reads = self.tasks.tables_read(filler)
        states = input_states(self._handles.lakehouse, reads)
        asked = meaning_of(filler.model.kind).inputs(filler.model)
        how = {self.tasks.input_key(parent): how for parent, how in asked.items()}
        parents = [parent for parent, one in asked.items() if one is Input.BY_COMMITS]
        last_inputs = {} if anew or not parents else self.last_inputs(table)
        commits = {
            parent: self._unread_commits(parent, reads, states, last_inputs) for parent in parents
        }
        begins = any(found.since is None for found in commits.values())
        if begins:  # If one parent starts over, all rows are replaced.
            commits = {parent: replace(found, since=None) for parent, found in commits.items()}
        since = {self.tasks.input_key(parent): found.since for parent, found in commits.items()}
        inputs = {
            key: replace(state, how=how.get(key, Input.WHOLE), since=since.get(key))
            for key, state in states.items()
        }
        before = FillInputs(reads, inputs, commits, begins)
        if anew or not meaning_of(filler.model.kind).refreshes(filler.model):
            return before
        return self._choose_refresh(filler, table, before)

    def _choose_refresh(
        self, filler: Snapshot, table: PhysicalTable, before: FillInputs
    ) -> FillInputs:
        reads, now = before.reads, before.inputs
        choice = RefreshChoice(self.tasks, filler, table, reads, now)
        small = choice.compute_small_inputs()
        if small is not None:
            return replace(before, refresh=small)
        try:
            if self.tasks.plan.restates_alone(table.id, {read.key for read in reads}):
                raise ComputesAllError(RESTATED)
            last_inputs = self.inputs_of_definition(filler, table)
            if not last_inputs and not self._handles.store.fills.latest([table.id]):
                raise ComputesAllError(FIRST_FILL)
            changed = find_changed_rows(self.tasks, filler, reads, last_inputs, now)
            if not isinstance(changed, ChangedKeys):
                changed = replace(changed, since=self._last_fill(table)[1])
            earlier = read_last_inputs(self.tasks, reads, last_inputs)
        except ComputesAllError as why:
            level = logging.WARNING if why.lost else logging.INFO
            _LOG.log(level, "%s computes all rows: %s", filler.name, why)
            return replace(before, refresh=choice.whole(str(why)))
        refresh = choice.from_changes(changed, earlier)
        if not refresh.from_changes:
            return replace(before, refresh=refresh)
        # Commits of a new table do not continue the table that was read.
        since = {key: one.state.read_id for key, one in earlier.items() if one.other is None}
        inputs = {
            key: replace(state, how=Input.BY_CHANGES, since=since.get(key))
            for key, state in now.items()
        }
        pinned = {key: PinnedTable(state.read_id) for key, state in inputs.items()}
        return replace(before, inputs=inputs, pinned=pinned, changed=changed, refresh=refresh)

    def _unread_commits(
        self, parent: ModelName, reads: Sequence[TableRead], states: States, last_inputs: States
    ) -> CommitRange:
        key = self.tasks.input_key(parent)
        read = next((read for read in reads if read.key == key), None)
        if read is None or key not in states:
            raise ExecutionError(
                f"the commits of {parent} cannot be read: it is not an Iceberg table of this "
                "catalog",
                hint="give the reading model a kind that reads all rows of its parents",
            )
        metadata = self._handles.lakehouse.table_metadata(read.ref)
        line = commit_line(metadata, states[key].read_id, read.key)
        return range_since(line, last_inputs[key].read_id if key in last_inputs else None)

    def last_inputs(self, table: PhysicalTable) -> States:
        """Return the states of a table's inputs at the table's last fill.

        Empty if they are unknown, or if another commit changed rows of the table after that fill.
        """
        return self._last_fill(table)[0]

    def _last_fill(self, table: PhysicalTable) -> tuple[States, int | None]:
        last = self._handles.store.fills.latest([table.id]).get(table.id)
        commit = last.as_skipped().commit if last is not None else None
        if last is None or last.facts.inputs is None or not self._holds(table, commit):
            return {}, None
        return last.facts.inputs, commit

    def inputs_of_definition(self, filler: Snapshot, table: PhysicalTable) -> States:
        """Return `last_inputs`, for a fill that applies only changes.

        Raises:
            ComputesAllError: The table changes in place, and another definition filled it last.
        """
        # A fill by changes needs this, because it keeps the table's other rows.
        found = self.last_inputs(table)
        if found and filler.model.kind.changes_in_place:
            metadata = self._handles.lakehouse.table_metadata(table.ref)
            line = history(metadata, head_of(metadata, table.branch))
            summaries = (one.get("summary", {}) for one in line)
            own = (one for one in summaries if one.get(TABLE_KEY) == table.id)
            definitions = (one.get(DEFINITION_KEY) for one in own)
            if next(definitions, None) != filler.standalone_meaning_hash:
                raise ComputesAllError("another definition of the model filled its table last")
        return found

    def facts(
        self, before: FillInputs, result: FillResult, table: PhysicalTable, interval: Interval
    ) -> FillFacts:
        """Collect the facts to store with a fill: input states, output digests, refresh method."""
        output, refresh = result.output, before.refresh
        if refresh is not None and result.why_all:
            refresh = replace(refresh, code=RefreshCode.FAILED, detail=result.why_all)
        after = input_states(self._handles.lakehouse, before.reads, before.inputs)
        pinned = {*map(self.tasks.input_key, before.commits), *before.pinned}
        changed = inputs_changed(before.inputs, after, before.reads, pinned)
        inputs = None if changed else before.inputs
        if output is not None and not output.whole:
            plan_id = self.tasks.plan.id
            earlier = self._handles.store.fills.overlapping(table.id, interval, plan_id)
            output = find_unchanged_sets(output, earlier)
        lacks = self.tasks.lacks.get(table.id, {})
        return FillFacts(inputs, output, lacks=lacks, refresh=refresh)

    def _holds(self, table: PhysicalTable, commit: int | None) -> bool:
        metadata = self._handles.lakehouse.table_metadata(table.ref)
        line = commit_line(metadata, head_of(metadata, table.branch), table.id)
        decisive = (one for one in line if one.snapshot_id == commit or not one.quiet)
        last = next(decisive, None)
        return last is not None and last.snapshot_id == commit


def unchanged_inputs(handles: Handles, reads: Sequence[TableRead], was: States) -> States | None:
    """Return the current states of input tables, or None if one is unknown or not as in `was`."""
    now = input_states(handles.lakehouse, reads, was)
    same = len(now) == len(reads) and not any(True for _ in changed_inputs(was, now))
    return now if same else None


def add_models_of_skipped_tables(
    plan: Plan, skipped: Mapping[ModelName, Skipped]
) -> dict[ModelName, Skipped]:
    """Add models that share their physical table with a skipped model."""
    tables = {model.name: model.table.id for model in plan.builds if model.table is not None}
    shared = {tables[name]: found for name, found in skipped.items() if name in tables}
    twins = {
        name: replace(shared[table], seconds=0.0, bytes=0)
        for name, table in tables.items()
        if table in shared and name not in skipped
    }
    return {**skipped, **twins}


def input_states(
    lakehouse: Lakehouse, reads: Sequence[TableRead], known: States | None = None
) -> States:
    """Read the states of input tables, except tables that cannot be read.

    Args:
        known: Earlier states. If an input has the same metadata file as in its earlier state, and
            the same columns are read, that state is returned.
    """
    locations = lakehouse.metadata_locations(read.ref for read in reads)
    states: dict[str, InputState] = {}
    for read in reads:
        location = locations.get(read.ref)
        if location is None or read.foreign is not None:
            continue
        before, file = (known or {}).get(read.key), _metadata_file_name(read, location)
        if before is not None and file and (before.file, before.columns) == (file, read.columns):
            states[read.key] = before
        else:
            with suppress(VdeError, OSError):
                states[read.key] = _read_input_state(lakehouse, read, location)
    return states


def inputs_changed(
    before: States, after: States, reads: Sequence[TableRead], pinned: Collection[str]
) -> bool:
    """Return whether an input table changed, or may have, while a fill read it."""
    if min(len(before), len(after)) < len(reads):
        return True
    both = ((r, before[r.key], after[r.key]) for r in reads if r.key not in pinned)
    # Other writers may restore an earlier state; each step has a separate file.
    return any(
        one.file != other.file if read.external else one.read_id != other.read_id
        for read, one, other in both
    )


def _metadata_file_name(read: TableRead, location: str) -> str:
    return "" if read.branch is not None else location.rpartition("/")[2]


def _read_input_state(lakehouse: Lakehouse, read: TableRead, location: str) -> InputState:
    metadata = read_metadata(lakehouse.files, location, str(read.ref))
    line = commit_line(metadata, head_of(metadata, read.branch), read.key)

    def output(commit: int) -> Output | None:
        return lakehouse.store.fills.output(read.key, commit)

    found = read_input_state(line, read.columns, output)
    schema = int(metadata["current-schema-id"]) if read.external else None
    return replace(found, schema_id=schema, file=_metadata_file_name(read, location))


def forecast_skips(handles: Handles, plan: Plan, state: WarehouseState) -> Plan:
    """Mark the models of a plan that can be skipped, because their inputs have not changed."""
    # Models that read a table filled by the plan may also be skipped if its rows do not change.
    # Only the run can determine that.
    resolver, target = plan.resolver(), plan.target
    tables = [model.table.id for model in plan.models if model.skippable and model.table]
    last = handles.store.fills.latest(tables)
    filled: set[str] = set()
    shared: set[str] = set()

    def forecast(model: PlannedModel, table: PhysicalTable) -> Skipped | None:
        found = last.get(table.id)
        if found is None or found.facts.inputs is None or not model.skippable or model.restate:
            return None
        snapshot, definition = plan.snapshot_of(model), state.snapshots.get(table.snapshot_id)
        filler = choose_filler(table, snapshot, definition, target) or snapshot
        reads = tables_read(filler, resolver, handles.settings.catalog)
        if any(read.key in filled for read in reads):
            return None
        same = unchanged_inputs(handles, reads, found.facts.inputs) is not None
        return found.as_skipped() if same else None

    models = []
    for model in plan.models:
        if model.builds and model.table is not None:
            skips = forecast(model, model.table)
            if skips is None:
                filled.add(model.table.id)
            elif model.table.id in shared:
                skips = replace(skips, seconds=0.0, bytes=0)  # A shared table is saved once.
            shared.add(model.table.id)
            model = replace(model, skips=skips)
        models.append(model)
    return replace(plan, models=tuple(models))
