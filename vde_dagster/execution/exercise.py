"""Warm-up of a new engine: a small generated project is built and changed.

A JVM loads, checks and interprets code on its first runs, which takes most of the time of the first
models. So an idle engine builds models of the usual forms in the same way as a user's models:
`python -m vde_dagster.execution.exercise`, with the request as JSON on standard input (other users
could see command lines).
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.settings import SessionSettings

_PARTS = 3
"""Number of models of each form; Spark runs several in parallel, as in a user's project."""

_MODELS = {
    "raw": """MODEL (name raw.facts_{part}, kind FULL);
SELECT x.id, x.day, x.name, x.price, x.many, array(x.name, 'a') AS tags
FROM (VALUES {rows}) AS x(id, day, name, price, many)""",
    "days": """MODEL (name mid.days_{part}, kind INCREMENTAL_BY_TIME_RANGE (time_column day),
  start '2024-01-01', audits (not_null(columns := (id, day)), unique_values(columns := id)));
WITH other AS (SELECT id, day, max(price) AS price FROM raw.facts_{other} GROUP BY id, day)
SELECT x.id, x.day, x.name, x.many, coalesce(other.price, 0) + {part} AS price,
  CASE WHEN x.price > other.price THEN 'up' ELSE 'down' END AS way, upper(x.name) AS shown
FROM raw.facts_{part} AS x LEFT JOIN other ON x.id = other.id AND x.day = other.day
WHERE x.price > -1 AND x.day BETWEEN @start_date AND @end_date""",
    "keyed": """MODEL (name mid.keyed_{part}, kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id),
  start '2024-01-01');
SELECT id, name, CAST(price * 1.5 AS DECIMAL(18, 2)) AS price, date_trunc('month', day) AS month,
  current_timestamp() IS NULL AS never
FROM raw.facts_{part} WHERE name LIKE 'n%'""",
    "both": """MODEL (name mid.both_{part}, kind VIEW);
SELECT id, day, name, price, many FROM mid.days_{part} WHERE many >= 0
UNION ALL
SELECT id, day, name, price, many FROM raw.facts_{other} WHERE many > {part}""",
    "ranked": """MODEL (name out.ranked_{part}, kind FULL, audits (not_null(columns := (id))));
SELECT id, day, name, price, many,
  row_number() OVER (PARTITION BY day ORDER BY price, id) AS place,
  sum(price) OVER (PARTITION BY day, name) AS of_name, concat(name, '_{part}') AS tag
FROM mid.both_{part} WHERE exists(array(id, 1), one -> one > 0)""",
    "sums": """MODEL (name out.sums_{part}, kind FULL);
SELECT b.name, b.day, count(*) AS facts, count(DISTINCT b.id) AS ids, sum(b.price) AS price,
  CAST(sum(b.many) AS INT) AS many, min(k.month) AS first, avg(b.price) AS mean
FROM mid.both_{part} AS b JOIN mid.keyed_{part} AS k ON b.id = k.id
GROUP BY b.name, b.day HAVING count(*) < 100""",
    "shown": """MODEL (name out.shown_{part}, kind VIEW);
SELECT s.*, r.place FROM out.sums_{part} AS s
LEFT JOIN out.ranked_{part} AS r ON s.name = r.name AND s.day = r.day""",
}
_QUESTION = "SELECT name, sum(price), max(place) FROM out.shown_0 GROUP BY name ORDER BY name"


def exercise(folder: Path, master: str, rounds: int) -> None:
    """Build, change and read a project on a server, then delete it.

    Args:
        folder: Folder for the project, which is created and removed.
        master: The server's URL.
        rounds: Number of repetitions.
    """
    try:
        for number in range(rounds):
            root = folder / f"round_{number}"
            write_exercise(root)
            _build(root, master)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def write_exercise(root: Path) -> None:
    """Write the project's files to a new folder."""
    (root / "models").mkdir(mode=0o700, parents=True)
    (root / "pyproject.toml").write_text("[tool.vde]\nname = 'exercise'\n")
    for name, text in _models():
        (root / "models" / f"{name}.sql").write_text(text)


def _models() -> Iterator[tuple[str, str]]:
    for part in range(_PARTS):
        rows = ", ".join(
            f"({n}, DATE '2024-01-0{n % 3 + 1}', 'n{n % 4}', {n * 1.5 + part}D, {n})"
            for n in range(12)
        )
        for name, text in _MODELS.items():
            other = (part + 1) % _PARTS
            yield f"{name}_{part}", text.format(part=part, other=other, rows=rows)


def _build(root: Path, master: str) -> None:
    own = Workspace.open(root)
    settings = replace(SessionSettings.from_settings(own.settings), master=master, warm=None)
    engine = SparkEngine(settings, root, own.lakehouse)
    try:
        with Workspace.open(root, engine=engine) as workspace:
            workspace.apply(workspace.plan("prod"))
        for file in (root / "models").glob("ranked_*.sql"):
            file.write_text(file.read_text().replace("SELECT id,", "SELECT id AS more, id,", 1))
        with Workspace.open(root, engine=engine) as workspace:
            workspace.apply(workspace.plan("dev"))
            workspace.queries.run("dev", _QUESTION)
    finally:
        engine.close()


if __name__ == "__main__":
    os.nice(10)  # Work of users has priority.
    said = json.load(sys.stdin)
    exercise(Path(said["folder"]), said["master"], said["rounds"])
