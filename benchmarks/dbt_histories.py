"""Random histories of sources, with dbt and here on Spark: are all rows equal in each round?

    python -m benchmarks.dbt_histories --dbt PYTHON [--adapter spark] [--histories N] [--seed N]
        [--record FOLDER]

PYTHON is the interpreter of an environment with dbt-core and dbt-duckdb; for `--adapter spark` with
dbt-spark and PySpark, whose session has an Iceberg catalog in memory. A history is one model
(delete+insert, merge, append, insert_overwrite, microbatch, snapshot, as the adapter has them, with
random configuration) with a source of its own that changes at random over some rounds. `dbt build`
and `vde run --ignore-cron` follow each change. `vde_dagster_tests/dbt/histories.py` lists inputs
that are left out because dbt-spark fails or loses rows. `--record` keeps the project, the manifests
and dbt's rows for the tests. Exits with the number of histories that differ.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

from vde_dagster.spark.session.settings import ICEBERG_PACKAGE
from vde_dagster_tests.dbt.histories import (
    COLUMNS,
    KINDS,
    History,
    Rows,
    histories,
    project_files,
    run_here,
    texts_of,
)
from vde_dagster_tests.dbt.trim import trimmed

_ROUNDS = """
import json, os, sys, time
output = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
from dbt.cli.main import dbtRunner
{engine}
work = json.load(sys.stdin)
begun, found = [], []
for sources in work["rounds"]:
    write(sources, work["columns"])
    begun.append(time.time())
    done = dbtRunner().invoke(["build", "--profiles-dir", "."])
    close()
    failed = {{}} if done.exception else {{
        one.node.name: one.message for one in done.result if one.status not in ("success", "pass")}}
    results = {{}}
    for name, shown in work["models"].items():
        try:
            results[name] = [[None if v is None else v if isinstance(v, (int, str)) else
                              {{"at": v.isoformat()}} for v in row]
                             for row in read(f"select {{shown}} from main.{{name}}")]
        except Exception as error:
            failed.setdefault(name, str(error))
    found.append({{"rows": results, "failed": failed, "error": str(done.exception or "")}})
output.write(json.dumps({{"begun": begun, "rounds": found}}))
output.flush()
"""
"""Program of dbt's process: runs all rounds; an engine has `write`, `read` and `close`."""
_ENGINES = {
    "duckdb": """
import duckdb
from dbt.adapters.duckdb.connections import DuckDBConnectionManager
def write(sources, columns):
    with duckdb.connect("data.duckdb") as database:
        database.execute("create schema if not exists raw")
        for name, rows in sources.items():
            database.execute(f"create or replace table raw.{name} ({columns})")
            if rows:
                database.executemany(f"insert into raw.{name} values (?, ?, ?, ?, ?)", rows)
def read(query):
    with duckdb.connect("data.duckdb") as database:
        return database.execute(query).fetchall()
def close():
    DuckDBConnectionManager.close_all_connections()
""",
    "spark": f"""
os.environ["TZ"] = "UTC"
time.tzset()
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[2]")
for key, value in {{
    "spark.jars.packages": "{ICEBERG_PACKAGE}",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.catalog-impl": "org.apache.iceberg.inmemory.InMemoryCatalog",
    "spark.sql.catalog.lake.default-namespace": "main",
    "spark.sql.defaultCatalog": "lake",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "1",
    "spark.driver.memory": "2g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
}}.items():
    builder = builder.config(key, value)
session = builder.getOrCreate()
for schema in ("raw", "main"):
    session.sql(f"create schema if not exists {{schema}}")
def literal(value, type_):
    return "null" if value is None else f"cast('{{value}}' as {{type_}})"
def write(sources, columns):
    types = [column.split()[1] for column in columns.split(", ")]
    for name, rows in sources.items():
        session.sql(f"create or replace table raw.{{name}} ({{columns}}) using iceberg")
        values = ", ".join(f"({{', '.join(map(literal, row, types))}})" for row in rows)
        if values:
            session.sql(f"insert into raw.{{name}} values {{values}}")
def read(query):
    return session.sql(query).collect()
def close():
    pass  # dbt uses this process's session.
""",
}


_SETTINGS = """
[tool.vde]
name = "histories"
start = "2024-01-01"
concurrency = 2

[tool.vde.spark]
warm = false

[tool.vde.spark.config]
"spark.driver.memory" = "2g"
"spark.ui.enabled" = "false"
"spark.sql.shuffle.partitions" = "1"

[tool.vde.dbt]
executable = "{dbt}"
profiles_dir = "."
"""


def main() -> int:
    """Run histories; returns the number that differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dbt", type=Path, metavar="PYTHON")
    parser.add_argument("--adapter", choices=sorted(KINDS), default="duckdb")
    parser.add_argument("--histories", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--only", nargs="*", default=[], metavar="KIND")
    parser.add_argument("--at-once", type=int, default=20, help="histories in one project")
    parser.add_argument("--record", type=Path, metavar="FOLDER")
    parser.add_argument("--keep", type=Path, help="a folder for the projects that were run")
    given = parser.parse_args()
    if given.dbt is None:
        print("give --dbt; nothing was run")
        return 0
    wrong, done, seed = Counter[str](), Counter[str](), given.seed
    start = time.monotonic()
    while sum(done.values()) < given.histories:
        count = min(given.at_once, given.histories - sum(done.values()))
        now = datetime.now(timezone.utc)
        made = histories(seed, count, given.rounds, now, given.only, given.adapter)
        with tempfile.TemporaryDirectory() as folder:
            root = (given.keep or Path(folder)) / f"seed{seed}"
            differing = _compare(root, made, given.dbt, given.adapter, given.record)
        for one in made:
            kind = one.name.partition("_")[2]
            done[kind] += 1
            wrong[kind] += one.name in differing
        seed += 1
        print(
            f"seeds {given.seed} to {seed - 1}: {sum(done.values())} histories, "
            f"{wrong.total()} differ; {time.monotonic() - start:.0f} s",
            flush=True,
        )
    for kind, number in sorted(done.items()):
        print(f"  {kind}: {number} histories, {wrong[kind]} differ")
    return wrong.total()


def _compare(
    root: Path, made: Sequence[History], python: Path, adapter: str, record: Path | None
) -> set[str]:
    """Run histories on both sides; returns the names of those that differ."""
    for path, text in project_files(made, adapter).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    begun, theirs = _by_dbt(root, made, python, adapter)
    (root / "pyproject.toml").write_text(_SETTINGS.format(dbt=python.parent / "dbt"))
    # The same instants: a day that ends between both would be another batch of today.
    ours = run_here(root, made, begun)
    if record is not None:
        _record(record, root, made, adapter, begun, theirs)
    differing = set()
    for one in made:
        for number, (has, wants) in enumerate(zip(ours, theirs, strict=True)):
            if has[one.name] != wants[one.name]:
                differing.add(one.name)
                print(f"  {root.name} {one.name}, round {number + 1}:")
                print("    " + "\n    ".join(one.files.values()))
                for rows in (*one.rounds[max(0, number - 1) : number + 1],):
                    print(f"    source: {rows}")
                for row in _without(has[one.name], wants[one.name]):
                    print(f"    here only: {row}")
                for row in _without(wants[one.name], has[one.name]):
                    print(f"    dbt only: {row}")
                break
    return differing


def _without(rows: Sequence[Sequence[str]], others: Sequence[Sequence[str]]) -> list[Any]:
    return list((Counter(map(tuple, rows)) - Counter(map(tuple, others))).elements())


def _by_dbt(
    root: Path, made: Sequence[History], python: Path, adapter: str
) -> tuple[list[datetime], list[Rows]]:
    """Return when each round began (UTC), and dbt's rows by model.

    Raises:
        RuntimeError: dbt failed.
    """

    def plain(row: Sequence[Any]) -> list[Any]:
        return [str(value) if isinstance(value, (date, datetime)) else value for value in row]

    rounds = [
        {one.source: [plain(row) for row in one.rounds[number]] for one in made}
        for number in range(len(made[0].rounds))
    ]
    models = {one.name: one.shown for one in made}
    work = {"rounds": rounds, "models": models, "columns": COLUMNS}
    with (root / "dbt.log").open("w") as log:
        done = subprocess.run(
            [str(python), "-c", _ROUNDS.format(engine=_ENGINES[adapter])],
            cwd=root,
            input=json.dumps(work),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=True,
        )
    told = json.loads(done.stdout)
    begun = [datetime.fromtimestamp(at, timezone.utc) for at in told["begun"]]
    for one in told["rounds"]:
        if one["failed"] or one["error"]:
            raise RuntimeError(f"dbt failed: {one['failed'] or one['error']}")
    return begun, [
        {
            name: texts_of([list(map(_value, row)) for row in rows], begun)
            for name, rows in one["rows"].items()
        }
        for one in told["rounds"]
    ]


def _value(value: Any) -> Any:
    return datetime.fromisoformat(value["at"]) if isinstance(value, dict) else value


def _record(
    folder: Path,
    root: Path,
    made: Sequence[History],
    adapter: str,
    begun: Sequence[datetime],
    theirs: Sequence[Rows],
) -> None:
    """Keep what the tests need of a project: manifests, sources and dbt's rows."""
    cache = root / ".vde/cache/dbt"
    for kept, target in (("first", "."), ("later", "later"), ("empty", "empty")):
        path = cache / kept / "manifest.json"
        if path.is_file():
            (folder / "target" / target).mkdir(parents=True, exist_ok=True)
            content = trimmed(path.read_bytes(), later=kept != "first")
            (folder / "target" / target / "manifest.json").write_bytes(content)
    recorded = [
        {
            "name": one.name,
            "shown": one.shown,
            "files": dict(one.files),
            "rounds": [[list(map(_kept, row)) for row in rows] for rows in one.rounds],
            "dbt": [rows[one.name] for rows in theirs],
        }
        for one in made
    ]
    for name, text in project_files(made, adapter).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    told = {"begun": [at.isoformat() for at in begun], "histories": recorded}
    (folder / "histories.json").write_text(json.dumps(told) + "\n")


def _kept(value: Any) -> Any:
    return value.isoformat() if isinstance(value, (date, datetime)) else value


if __name__ == "__main__":
    raise SystemExit(main())
