"""Queries of TPC-H and TPC-DS as FULL models on Spark: fills from changes and fills of all rows.

    python -m benchmarks.refresh_tpc_on_spark [--extensions FOLDER] [--scale 0.1] [--only tpch]
        [--queries 1,3,10] [--shares 0.0001,0.001,0.01,0.1] [--ways functions,random] [--seed 1]
        [--seconds 3000] [--most 300] [--results FILE]

The tables are Iceberg tables (copy-on-write, in the order of DuckDB's rows). Each share of changes
is one state of them, which follows the state before: `added` inserts orders with their lines or
returns, `functions` inserts some and deletes others with consecutive numbers, as the refresh
functions of both benchmarks do, and `random` deletes, inserts and updates rows of all tables.

Each query is two models, one that computes all rows and one with `refresh changes`: as written if
it refreshes so from changes of some table, otherwise without the final ORDER BY and LIMIT. Both are
filled at each state, and their tables are compared as multisets, with the types of the columns. A
line has the seconds of the fill and those of Spark's tasks. `--seconds` begins no further query
after this time, `--most` cancels Spark's jobs of a state after this time, and `--results` continues
after the queries in a file. At the end are medians by share and method.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

import sqlglot
from sqlglot import exp

from benchmarks.tpc import (
    ORDERS,
    SUITES,
    Suite,
    connect,
    read_suites,
    tables_read,
    without_order,
)
from vde_dagster.errors import VdeError
from vde_dagster.execution.events import IntervalFilled
from vde_dagster.semantics.refresh.methods import explain_not_refreshable
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.conftest import small_spark
from vde_dagster_tests.daily_runs import DailyRuns

WAYS = ("added", "functions", "random")
_SPARK = {
    "spark.driver.memory": "3g",
    "spark.sql.shuffle.partitions": "8",
    "spark.default.parallelism": "2",
    "spark.sql.autoBroadcastJoinThreshold": "20m",
}
_FLOATS = ("float", "double")


@dataclass(frozen=True, slots=True)
class State:
    """Tables after a share of their rows changed; the first one has no changes.

    Args:
        snapshots: Iceberg snapshot of each table.
    """

    way: str
    share: float
    snapshots: Mapping[str, int]

    @property
    def words(self) -> str:
        """The changes, for a line of output."""
        return f"{self.share:.2%} {self.way}" if self.way else "first fill"


@dataclass(frozen=True, slots=True)
class Measured:
    """Two fills of a query at a state.

    Args:
        method: rows, groups or keys; `whole` if all rows were computed for the second model, too.
        detail: Reason for computing all rows.
        wrong: Number of different rows in the two tables, after rounding floats; None if a fill
            failed.
        inexact: The same without rounding.
        sizes: Bytes of `RefreshSizes`, if known.
    """

    suite: str
    query: int
    form: str
    changes: str
    method: str
    detail: str = ""
    rows: int = 0
    whole_seconds: float = 0.0
    whole_tasks: float = 0.0
    seconds: float = 0.0
    tasks: float = 0.0
    wrong: int | None = None
    inexact: int = 0
    sizes: Mapping[str, int] | None = None

    @property
    def _read(self) -> str:
        if not self.sizes:
            return ""
        inputs, changed, scanned = (
            self.sizes[name] / 1e6 for name in ("inputs", "changed", "scanned")
        )
        return f"{inputs:.1f} MB inputs {changed:.1f} changed {scanned:.1f} scanned, "

    def __str__(self) -> str:
        end = f"{self.detail[:150]}" if self.detail else ""
        if self.wrong is not None:
            end = f"{self.wrong} of {self.rows} rows differ {end}"
            end += f"({self.inexact} in the last digits of floats) " if self.inexact else ""
        return (
            f"{self.suite} {self.query:3} {self.changes:17} {self.method:7} whole "
            f"{self.whole_seconds:7.2f} s {self.whole_tasks:7.2f} task s, changes "
            f"{self.seconds:7.2f} s {self.tasks:7.2f} task s, {self._read}{end}"
        )


def main() -> int:
    """Fill the models and print the figures; return the number of fills with different rows."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extensions", type=Path, help="where DuckDB's extensions are installed")
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--only", choices=[*SUITES], help="one of the suites")
    parser.add_argument("--queries", default="", help="numbers; all by default")
    parser.add_argument("--shares", default="0.0001,0.001,0.01,0.1", help="of changed rows")
    parser.add_argument("--ways", default="functions,random", help=f"of {', '.join(WAYS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--most", type=float, default=300.0, help="seconds of one state")
    parser.add_argument("--results", type=Path, help="lines of JSON, which are continued")
    args = parser.parse_args()
    began = time.monotonic()
    found: list[Measured] = []
    if args.results and args.results.exists():
        found = [Measured(**json.loads(line)) for line in args.results.read_text().splitlines()]
    wanted = [int(one) for one in args.queries.split(",") if one]
    with tempfile.TemporaryDirectory() as folder:
        extensions = args.extensions or Path(folder)
        settings = replace(small_spark(Path(folder)), config=_SPARK)
        engine = SparkEngine(settings)
        assert engine.session
        for suite in read_suites(extensions):
            if args.only not in (None, suite.name):
                continue
            done = {one.query for one in found if one.suite == suite.name}
            numbers = [n for n in wanted or suite.queries if n in suite.queries and n not in done]
            world = World(suite, Path(folder), extensions, args.scale, args.most)
            world.change(
                [float(one) for one in args.shares.split(",")], args.ways.split(","), args.seed
            )
            for number in numbers:
                if time.monotonic() - began > args.seconds:
                    print(f"{suite.name} {number} and later queries: no time", flush=True)
                    break
                for one in world.measure(number):
                    print(one, flush=True)
                    found.append(one)
                    if args.results:
                        with args.results.open("a") as file:
                            file.write(json.dumps(asdict(one)) + "\n")
            world.close()
        engine.close()
    print_medians(found)
    return sum(bool(one.wrong) for one in found)


class World:
    """Tables of a suite as Iceberg tables in their states, and a project that reads them.

    Args:
        folder: An empty folder for the tables of this suite, or one with other suites.
        most: Seconds after which Spark's jobs of a state are canceled.
    """

    def __init__(
        self, suite: Suite, folder: Path, extensions: Path, scale: float, most: float
    ) -> None:
        self._suite, self._most = suite, most
        parquet = folder / f"{suite.name}_parquet"
        parquet.mkdir()
        began = time.monotonic()
        with connect(extensions) as connection:
            connection.execute("SET memory_limit = '3GB'")
            connection.execute(f"CALL {SUITES[suite.name]}(sf = {scale})")
            for table, columns in suite.schema.items():
                listed = ", ".join(
                    f"CAST({name} AS {'VARCHAR' if type_ == 'STRING' else type_}) AS {name}"
                    for name, type_ in columns.items()
                )
                connection.execute(
                    f"COPY (SELECT {listed} FROM {table}) TO '{parquet / table}.parquet' "
                    "(FORMAT parquet, ROW_GROUP_SIZE 100000)"
                )
        # Some twenty files of the largest tables, as consecutive orders would be in few files.
        size = max(1_000_000, round(scale * 16_000_000))
        self._runs = DailyRuns(
            folder / suite.name,
            {"models/ready.sql": "MODEL (name m.ready, kind VIEW); SELECT 1 AS one"},
            *(
                f"CREATE TABLE {_raw(table)} USING iceberg TBLPROPERTIES "
                f"('write.target-file-size-bytes' = '{size}', "
                "'write.distribution-mode' = 'none') AS "
                f"SELECT * FROM parquet.`{parquet / table}.parquet`"
                for table in suite.schema
            ),
        )
        self._current = self._snapshots()
        self._states = [State("", 0.0, self._current.copy())]
        print(
            f"{suite.name} at scale {scale:g}: {_seconds_since(began)} for its tables", flush=True
        )

    def close(self) -> None:
        """Release the project."""
        self._runs.workspace.close()

    def change(self, shares: Sequence[float], ways: Sequence[str], seed: int) -> None:
        """Change the tables by each share in turn, and keep their states."""
        suite, numbers = self._suite, {}
        for table in ORDERS[suite.name]:
            # Returns have the numbers of their sales.
            sales = table.replace("returns", "sales")
            column = ORDERS[suite.name][sales]
            ((least, most),) = self._rows(f"SELECT min({column}), max({column}) FROM {_raw(sales)}")
            numbers[table] = (int(str(least)), int(str(most)))
        for way in ways:
            for share in shares:
                began, step = time.monotonic(), len(self._states)
                for table in suite.schema:
                    for text in write_changes(suite, table, way, share, step, seed, numbers):
                        self._runs.sql(text)
                self._current = self._snapshots()
                self._states.append(State(way, share, self._current.copy()))
                print(f"{self._states[-1].words}: {_seconds_since(began)}", flush=True)

    def _rows(self, query: str) -> Sequence[Sequence[object]]:
        return self._runs.workspace.engine().session.sql(query).collect()

    def _snapshots(self) -> dict[str, int]:
        found = {}
        for table in self._suite.schema:
            rows = self._rows(f"SELECT snapshot_id FROM {_raw(table)}.refs WHERE name = 'main'")
            found[table] = int(str(rows[0][0]))
        return found

    def _move_to(self, state: State) -> None:
        """Give the tables the rows of a state."""
        for table, snapshot in state.snapshots.items():
            if self._current[table] != snapshot:
                self._runs.sql(
                    f"CALL lakehouse.system.set_current_snapshot('raw.{table}', {snapshot})"
                )
                self._current[table] = snapshot

    def measure(self, number: int) -> Iterator[Measured]:
        """Fill a query's models at each state, and yield the figures; stop when a fill fails."""
        suite, runs = self._suite, self._runs
        query, form = suite.queries[number], "as written"
        tables = tables_read(query, suite.schema)
        schema = {table: suite.schema[table] for table in tables}
        if explain_not_refreshable(query, schema) is not None:
            query, form = without_order(query), "without ORDER BY, LIMIT"
            why = explain_not_refreshable(query, schema)
            if why is not None:
                yield Measured(suite.name, number, form, "", "never", str(why))
                return
        text = read_raw(query, suite)
        runs.folder.write(
            "models/whole.sql",
            "MODEL (name m.whole, kind FULL (refresh whole), skip_unchanged false); "
            f"SELECT *, 'whole' AS vde_way FROM ({text}) AS computed",
        )
        runs.folder.write(
            "models/changes.sql", f"MODEL (name m.changes, kind FULL (refresh changes)); {text}"
        )
        before = self._states[-1]
        for state in self._states:
            moved = [one for one in tables if state.snapshots[one] != before.snapshots[one]]
            self._move_to(state)
            before = state
            if state.way and not moved:
                continue
            one = Measured(suite.name, number, form, state.words, "failed")
            timer = threading.Timer(self._most, runs.workspace.engine().interrupt)
            timer.start()
            try:
                one = self._filled(one, first=not state.way)
            except VdeError as error:
                one = replace(one, detail=" ".join(error.message.split()))
            finally:
                timer.cancel()
            yield one
            if one.method == "failed":
                return

    def _filled(self, one: Measured, *, first: bool) -> Measured:
        runs = self._runs
        if first:
            runs.workspace.reload()
            events = runs.apply(runs.workspace.plan("prod", now=runs.now))
        else:
            events = runs.tick()
        fills = {
            event.snapshot.name.name: event for event in events if isinstance(event, IntervalFilled)
        }
        whole, changes = fills["whole"], fills["changes"]
        refresh = changes.refresh
        method = refresh.to_json()["method"] if refresh is not None else "whole"
        sizes = refresh.sizes if refresh is not None else None
        one = replace(
            one,
            method=str(method),
            sizes=sizes.to_json() if sizes is not None else None,
            detail=(refresh.detail if refresh is not None else "") or changes.result.why_all,
            rows=whole.result.rows or 0,
            whole_seconds=whole.result.seconds or 0.0,
            whole_tasks=whole.result.task_seconds or 0.0,
            seconds=changes.result.seconds or 0.0,
            tasks=changes.result.task_seconds or 0.0,
        )
        if first:
            return one
        wrong, inexact = self._differences()
        return replace(one, wrong=wrong, inexact=inexact)

    def _differences(self) -> tuple[int, int]:
        """Return the numbers of rows that differ, with rounded floats and with exact ones."""
        query = self._runs.workspace.query
        types = [
            [
                (name.lower(), type_)
                for name, type_ in query("prod", f"SELECT * FROM {one}", 0).columns
            ]
            for one in ("m.changes", "m.whole")
        ]
        assert types[0] == types[1][:-1], types
        floats = [name for name, type_ in types[0] if type_.lower() in _FLOATS]

        def differing(*, rounded: bool) -> int:
            listed = ", ".join(
                f"`{name}`"
                if name not in floats
                else f"printf('%.9e', CAST(`{name}` AS DOUBLE)) AS `{name}`"
                if rounded
                else f"CAST(`{name}` AS STRING) AS `{name}`"
                for name, _ in types[0]
            )
            names = ", ".join(f"`{name}`" for name, _ in types[0])
            found = query(
                "prod",
                f"SELECT coalesce(sum(abs(n)), 0) AS n FROM (SELECT {names}, sum(s) AS n FROM "
                f"(SELECT {listed}, 1 AS s FROM m.changes UNION ALL "
                f"SELECT {listed}, -1 AS s FROM m.whole) AS both "
                f"GROUP BY {names} HAVING sum(s) <> 0) AS differing",
            )
            return int(found.rows[0][0])

        exact = differing(rounded=False)
        return (differing(rounded=True), exact) if exact and floats else (exact, 0)


def write_changes(
    suite: Suite,
    table: str,
    way: str,
    share: float,
    step: int,
    seed: int,
    numbers: Mapping[str, tuple[int, int]],
) -> Iterator[str]:
    """Yield the statements that change a share of a table's rows.

    Args:
        step: Number of the state, from 1.
        numbers: The least and the greatest order number by table that refresh functions change.
    """
    if way == "random":
        columns = suite.schema[table]
        mark = f"pmod(xxhash64({', '.join(columns)}, {seed}, {step}), 1000000)"
        part = max(1, round(share * 1000000 / 3))
        column = sorted(columns)[(seed + step) % len(columns)]
        yield f"DELETE FROM {_raw(table)} WHERE {mark} < {part}"
        yield (
            f"UPDATE {_raw(table)} SET {column} = {_another(column, columns[column])} "
            f"WHERE {mark} BETWEEN {part} AND {2 * part - 1}"
        )
        yield (
            f"INSERT INTO {_raw(table)} SELECT * FROM {_raw(table)} "
            f"WHERE {mark} >= 1000000 - {part}"
        )
    elif table in numbers:
        column = ORDERS[suite.name][table]
        least, most = numbers[table]
        range_ = most - least
        span = max(1, round(range_ * (share if way == "added" else share / 2)))
        begin = least + int(range_ * ((0.01 * seed + 0.13 * step) % 0.4))
        if way == "functions":
            yield f"DELETE FROM {_raw(table)} WHERE {column} BETWEEN {begin} AND {begin + span - 1}"
        begin += range_ // 2
        listed = ", ".join(
            f"CAST({name} + {step}00000000 AS {type_})" if name == column else name
            for name, type_ in suite.schema[table].items()
        )
        yield (
            f"INSERT INTO {_raw(table)} SELECT {listed} FROM {_raw(table)} "
            f"WHERE {column} BETWEEN {begin} AND {begin + span - 1}"
        )


def _another(column: str, type_: str) -> str:
    if type_ == "DATE":
        return f"date_add({column}, 1)"
    return f"concat({column}, 'x')" if type_ == "STRING" else f"{column} + 1"


def read_raw(query: str, suite: Suite) -> str:
    """Return a query that reads the Iceberg tables."""
    tree = sqlglot.parse_one(query, read="spark")
    for table in list(tree.find_all(exp.Table)):
        if table.name.lower() in suite.schema and not table.db:
            alias = table.alias_or_name
            table.set("db", exp.to_identifier("raw"))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree.sql("spark")


def _raw(table: str) -> str:
    return f"lakehouse.raw.{table}"


def _seconds_since(began: float) -> str:
    return f"{time.monotonic() - began:.0f} s"


def print_medians(found: Sequence[Measured]) -> None:
    """Print the numbers of fills and medians of their seconds by suite, share and method."""
    compared = [one for one in found if one.wrong is not None]
    print(
        "\nsuite  changes            method  fills  whole s  changes s  whole task s  "
        "changes task s  times faster"
    )
    for suite, changes in dict.fromkeys((one.suite, one.changes) for one in compared):
        own = [one for one in compared if (one.suite, one.changes) == (suite, changes)]
        for method, of in sorted(_by_method(own).items()):
            figures = [
                median(getattr(one, name) for one in of)
                for name in ("whole_seconds", "seconds", "whole_tasks", "tasks")
            ]
            times = median(one.whole_seconds / max(one.seconds, 0.001) for one in of)
            print(
                f"{suite:6} {changes:17} {method:7} {len(of):5} {figures[0]:8.2f} "
                f"{figures[1]:10.2f} {figures[2]:13.2f} {figures[3]:15.2f} {times:13.2f}"
            )
    counts = Counter((one.suite, one.method) for one in found if one.changes != "first fill")
    print(", ".join(f"{suite} {method}: {n}" for (suite, method), n in sorted(counts.items())))
    wrong = sum(bool(one.wrong) for one in compared)
    print(f"{len(compared)} pairs of tables compared, {wrong} differ")


def _by_method(found: Sequence[Measured]) -> dict[str, list[Measured]]:
    methods: dict[str, list[Measured]] = {}
    for one in found:
        methods.setdefault(one.method, []).append(one)
    if len(methods) > 1:
        methods["~ all"] = list(found)
    return methods


if __name__ == "__main__":
    sys.exit(min(main(), 1))
