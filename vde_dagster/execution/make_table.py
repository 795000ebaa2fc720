"""Making a physical table when it is filled first, with the types that its query really has."""

from __future__ import annotations

from dataclasses import dataclass, replace

from vde_dagster.errors import ExecutionError
from vde_dagster.execution.in_place import branch_off
from vde_dagster.execution.warehouse import Warehouse
from vde_dagster.execution.written import Written
from vde_dagster.planning.resolver import fill_map
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.planning.statements import only_of_session
from vde_dagster.planning.table import PhysicalTable
from vde_dagster.planning.work import AnalysedQuery, FillTask
from vde_dagster.state import Lease


@dataclass(frozen=True, slots=True)
class TableMaker:
    """Makes the tables of one plan.

    Args:
        warehouse: Where they are.
        written: Is told of those that are branches of another.
    """

    warehouse: Warehouse
    written: Written

    def create(
        self, filler: Snapshot, table: PhysicalTable, task: FillTask, lease: Lease
    ) -> FillTask:
        """Create the table with the types that its query really has; return the task for it."""
        columns, prepared = self.types(filler, task)
        if table.preview is not None:
            store, lakehouse = self.warehouse.store, self.warehouse.lakehouse
            base = store.tables.get(table.preview.of)
            created = branch_off(lakehouse, base, filler, table, dict(columns), lease)
            self.written.put_table(created)
            return replace(
                task, table=created, columns=fill_map(filler, created), prepared=prepared
            )
        self.warehouse.engine().create_table(table, filler, tuple(columns), branch=task.branch)
        created = self.warehouse.store.tables.mark_created(table, columns)
        return replace(task, table=created, prepared=prepared)

    def types(
        self, filler: Snapshot, task: FillTask
    ) -> tuple[list[tuple[str, str]], AnalysedQuery | None]:
        """Return (physical column, Spark SQL type) of what a task writes, and what was analysed."""
        declared = {column.name: column.type for column in filler.model.columns}
        prepared = None
        if task.query is not None:
            prepared = self.warehouse.engine().prepare(
                task.query, tuple(filter(only_of_session, task.before))
            )
            analysed = {name.lower(): type_ for name, type_ in prepared.columns}
        else:
            analysed = {c.name.lower(): c.type or "STRING" for c in filler.columns}
        added = {column.name: column.type for column in filler.model.kind.added_columns}
        made = {*added, *(name for name, _ in filler.own_columns)}
        columns = []
        for output, physical in task.columns:
            if output not in made:
                continue  # It is shown on, and no longer computed.
            type_ = added.get(output) or declared.get(output) or analysed.get(output.lower())
            if type_ is None:
                raise ExecutionError(
                    f"{filler.name}: its query has no column '{output}'",
                    hint=f"Spark sees {', '.join(analysed)}",
                )
            columns.append((physical, type_))
        return columns, prepared
