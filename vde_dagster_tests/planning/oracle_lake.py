"""DuckDB in the place of Spark and Iceberg: fills physical tables as plans say, and rebuilds.

A physical table holds what the snapshot that filled it computed at that time. The reference
rebuilds every model from its own text, knowing nothing of versions or tables.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from vde_dagster.base.names import ModelName
from vde_dagster.planning.environments.resolver import Resolver, fill_map
from vde_dagster.planning.intervals.cadence import Cadence
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.plan.assign_tables import choose_filler
from vde_dagster.planning.plan.missing_intervals import Window, infer_starts, wanted_intervals
from vde_dagster.planning.plan.plan import Plan, PlannedModel
from vde_dagster.planning.rendering.render import render_query
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.kinds import External, IncrementalByTimeRange, IncrementalByUniqueKey, Seed
from vde_dagster.project.macros.variables import substitute_time_variables, time_variable_values
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.simulate import Warehouse

CATALOG = "lakehouse"
DUCKDB_TYPES = {"STRING": "VARCHAR", "INT": "INTEGER", "TIMESTAMP": "TIMESTAMP"}

Row = tuple[Any, ...]


class RepeatedNameError(ValueError):
    """A query has two output columns of one name."""


@dataclass(frozen=True)
class Contents:
    """What a model shows: its columns in order, and its rows as a multiset."""

    columns: tuple[str, ...]
    rows: Counter[Row]

    def column(self, name: str) -> Counter[Any]:
        """The values of one column, as a multiset."""
        at = self.columns.index(name)
        out: Counter[Any] = Counter()
        for row, count in self.rows.items():
            out[row[at]] += count
        return out

    def under(self, names: Sequence[str]) -> Contents:
        """Only the named columns, in that order."""
        at = [self.columns.index(name) for name in names]
        out: Counter[Row] = Counter()
        for row, count in self.rows.items():
            out[tuple(row[i] for i in at)] += count
        return Contents(tuple(names), out)


@functools.lru_cache(maxsize=20_000)
def duckdb_sql(sql: str) -> str:
    """Translate Spark SQL."""
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]


@dataclass(frozen=True, slots=True)
class ExternalTable:
    """A table that others write: (name, Spark type) per column, and rows."""

    columns: tuple[tuple[str, str], ...]
    rows: tuple[Row, ...]


class Lake:
    """A database with external tables, physical tables, and a schema for rebuilding.

    Args:
        external: Tables by `namespace.name`.
        root: The project's folder, for seeds.
    """

    def __init__(
        self, external: Mapping[str, ExternalTable], root: Path = Path("no-seeds")
    ) -> None:
        self.external = external
        self.root = root
        self.db = duckdb.connect(":memory:", config={"threads": 1})
        self.db.execute("PRAGMA disable_optimizer")
        self._schemas: set[str] = set()
        self._scratch: dict[ModelName, tuple[Any, Contents]] = {}
        self._written: Counter[str] = Counter()
        self._known: dict[str, tuple[int, Contents]] = {}
        self.db.execute(f"ATTACH ':memory:' AS {CATALOG}")
        self.db.execute("ATTACH ':memory:' AS scratch")
        self.db.execute("USE scratch")
        for name, table in external.items():
            namespace, _, short = name.partition(".")
            self._schema(CATALOG, namespace)
            self._schema("scratch", namespace)
            listed = ", ".join(f'"{c}" {DUCKDB_TYPES.get(t, t)}' for c, t in table.columns)
            self.db.execute(f"CREATE TABLE {CATALOG}.{namespace}.{short} ({listed})")
            for row in table.rows:
                values = ", ".join(_literal(value) for value in row)
                self.db.execute(f"INSERT INTO {CATALOG}.{namespace}.{short} VALUES ({values})")
            self.db.execute(
                f"CREATE VIEW scratch.{namespace}.{short} AS "
                f"SELECT * FROM {CATALOG}.{namespace}.{short}"
            )

    def close(self) -> None:
        """Free the database."""
        self.db.close()

    def _schema(self, catalog: str, namespace: str) -> None:
        full = f'{catalog}."{namespace}"'
        if full not in self._schemas:
            self.db.execute(f"CREATE SCHEMA IF NOT EXISTS {full}")
            self._schemas.add(full)

    # -- what the plan does ----------------------------------------------------------------

    def apply(self, warehouse: Warehouse, plan: Plan) -> None:
        """Fill what a plan says, then let the warehouse publish it."""
        tables = {**warehouse.tables}
        for model in plan.models:
            if model.table is not None:
                tables.setdefault(model.table.id, model.table)
        resolver = Resolver(plan.environment, plan.entries, plan.snapshots, tables)
        target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
        done: dict[str, IntervalSet] = {}
        for model in plan.models:
            if not model.builds or model.table is None:
                continue
            missing = model.intervals - done.get(model.table.id, IntervalSet())
            if missing:
                self._fill(warehouse, plan, model, missing, resolver, target)
            done[model.table.id] = model.intervals | done.get(model.table.id, IntervalSet())
        warehouse.apply(plan)

    def _fill(
        self,
        warehouse: Warehouse,
        plan: Plan,
        model: PlannedModel,
        missing: IntervalSet,
        resolver: Resolver,
        target: Mapping[ModelName, Snapshot],
    ) -> None:
        table = model.table
        assert table is not None
        assert model.snapshot_id is not None
        snapshot = plan.snapshots[model.snapshot_id]
        known = {**warehouse.snapshots, **plan.snapshots}
        filler = choose_filler(table, snapshot, known.get(table.snapshot_id), target)
        assert filler is not None, f"{table.ref} cannot be filled by any definition"
        self._written[table.id] += 1
        sources = fill_map(filler, table)
        listed = ", ".join(f'"{output}" AS "{physical}"' for output, physical in sources)
        batch_size = getattr(snapshot.model.kind, "batch_size", None)
        for batch in Cadence(snapshot.model.cron).batches(missing, batch_size):
            query = self._seed(filler.model) or duckdb_sql(
                render_query(filler.model, resolver, CATALOG, batch, plan.created_at)
            )
            source = f"SELECT {listed} FROM ({query})"
            self._schema(CATALOG, table.ref.namespace)
            place = f'{CATALOG}."{table.ref.namespace}"."{table.ref.name}"'
            self._write(place, source, filler.model, dict(sources), batch)

    def _seed(self, model: Model) -> str | None:
        """The query that reads a seed's file as it is now; None for other models."""
        if not isinstance(model.kind, Seed):
            return None
        listed = ", ".join(
            f'CAST("{c.name}" AS {DUCKDB_TYPES.get(c.type or "STRING", c.type)}) AS "{c.name}"'
            for c in model.columns
        )
        path = self.root / model.kind.path
        return f"SELECT {listed} FROM read_csv('{path}', all_varchar = true, header = true)"

    def _write(
        self, place: str, source: str, model: Model, names: Mapping[str, str], batch: Interval
    ) -> None:
        kind = model.kind
        empty = f"CREATE TABLE IF NOT EXISTS {place} AS SELECT * FROM ({source}) LIMIT 0"
        if isinstance(kind, IncrementalByTimeRange):
            column = f'"{_lookup(names, kind.time_column)}"'
            inside = (
                f"{column} >= DATE '{batch.start:%Y-%m-%d}' "
                f"AND {column} < DATE '{batch.end:%Y-%m-%d}'"
            )
            self.db.execute(empty)
            self.db.execute(f"DELETE FROM {place} WHERE {inside}")
            self.db.execute(f"INSERT INTO {place} SELECT * FROM ({source}) WHERE {inside}")
        elif isinstance(kind, IncrementalByUniqueKey):
            keys = [f'"{_lookup(names, key)}"' for key in kind.unique_key]
            self.db.execute(empty)
            latest = _one_per_key(self, source, keys)
            self.db.execute(f"CREATE OR REPLACE TEMP TABLE batch AS {latest}")
            same = " AND ".join(f"t.{key} IS NOT DISTINCT FROM s.{key}" for key in keys)
            self.db.execute(f"DELETE FROM {place} AS t USING batch AS s WHERE {same}")
            self.db.execute(f"INSERT INTO {place} SELECT * FROM batch")
        else:
            self.db.execute(f"CREATE OR REPLACE TABLE {place} AS {source}")

    def types_of(self, source: str) -> dict[str, str]:
        """The DuckDB type of each column of a query, in order.

        Raises:
            RepeatedNameError: Two columns have one name, which no table can have.
        """
        described = self.db.execute(f"DESCRIBE {source}").fetchall()
        # DuckDB tells columns of one name apart by a number after a colon.
        names = {name.lower().partition(":")[0] for name, *_ in described}
        if len(names) < len(described):
            raise RepeatedNameError(source)
        return {name: type_ for name, type_, *_ in described}

    # -- what people see -------------------------------------------------------------------

    def served(self, warehouse: Warehouse, environment: str) -> dict[ModelName, Contents]:
        """Read every model of an environment through the table or query that it assigns."""
        current = warehouse.environments[environment]
        resolver = Resolver(environment, current.entries, warehouse.snapshots, warehouse.tables)
        out = {}
        for name in current.entries:
            binding = resolver.resolve(name)
            if binding.external is not None:
                continue
            if binding.table is not None:
                ref: TableRef = binding.table.ref
                listed = ", ".join(f'"{p}" AS "{o}"' for o, p in binding.columns)
                query = f'SELECT {listed} FROM {CATALOG}."{ref.namespace}"."{ref.name}"'
                writes = self._written[binding.table.id]
                if self._known.get(query, (-1,))[0] != writes:
                    self._known[query] = (writes, self._read(query))
                out[name] = self._known[query][1]
            else:
                query = duckdb_sql(render_query(binding.snapshot.model, resolver, CATALOG))
                out[name] = self._read(query)
        return out

    def _read(self, query: str) -> Contents:
        cursor = self.db.execute(query)
        columns = tuple(item[0].lower() for item in cursor.description or ())
        return Contents(columns, Counter(_plain(row) for row in cursor.fetchall()))

    # -- the truth -------------------------------------------------------------------------

    def rebuild(
        self, snapshots: Mapping[ModelName, Snapshot], now: datetime
    ) -> dict[ModelName, Contents]:
        """Rebuild every model from scratch, parents first.

        Raises:
            duckdb.Error: A query is wrong.
        """
        window = Window(now)
        starts = infer_starts(snapshots, window)
        out: dict[ModelName, Contents] = {}
        keys: dict[ModelName, Any] = {}
        for name, snapshot in snapshots.items():
            model = snapshot.model
            if isinstance(model.kind, External):
                keys[name] = str(name)
                continue
            wanted = wanted_intervals(snapshot, window, starts)
            parents = tuple((parent, keys[parent]) for parent in snapshot.parents)
            keys[name] = hash((model.query, repr(model.kind), str(wanted), parents))
            known = self._scratch.get(name)
            if known is None or known[0] != keys[name]:
                known = (keys[name], self._rebuild_one(model, wanted))
                self._scratch[name] = known
            out[name] = known[1]
        return out

    def _rebuild_one(self, model: Model, wanted: IntervalSet) -> Contents:
        self._scratch.pop(model.name, None)
        self._schema("scratch", model.name.namespace)
        place = f'scratch."{model.name.namespace}"."{model.name.name}"'
        self.db.execute(f"DROP TABLE IF EXISTS {place}")
        size = getattr(model.kind, "batch_size", None)
        for batch in Cadence(model.cron).batches(wanted, size):
            values = time_variable_values(batch.start, batch.end, batch.end)
            text = substitute_time_variables(model.query or "", values)
            query = self._seed(model) or duckdb_sql(text)
            columns = {name.lower(): name for name in self.types_of(query)}
            self._write(place, query, model, columns, batch)
        return self._read(f"SELECT * FROM {place}")


def _literal(value: Any) -> str:
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"


def _lookup(names: Mapping[str, str], name: str) -> str:
    return {output.lower(): physical for output, physical in names.items()}[name.lower()]


def _one_per_key(lake: Lake, source: str, keys: Sequence[str]) -> str:
    """Take one row per key as the engine does: the latest by days, then the greatest."""
    types = lake.types_of(source)
    rest = [name for name in types if f'"{name}"' not in keys]
    days = [name for name in rest if types[name].startswith(("DATE", "TIMESTAMP"))]
    others = [name for name in rest if name not in days]
    order = ", ".join(f'"{name}" DESC NULLS LAST' for name in [*days, *others]) or keys[0]
    return (
        f"SELECT * FROM ({source}) "
        f"QUALIFY ROW_NUMBER() OVER (PARTITION BY {', '.join(keys)} ORDER BY {order}) = 1"
    )


def _plain(row: Row) -> Row:
    return tuple(tuple(value) if isinstance(value, list) else value for value in row)
