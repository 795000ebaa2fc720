"""An engine without a JVM that writes real rows: DuckDB computes them, PyIceberg commits them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.publishing.new_table import make_branch
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.lakehouse.pyiceberg_tables import writable

_TYPES = {"VARCHAR": "STRING", "INTEGER": "INT", "HUGEINT": "BIGINT"}


class DuckEngine(FakeSpark):
    """Computes queries of Spark SQL that SQLGlot can translate, over tables of the catalog."""

    def analyze(
        self, sql: str, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        """Return the columns of a query, with Spark's names of types."""
        with duckdb.connect() as connection:
            relation = self._relation(sql, connection)
            return tuple(
                (name, _TYPES.get(str(type_), str(type_)))
                for name, type_ in zip(relation.columns, relation.types, strict=True)
            )

    def fill(self, task: FillTask) -> FillResult:
        """Write what a query gives: in place of all rows, or beside them where it fills ranges."""
        assert task.query is not None
        self.statements += 1
        table = writable(self.lakehouse, task.table.ref)
        with duckdb.connect() as connection:
            rows = self._relation(task.query, connection).fetch_arrow_table()
        schema = table.schema().as_arrow()
        physical = {phys: out.lower() for out, phys in task.columns}
        rows = rows.rename_columns([name.lower() for name in rows.column_names])
        arrays = [rows[physical[field.name]].cast(field.type) for field in schema]
        made = pa.table(arrays, schema=schema)
        branch = task.branch or "main"
        if task.branch and task.branch not in table.refs():
            # A process that was killed may have created the table without a commit.
            make_branch(self.lakehouse, task.table.ref, task.branch)
            table = writable(self.lakehouse, task.table.ref)
        properties = {
            "vde.plan": task.plan_id,
            "vde.table": task.table.id,
            "vde.interval": str(task.interval),
        }
        if task.snapshot.is_incremental:
            table.append(made, snapshot_properties=properties, branch=branch)
        else:
            table.overwrite(made, snapshot_properties=properties, branch=branch)
        head = table.snapshot_by_name(branch)
        assert head is not None
        return FillResult(made.num_rows, head.snapshot_id, 0.0, None)

    def query_arrow(self, sql: str, limit: int | None = None) -> pa.Table:
        """Return the rows of a query."""
        with duckdb.connect() as connection:
            return self._relation(sql, connection).fetch_arrow_table()

    def _relation(self, sql: str, connection: duckdb.DuckDBPyConnection) -> Any:
        connection.execute("SET TimeZone = 'UTC'")
        tree = sqlglot.parse_one(sql, read="spark")
        for number, table in enumerate(list(tree.find_all(exp.Table))):
            if not table.catalog:
                continue
            version = table.args.get("version")
            loaded = self.lakehouse.load_table(TableRef(table.db, table.name))
            head = loaded.current_snapshot()
            if version is not None:
                named = version.expression.name
                at = loaded.snapshot_by_id if named.isdigit() else loaded.snapshot_by_name
                head = at(int(named) if named.isdigit() else named)
            scan = loaded.scan(snapshot_id=head.snapshot_id if head is not None else None)
            connection.register(f"t{number}", scan.to_arrow())
            table.replace(exp.to_table(f"t{number}", alias=table.alias or table.name))
        return connection.sql(tree.sql(dialect="duckdb"))


def open_duck(root: Path, **more: Any) -> Workspace:
    """Open a project as a new process would, on DuckDB."""
    return open_fake(root, DuckEngine(), **more)
