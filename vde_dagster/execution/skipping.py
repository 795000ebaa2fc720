"""Skipping what has nothing new: when a model's turn comes, and what its fill remembers for that.

A run asks for each model whose table is made whole whether the tables that it reads still hold
what they held when it was computed last. That they were written since says nothing: rows count,
told by Iceberg's commits and by the digests that fills record. So a model whose rows came out as
before stops the work below it in the same run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError
from vde_dagster.execution.input_states import Inputs, input_states, moved
from vde_dagster.execution.plan_tasks import PlanTasks
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.lakehouse.commit_line import commit_line
from vde_dagster.lakehouse.table_metadata import head_of
from vde_dagster.planning.commits import CommitRange, range_since
from vde_dagster.planning.contents import (
    FillFacts,
    InputState,
    Output,
    Skipped,
    changed_inputs,
    compared,
)
from vde_dagster.planning.interval import Interval
from vde_dagster.planning.plan import Plan
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.sources import TableRead
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.state.fill_facts import LastFill


@dataclass(frozen=True, slots=True)
class Looked:
    """What a fill's tables held before it began.

    Args:
        reads: The tables.
        inputs: What they held.
        commits: What is read of parents of which not all rows are read, as of that look.
        anew: Whether that replaces what was read of them before.
    """

    reads: tuple[TableRead, ...]
    inputs: Inputs
    commits: Mapping[ModelName, CommitRange] = field(default_factory=dict)
    anew: bool = False


@dataclass(frozen=True, slots=True)
class Skipping:
    """Decides what is skipped, and notes what later decisions stand on; called from threads.

    Args:
        tasks: The plan.
        warehouse: Where the tables are.
    """

    tasks: PlanTasks
    warehouse: Warehouse

    def nothing_new(
        self, filler: Snapshot, table: PhysicalTable
    ) -> tuple[LastFill, FillFacts] | None:
        """Return a table's last fill, and what a skipped slot is to remember, or None.

        Args:
            filler: The definition that fills the table.
            table: The table.
        """
        last = self.warehouse.store.facts.latest([table.id]).get(table.id)
        if last is None or last.facts.inputs is None:
            return None
        reads = self.tasks.tables_read(filler)
        now = unchanged_inputs(self.warehouse, reads, last.facts.inputs)
        skipped = last.as_skipped()
        if now is None or not self._holds(table, skipped.commit):
            return None
        lacks = self.tasks.lacks.get(table.id, {})
        return last, FillFacts(now, last.facts.output, skipped, lacks)

    def look(self, filler: Snapshot, table: PhysicalTable, *, anew: bool = False) -> Looked:
        """Look at what a fill is going to read, before anything of it is read.

        Args:
            filler: The definition that fills the table.
            table: The table.
            anew: Whether the fill replaces all that the table holds, whatever was read for it.
        """
        reads = self.tasks.tables_read(filler)
        looked = Looked(reads, input_states(self.warehouse.lakehouse, reads))
        parent = filler.model.kind.parent_by_commits
        return looked if parent is None else self._by_commits(looked, parent, table, anew)

    def _by_commits(
        self, looked: Looked, parent: ModelName, table: PhysicalTable, anew: bool
    ) -> Looked:
        """Add the commits of a parent that its reader has not seen.

        Raises:
            ExecutionError: The parent is no Iceberg table of the project's catalog.
        """
        key = self.tasks.key_of(parent)
        read = next((read for read in looked.reads if read.key == key), None)
        state = looked.inputs.states.get(key)
        if read is None or state is None:
            raise ExecutionError(
                f"the commits of {parent} cannot be read: it is no Iceberg table of this catalog",
                hint="read it whole: choose another kind for its reader",
            )
        metadata = self.warehouse.lakehouse.table_metadata(read.ref)
        seen = None if anew else self._seen(table, key)
        found = range_since(commit_line(metadata, state.read_id, read.key), seen)
        return replace(looked, commits={parent: found}, anew=found.since is None)

    def _seen(self, table: PhysicalTable, key: str) -> int | None:
        """Return the last commit of a parent that is in a table, if nobody else wrote the table."""
        last = self.warehouse.store.facts.latest([table.id]).get(table.id)
        if last is None or last.facts.inputs is None or key not in last.facts.inputs:
            return None
        holds = self._holds(table, last.as_skipped().commit)
        return last.facts.inputs[key].read_id if holds else None

    def facts(
        self, looked: Looked, output: Output | None, table: PhysicalTable, interval: Interval
    ) -> FillFacts:
        """Return what a fill is to remember.

        Args:
            looked: What its tables held before it began; what changed since may have been read.
            output: Digests of what it wrote.
            table: The table.
            interval: What was filled (UTC).
        """
        after = input_states(self.warehouse.lakehouse, looked.reads, looked.inputs.states)
        inputs: Mapping[str, InputState] | None = looked.inputs.states
        pinned = {self.tasks.key_of(parent) for parent in looked.commits}
        if moved(looked.inputs, after, [r for r in looked.reads if r.key not in pinned]):
            inputs = None
        if output is not None and not output.whole:
            plan_id = self.tasks.plan.id
            earlier = self.warehouse.store.facts.overlapping(table.id, interval, plan_id)
            output = compared(output, earlier)
        return FillFacts(inputs, output, lacks=self.tasks.lacks.get(table.id, {}))

    def _holds(self, table: PhysicalTable, commit: int | None) -> bool:
        """Say whether a table's rows are still those of its last fill, and nobody else's."""
        metadata = self.warehouse.lakehouse.table_metadata(table.ref)
        for found in commit_line(metadata, head_of(metadata, table.branch), table.id):
            if found.snapshot_id == commit:
                return True
            if not found.quiet:
                return False
        return False


def unchanged_inputs(
    warehouse: Warehouse, reads: tuple[TableRead, ...], was: Mapping[str, InputState]
) -> Mapping[str, InputState] | None:
    """Return what tables hold now if that is what they held, else None."""
    now = input_states(warehouse.lakehouse, reads, was)
    if now.unknown or any(True for _ in changed_inputs(was, now.states)):
        return None
    return now.states


def with_twins(plan: Plan, skipped: Mapping[ModelName, Skipped]) -> dict[ModelName, Skipped]:
    """Add the models whose table is that of one that was skipped; they save nothing more.

    Args:
        plan: What was applied.
        skipped: By the models in whose name the tables are filled.
    """
    tables = {model.name: model.table.id for model in plan.builds if model.table is not None}
    told = {tables[name]: found for name, found in skipped.items() if name in tables}
    twins = {
        name: replace(told[table], seconds=0.0, bytes=0)
        for name, table in tables.items()
        if table in told and name not in skipped
    }
    return {**skipped, **twins}
