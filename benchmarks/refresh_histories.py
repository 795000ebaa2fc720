"""Random histories of FULL models on Spark, refreshed from changes: each equals its query.

    python -m benchmarks.refresh_histories [--histories 500] [--first 0] [--models 8] [--ticks 4]
        [--seconds 0]

A world has models of random queries over tables of all kinds: raw tables of both formats, written
by Spark and PyIceberg, and models (FULL, views, by unique key, by time, versions of rows, other
refreshed models). Between two ticks these tables are written, compacted, rolled back, expired and
get other columns; models are restated, published with another definition, rolled back; a second
environment previews. After each tick all models of both environments are compared with their
queries over the same tables, as multisets, with types. Each model of a world is a history.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import SqlglotError

from vde_dagster.errors import UsageError
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.semantics.refresh.keys import find_key_steps
from vde_dagster.semantics.refresh.qualified import NotRefreshableError
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.reading import parse_plain
from vde_dagster_tests.by_changes.random_queries import SCHEMA, RandomQuery
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns
from vde_dagster_tests.lakehouse.pyiceberg_tables import writable

_ORDERS = "SELECT id, c, n, d FROM raw.o"
RELATIONS = {
    "o": ("raw.o", "m.whole", "m.large", "m.keyed", "m.daily", "m.versions", "m.chained"),
    "c": ("raw.c", "m.customers"),
    "e": ("raw.e", "m.events"),
}
"""By table of the random queries, the tables that it may be."""
PARENTS = {
    "large": ("VIEW", f"{_ORDERS} WHERE n > 1"),
    "keyed": ("INCREMENTAL_BY_UNIQUE_KEY (unique_key id)", f"{_ORDERS} WHERE id IS NOT NULL"),
    "daily": (
        "INCREMENTAL_BY_TIME_RANGE (time_column day)",
        "SELECT id, c, n, d, CAST(@start_ds AS DATE) AS day FROM raw.o",
    ),
    "versions": (
        "SCD_TYPE_2_BY_COLUMN (unique_key id, columns (n, c), invalidate_hard_deletes true)",
        "SELECT id, max(c) AS c, max(n) AS n, max(d) AS d FROM raw.o WHERE id IS NOT NULL "
        "GROUP BY id",
    ),
    "chained": ("FULL (refresh changes)", f"{_ORDERS} WHERE d IS NOT NULL"),
    "customers": ("FULL (refresh changes)", "SELECT id, name, region FROM raw.c WHERE id > 0"),
    "events": ("FULL", "SELECT DISTINCT c, day FROM raw.e"),
}
FIXED = {
    "exact": "SELECT c, count(*) AS rows, sum(CAST(n AS DECIMAL(12, 2))) AS total, "
    "max(CAST(n AS DOUBLE)) AS top, min(date_add(DATE '2024-01-01', d)) AS first_day FROM raw.o "
    "GROUP BY c",
    "plain": "SELECT id, CAST(n AS DECIMAL(10, 3)) / 3 AS third, array(n, d) AS both FROM raw.o "
    "WHERE c > 1",
    "listed": "SELECT id, v FROM raw.o LATERAL VIEW explode(array(n, d)) t AS v",
}


def main() -> int:
    """Live through worlds until enough histories are compared; return the number of failures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--histories", type=int, default=500)
    parser.add_argument("--first", type=int, default=0, help="the first world's seed")
    parser.add_argument("--models", type=int, default=8, help="random models of a world")
    parser.add_argument("--ticks", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=0, help="starts no world after this time")
    args = parser.parse_args()
    began, seed, wrong = time.monotonic(), args.first, 0
    counts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        engine = SparkEngine(small_spark(Path(folder)))
        assert engine.session
        while counts["histories"] < args.histories:
            if args.seconds and time.monotonic() - began > args.seconds:
                break
            world, started = World(Path(folder) / f"world{seed}", seed, args.models), time.time()
            try:
                world.open()
                for _ in range(args.ticks):
                    world.step()
            except Exception:
                wrong += 1
                print(f"seed {seed}, {world.did}:", traceback.format_exc(), flush=True)
            wrong += len(world.differences)
            counts += world.counts
            counts["worlds"] += 1
            print(f"seed {seed}: {', '.join(world.did)}; {time.time() - started:.0f} s", flush=True)
            world.close()
            seed += 1
        engine.close()
    for what, count in sorted(counts.items()):
        print(f"{what:32}{count:8}")
    print(f"{'differences or failures':32}{wrong:8}")
    return wrong


class World:
    """A project of random models over tables of all kinds."""

    def __init__(self, root: Path, seed: int, models: int) -> None:
        self._root, self._dice, self._seed = root, random.Random(seed), seed
        self.did: list[str] = []
        self.differences: list[str] = []
        self.counts: Counter[str] = Counter()
        self.queries = {**FIXED, **self._random_queries(models)}
        self._runs: DailyRuns | None = None
        self._preview = False

    @property
    def runs(self) -> DailyRuns:
        """The project and its production, once opened."""
        assert self._runs is not None
        return self._runs

    def open(self) -> None:
        """Create the tables and publish the models."""
        files = {f"models/{name}.sql": _model(name, *one) for name, one in PARENTS.items()}
        files["models/whole.sql"] = _whole(0)
        for name, query in self.queries.items():
            files[f"models/{name}.sql"] = _model(name, "FULL (refresh changes)", query)
        tables = []
        for name, columns in SCHEMA.items():
            listed = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
            tables.append(
                f"CREATE TABLE lakehouse.raw.{name} ({listed}) USING iceberg TBLPROPERTIES "
                f"('format-version' = '{self._dice.choice('23')}', "
                f"'write.delete.mode' = '{self._mode()}', 'write.update.mode' = '{self._mode()}', "
                f"'write.merge.mode' = '{self._mode()}')"
            )
            tables.append(f"INSERT INTO lakehouse.raw.{name} VALUES {self._rows(name, 6)}")
        self._root.mkdir(parents=True)
        self._runs = DailyRuns(self._root / "project", files, *tables)
        self.counts["histories"] += len(self.queries)
        self._check("prod")

    def close(self) -> None:
        """Close the project."""
        if self._runs is not None:
            self._runs.workspace.close()

    def step(self) -> None:
        """Change things, run a day, and compare all models with their queries."""
        for _ in range(self._dice.randrange(1, 5)):
            deed = self._dice.choice(self._deeds())
            self.did.append(deed.__name__.strip("_"))
            deed()
        self.runs.run()
        self._count_ways()
        self._check("prod")
        if self._preview:
            workspace = self.runs.workspace
            self.runs.apply(workspace.plans.due("dev", now=self.runs.now))
            self._check("dev")

    def _random_queries(self, count: int) -> dict[str, str]:
        """Return random queries of which at least one table's changes are followed."""
        found: dict[str, str] = {}
        while len(found) < count:
            text = RandomQuery(self._dice).text
            followed = 0
            for table in SCHEMA:
                with suppress(NotRefreshableError, SqlglotError):
                    find_key_steps(text, SCHEMA, [table])
                    followed += 1
            if followed or self._dice.random() < 0.1:
                found[f"r{len(found)}"] = re.sub(r"\b([oce]) AS (s\d+)", self._place, text)
        return found

    def _place(self, match: re.Match[str]) -> str:
        return f"{self._dice.choice(RELATIONS[match[1]])} AS {match[2]}"

    def _check(self, environment: str) -> None:
        """Compare the rows and types of all models with those of their queries."""
        parts = []
        for name, query in self.queries.items():
            tree = parse_plain(query)
            assert isinstance(tree, exp.Query)
            outputs = ", ".join(f"typeof({one})" for one in tree.named_selects)
            cells = f"to_json(struct({outputs}, *), map('ignoreNullFields', 'false'))"
            wanted = f"({query.replace('raw.', 'lakehouse.raw.')})"
            for side, source in (("shown", f"m.{name}"), ("wanted", wanted)):
                parts.append(
                    f"SELECT '{name}' AS name, '{side}' AS side, {cells} AS cells FROM {source}"
                )
        found: dict[tuple[str, str], Counter[str]] = {}
        for name, side, cells in self.runs.workspace.query(environment, _union(parts)).rows:
            found.setdefault((str(name), str(side)), Counter())[str(cells)] += 1
        for name, query in self.queries.items():
            shown, wished = (found.get((name, side), Counter()) for side in ("shown", "wanted"))
            self.counts[f"compared in {environment}"] += 1
            self.counts["rows compared"] += wished.total()
            if shown != wished:
                self.differences.append(name)
                print(
                    f"seed {self._seed}, {environment}, {self.did}: {name} differs\n  {query}\n"
                    f"  too many {shown - wished}\n  missing {wished - shown}",
                    flush=True,
                )

    def _count_ways(self) -> None:
        for name in self.queries:
            ways = {one.how for one in self.runs.inputs(f"m.{name}").values()}
            by_changes = Input.BY_CHANGES in ways
            self.counts["last fill by changes" if by_changes else "last fill whole"] += 1

    def _mode(self) -> str:
        return self._dice.choice(["copy-on-write", "merge-on-read"])

    def _row(self, name: str) -> tuple[object, ...]:
        return tuple(
            self._dice.choice("ab") if type_ == "STRING" else self._dice.choice([None, 1, 2, 3, 4])
            for type_ in SCHEMA[name].values()
        )

    def _rows(self, name: str, count: int) -> str:
        rows = (self._row(name) for _ in range(count))
        return ", ".join(
            "(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows
        )

    def _deeds(self) -> list[Callable[[], object]]:
        sql, dice = self.runs.sql, self._dice
        name = dice.choice([*SCHEMA, "o"])
        table, short = f"lakehouse.raw.{name}", f"raw.{name}"
        column = dice.choice([c for c, type_ in SCHEMA[name].items() if type_ == "INT"])
        value = dice.choice(["1", "2", "3", "NULL"])

        def insert() -> None:
            sql(f"INSERT INTO {table} ({', '.join(SCHEMA[name])}) VALUES {self._rows(name, 2)}")

        def delete() -> None:
            sql(f"DELETE FROM {table} WHERE {column} = {dice.randrange(1, 4)}")

        def update() -> None:
            sql(f"UPDATE {table} SET {column} = {value} WHERE {column} <=> {dice.randrange(1, 4)}")

        def merge() -> None:
            sql(
                f"MERGE INTO {table} AS t USING (SELECT {dice.randrange(1, 4)} AS k) AS s "
                f"ON t.{column} = s.k WHEN MATCHED AND t.{column} > 1 THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET {column} = {value} "
                f"WHEN NOT MATCHED THEN INSERT ({column}) VALUES (s.k)"
            )

        def overwrite() -> None:
            listed = ", ".join(SCHEMA[name])
            with suppress(Exception):  # After a column was added, Spark refuses fewer columns.
                sql(
                    f"INSERT OVERWRITE {table} SELECT {listed} FROM {table} WHERE {column} IS NULL "
                    f"OR {column} <> {dice.randrange(1, 4)}"
                )

        def compact() -> None:
            sql(
                f"CALL lakehouse.system.rewrite_data_files(table => '{short}', "
                "options => map('rewrite-all', 'true'))"
            )

        def expire() -> None:
            sql(
                f"CALL lakehouse.system.expire_snapshots(table => '{short}', "
                "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
            )

        def roll_table_back() -> None:
            engine = self.runs.workspace.engine()
            assert isinstance(engine, SparkEngine)
            session = engine.session
            history = session.sql(f"SELECT snapshot_id FROM {table}.snapshots").collect()
            chosen = dice.choice(history)[0]
            sql(f"CALL lakehouse.system.set_current_snapshot('{short}', {chosen})")

        def change_properties() -> None:
            sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = '{self._mode()}')")
            if dice.random() < 0.3:
                sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('format-version' = '3')")

        def add_column() -> None:
            sql(f"ALTER TABLE {table} ADD COLUMN x{dice.randrange(10**6)} INT")

        def write_by_pyiceberg() -> None:
            iceberg = writable(self.runs.workspace.lakehouse, TableRef("raw", name))
            if iceberg.metadata.format_version > 2:
                return  # PyIceberg does not write such tables.
            columns = SCHEMA[name]
            schema = pa.schema(
                [
                    (c, pa.string() if type_ == "STRING" else pa.int32())
                    for c, type_ in columns.items()
                ]
            )
            rows = [dict(zip(columns, self._row(name), strict=True)) for _ in range(3)]
            made = pa.Table.from_pylist(rows, schema=schema)
            if dice.random() < 0.7:
                iceberg.append(made)
            else:
                iceberg.overwrite(made)

        def swap() -> None:
            self.runs.folder.write("models/whole.sql", _whole(dice.randrange(3)))
            self.runs.publish()

        def restate() -> None:
            parents = ["m.whole", "m.chained", "m.events", f"m.{dice.choice([*self.queries])}"]
            self.runs.publish(restate=(dice.choice(parents),))

        def roll_back() -> None:
            with suppress(UsageError):  # Nothing was published before.
                self.runs.workspace.environments.rollback("prod")

        def preview() -> None:
            self.runs.folder.write("models/whole.sql", _whole(dice.randrange(3)))
            self.runs.workspace.reload()
            self.runs.apply(self.runs.workspace.plan("dev", now=self.runs.now))
            self._preview = True

        deeds: list[Callable[[], object]] = [insert, insert, delete, update, merge, overwrite]
        deeds += [compact, expire, roll_table_back, change_properties, add_column]
        deeds += [write_by_pyiceberg, write_by_pyiceberg, swap, restate, roll_back, preview]
        return deeds


def _model(name: str, kind: str, query: str) -> str:
    return f"MODEL (name m.{name}, kind {kind}); {query}"


def _union(parts: list[str]) -> str:
    return " UNION ALL ".join(parts)


def _whole(number: int) -> str:
    """Write a model whose definitions differ in a column that no reader takes."""
    more = f", coalesce(n, 0) + {number} AS more" if number else ""
    return _model("whole", "FULL", f"SELECT id, c, n, d{more} FROM raw.o")


if __name__ == "__main__":
    raise SystemExit(min(main(), 1))
