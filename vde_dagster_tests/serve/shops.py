"""The project that clients read: each kind of model, and columns renamed, dropped and reordered."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.duck_engine import open_duck

ORDERS = """MODEL (name raw.orders, kind FULL, description 'Every order',
  column_descriptions (id = 'Its number'));
"""
FILES = {
    "models/orders.sql": ORDERS
    + """SELECT CAST(v.id AS INT) AS id, CAST(v.tenant AS BIGINT) AS tenant,
        CAST(v.amount AS DECIMAL(10, 2)) AS amount, CAST(v.word AS STRING) AS word
        FROM VALUES (1, 7, 5.5, 'a'), (2, 7, 7.25, NULL), (3, 8, 2.0, 'ü'), (4, NULL, 1.0, 'd')
          AS v(id, tenant, amount, word)
    """,
    "models/daily.sql": """
        MODEL (name marts.daily, start '2024-01-01', partitioned_by (day),
          kind INCREMENTAL_BY_TIME_RANGE (time_column day, batch_size 1));
        SELECT CAST(@start_ds AS DATE) AS day, id, amount FROM raw.orders
    """,
    "models/big.sql": """
        MODEL (name marts.big, kind EMBEDDED); SELECT id, amount FROM raw.orders WHERE amount > 2
    """,
    "models/sums.sql": """
        MODEL (name marts.sums, kind VIEW, description 'Sums');
        SELECT o.tenant, count(*) AS orders FROM raw.orders AS o JOIN marts.big AS b ON o.id = b.id
        GROUP BY o.tenant
    """,
}
NAMES = ("orders", "daily", "sums")
RENAMED = ORDERS.replace("id = 'Its number'", "number = 'Its number'") + (
    FILES["models/orders.sql"].removeprefix(ORDERS)
).replace(
    "SELECT CAST(v.id AS INT) AS id, CAST(v.tenant AS BIGINT) AS tenant,",
    "SELECT CAST(v.tenant AS BIGINT) AS tenant, CAST(v.id AS INT) AS number,",
).replace(", CAST(v.word AS STRING) AS word", "")
"""The orders with a column renamed, one dropped, and two in another order."""


def noon(day: int) -> datetime:
    return datetime(2024, 1, day, 12, tzinfo=timezone.utc)


def publish(
    folder: ProjectFolder, day: int = 3, environment: str = "prod", **options: object
) -> None:
    """Plan and apply on a day of January."""
    with open_duck(folder.root) as workspace:
        done = workspace.apply(workspace.plan(environment, now=noon(day), **options))
        assert done.published


def run(folder: ProjectFolder, day: int) -> None:
    """Run production on a day of January."""
    with open_duck(folder.root) as workspace:
        assert workspace.apply(workspace.plans.due("prod", now=noon(day))).published


def publish_twice(root: Path) -> ProjectFolder:
    """Make the project's versions 1 to 3: new, with a day more, and with other columns."""
    folder = ProjectFolder(root, FILES)
    publish(folder)
    run(folder, 4)
    folder.write("models/orders.sql", RENAMED)
    for path in ("models/daily.sql", "models/big.sql"):
        text = FILES[path].replace("id,", "number AS id,")
        folder.write(path, text)
    folder.write("models/sums.sql", FILES["models/sums.sql"].replace("o.id", "o.number"))
    publish(folder, 4)
    return folder


def opened(folder: ProjectFolder) -> Workspace:
    return open_duck(folder.root)
