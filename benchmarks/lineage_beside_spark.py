"""What OpenLineage hears of the same fills from its agent within Spark, and from this package.

    python -m benchmarks.lineage_beside_spark [--agent 1.53.0] [--keep FOLDER]

A small project is applied on a Spark that has `openlineage-spark` as a listener, which writes what
it sees of each job to a file; then `vde export openlineage` writes its events to another. Compared
are, by table: its columns, what it is read from, what each column is made of (DIRECT), and what
decides its columns and rows (INDIRECT). The agent sees Spark's plan with views looked through, so
no model here reads a view. It knows no catalog of JDBC: once Spark has loaded the catalog, the
configuration says that it is Hadoop's.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.session import session as spark_session
from vde_dagster.spark.session.settings import SessionSettings

AGENT = "io.openlineage:openlineage-spark_2.13"
MODELS = {
    "raw.orders": """kind FULL);
SELECT CAST(id AS INT) AS id, CAST(id % 5 AS INT) AS customer,
  CAST(id * 1.5 AS DECIMAL(10, 2)) AS amount,
  DATE_ADD(DATE '2024-01-01', CAST(id % 3 AS INT)) AS day, IF(id % 4 = 0, 'web', 'shop') AS channel
FROM RANGE(60)""",
    "raw.customers": """kind FULL);
SELECT CAST(id AS INT) AS customer, CONCAT('n', id) AS name,
  NAMED_STRUCT('city', CONCAT('c', id % 2)) AS home
FROM RANGE(5)""",
    "mid.joined": """kind FULL);
SELECT o.id, o.day, c.name, o.amount * 2 AS doubled, c.home.city AS city,
  CASE WHEN o.channel = 'web' THEN o.amount ELSE 0 END AS web
FROM raw.orders AS o LEFT JOIN raw.customers AS c ON o.customer = c.customer WHERE o.amount > 1""",
    "mid.daily": """kind INCREMENTAL_BY_TIME_RANGE (time_column day),
  start '2024-01-01', end '2024-01-03');
SELECT day, COUNT(*) AS orders, SUM(amount) AS amount, MAX(channel) AS last
FROM raw.orders WHERE day BETWEEN @start_date AND @end_date GROUP BY day HAVING COUNT(*) > 0""",
    "mid.ranked": """kind FULL);
WITH x AS (SELECT id, customer, amount FROM raw.orders)
SELECT id, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC) AS place,
  amount - AVG(amount) OVER (PARTITION BY customer) AS above FROM x""",
    "mid.both": """kind FULL);
SELECT id, amount, 'order' AS what FROM raw.orders
UNION ALL SELECT customer, CAST(LENGTH(name) AS DECIMAL(10, 2)), name FROM raw.customers""",
    "mid.keyed": """kind INCREMENTAL_BY_UNIQUE_KEY (unique_key customer), start '2024-01-01');
SELECT customer, UPPER(name) AS name FROM raw.customers""",
    "mid.spread": """kind FULL);
SELECT o.id, letter FROM raw.orders AS o LATERAL VIEW EXPLODE(SPLIT(o.channel, '')) AS letter""",
}  # fmt: skip


@dataclass
class Heard:
    """What was said of one table."""

    columns: set[str] = field(default_factory=set)
    inputs: set[str] = field(default_factory=set)
    made_of: dict[str, set[tuple[str, str]]] = field(default_factory=dict)
    decided_by: set[tuple[str, str, str]] = field(default_factory=set)


def events(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a file."""
    for line in file.read_text().splitlines():
        yield json.loads(line)


def heard(file: Path) -> dict[str, Heard]:
    """Return what completed runs said, by table: schema and name, without its version."""
    found: dict[str, Heard] = {}
    for event in events(file):
        for output in event.get("outputs", ()) if event.get("eventType") == "COMPLETE" else ():
            one = found.setdefault(_table(output["name"]), Heard())
            facets = output.get("facets", {})
            one.columns |= {column["name"] for column in facets.get("schema", {}).get("fields", ())}
            one.inputs |= {_table(each["name"]) for each in event.get("inputs", ())}
            lineage = facets.get("columnLineage", {})
            one.decided_by |= set(_indirect(lineage.get("dataset") or ()))
            for column, said in lineage.get("fields", {}).items():
                one.decided_by |= set(_indirect(said["inputFields"]))
                one.made_of.setdefault(column, set()).update(
                    (_table(each["name"]), each["field"])
                    for each in said["inputFields"]
                    if _is_direct(each.get("transformations", ()))
                )
    return found


def _indirect(inputs: Iterable[dict[str, Any]]) -> Iterator[tuple[str, str, str]]:
    for each in inputs:
        for how in each.get("transformations", ()):
            if how["type"] == "INDIRECT":
                yield _table(each["name"]), each["field"], how["subtype"]


def _is_direct(transformations: Iterable[dict[str, Any]]) -> bool:
    said = [each["type"] for each in transformations]
    return "DIRECT" in said if said else True


def _table(name: str) -> str:
    """Return the model of a dataset, whose name is its table's location or its name.

    >>> _table("/tmp/x/vde__mid/joined__ab12cd-34ef")
    'mid.joined'
    >>> _table("vde__mid.joined__ab12cd")
    'mid.joined'
    """
    schema, table = name.replace("/", ".").rsplit(".", 2)[-2:]
    return f"{schema.removeprefix('vde__')}.{table.partition('__')[0]}"


def write(root: Path, agent: str) -> None:
    """Write the project; its Spark tells the agent's file."""
    (root / "models").mkdir(parents=True)
    for name, text in MODELS.items():
        (root / "models" / f"{name}.sql").write_text(f"MODEL (name {name}, {text}\n")
    text = f"""[tool.vde]
name = "beside"
[tool.vde.openlineage]
transport = {{ type = "file", log_file_path = "{root}/ours.jsonl", append = true }}
[tool.vde.spark]
warm = false
packages = ["{AGENT}:{agent}"]
[tool.vde.spark.config]
"spark.extraListeners" = "io.openlineage.spark.agent.OpenLineageSparkListener"
"spark.openlineage.transport.type" = "file"
"spark.openlineage.transport.location" = "{root}/theirs.jsonl"
"spark.openlineage.namespace" = "beside"
"""
    (root / "pyproject.toml").write_text(text)


def apply(root: Path) -> None:
    """Apply the project, in this process."""
    configure = spark_session._configure

    def as_the_agent_knows(session: Any, settings: SessionSettings) -> None:
        configure(session, settings)
        session.conf.set(f"spark.sql.catalog.{settings.catalog}.type", "hadoop")

    spark_session._configure = as_the_agent_knows
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"))


def _vde(root: Path, *words: str) -> None:
    command = [sys.executable, "-m", "vde_dagster.cli", *words, "--project", str(root)]
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if done.returncode:
        raise SystemExit(f"vde {' '.join(words)}: {done.stderr or done.stdout}")


def compare(ours: dict[str, Heard], theirs: dict[str, Heard]) -> None:
    """Print a line for each table, and each column of which something else is said."""
    same = columns = 0
    for table in sorted(MODELS):
        one, other = ours.get(table, Heard()), theirs.get(table, Heard())
        alike = [name for name in one.columns if one.made_of.get(name) == other.made_of.get(name)]
        columns, same = columns + len(one.columns), same + len(alike)
        print(f"{table:14} columns {len(one.columns)}/{len(other.columns)}  ", end="")
        print(f"inputs {sorted(one.inputs)} / {sorted(other.inputs)}")
        for name in sorted(one.columns - {*alike}):
            print(f"    {name}: {_said(one, name)} / {_said(other, name)}")
        for who, more in (
            ("ours alone", one.decided_by - other.decided_by),
            ("the agent's alone", other.decided_by - one.decided_by),
        ):
            for decided in sorted(more):
                print(f"    {who}, INDIRECT: {'.'.join(decided)}")
    both = sum(len(ours[t].decided_by & theirs.get(t, Heard()).decided_by) for t in ours)
    print(f"{both} columns decide by INDIRECT lineage that both say")
    print(f"{same} of {columns} columns are said to be made of the same; ours / the agent's")


def _said(heard: Heard, column: str) -> str:
    found = heard.made_of.get(column)
    if found is None:
        return "nothing said"
    return ", ".join(sorted(".".join(each) for each in found)) or "none"


def main() -> None:
    """Apply, export, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--agent", default="1.53.0", metavar="VERSION")
    parser.add_argument("--keep", type=Path, metavar="FOLDER")
    said = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = (said.keep or Path(temporary) / "project").resolve()
        write(root, said.agent)
        apply(root)
        _vde(root, "export", "openlineage")
        for name in ("ours", "theirs"):
            if not (root / f"{name}.jsonl").exists():
                raise SystemExit(f"{name}: no event was written, see {root}")
        compare(heard(root / "ours.jsonl"), heard(root / "theirs.jsonl"))


if __name__ == "__main__":
    main()
