"""A shop whose views change by days, edits and rollbacks, without a JVM."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import psycopg
import yaml

from vde_dagster.execution.workspace import Workspace
from vde_dagster.plugins.sync.definitions import read_syncs
from vde_dagster.plugins.sync.syncs import SyncResult, Syncs
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.duck_engine import open_duck
from vde_dagster_tests.serve.shops import noon

ROWS = ", ".join(
    f"('2024-01-{day:02}', {customer}, {amount}.5)"
    for day, customer, amount in [
        (1, 1, 10), (1, 2, 20), (1, 3, 30),
        (2, 1, 5), (2, 4, 40),
        (3, 2, 60), (3, 5, 50),
        (4, 6, 1), (4, 1, 70),
        (5, 3, 90), (5, 7, 7),
        (6, 8, 8),
    ]
)  # fmt: skip

LATEST = """
    MODEL (name marts.latest, kind FULL, cron '@daily', start '2024-01-01', grain customer);
    SELECT customer, max(amount) * 1 AS amount, count(*) AS orders, max(day) AS day,
      CASE WHEN count(*) > 1 THEN 'again' END AS word
    FROM marts.daily GROUP BY customer HAVING count(*) < 9
"""
FILES = {
    "models/daily.sql": f"""
        MODEL (name marts.daily, start '2024-01-01', cron '@daily',
          kind INCREMENTAL_BY_TIME_RANGE (time_column day));
        SELECT CAST(v.day AS DATE) AS day, CAST(v.customer AS INT) AS customer,
          CAST(v.amount AS DECIMAL(10, 2)) AS amount
        FROM VALUES {ROWS} AS v(day, customer, amount)
        WHERE CAST(v.day AS DATE) BETWEEN CAST(@start_ds AS DATE) AND CAST(@end_ds AS DATE)
    """,
    "models/latest.sql": LATEST,
}


class Shop:
    """The project, day by day.

    Args:
        root: An empty folder.
        how: What opens it, besides the folder.
    """

    def __init__(self, root: Path, **how: Any) -> None:
        self.folder = ProjectFolder(root, FILES)
        self.day, self.how = 3, how
        self.said = {"factor": 1, "most": 9}

    def define(self, **said: Any) -> None:
        """Define the one sync `latest`, with some of it said."""
        known = {"name": "latest", "source": "marts.latest", "key": ["customer"], "mode": "mirror"}
        written = {key: one for key, one in {**known, **said}.items() if one is not None}
        self.folder.write("syncs.yaml", yaml.safe_dump([written]))

    def publish(self, environment: str = "prod") -> None:
        """Plan and apply the files."""
        with open_duck(self.folder.root) as workspace:
            plan = workspace.plan(environment, now=noon(self.day))
            assert workspace.apply(plan).published

    def run_day(self) -> None:
        """Let a day pass: rows come, and some of those there change, in the same tables."""
        self.day += 1
        with open_duck(self.folder.root) as workspace:
            assert workspace.apply(workspace.plans.due("prod", now=noon(self.day))).published

    def edit(self, old: str, new: str) -> None:
        """Change the query of the model, and publish it."""
        self.folder.edit("models/latest.sql", old, new)
        self.publish()

    def rewrite(self, what: str, number: int) -> None:
        """Write the model with another factor, or another limit, and publish it if it differs."""
        self.said[what] = number
        factor, most = self.said["factor"], self.said["most"]
        text = LATEST.replace("* 1", f"* {factor}").replace("< 9", f"<= {most}")
        self.folder.write("models/latest.sql", text)
        with open_duck(self.folder.root) as workspace:
            workspace.apply(workspace.plan("prod", now=noon(self.day)))

    def rollback(self, version: int) -> None:
        """Let production show an earlier version."""
        with open_duck(self.folder.root) as workspace:
            workspace.environments.rollback("prod", version)

    def version(self) -> int:
        """The version of production."""
        with open_duck(self.folder.root) as workspace:
            found = workspace.store.environments.get("prod")
            return found.version if found is not None else 0

    def sync(self, environment: str = "prod", how: str = "run", **asked: Any) -> SyncResult:
        """Run, plan or replay the sync, in a process of its own."""
        opened = {**self.how, **asked.pop("opened", {})}
        with open_duck(self.folder.root, **opened) as workspace:
            return self.of(workspace, environment, how, **asked)

    def of(self, workspace: Workspace, environment: str, how: str, **asked: Any) -> SyncResult:
        """Run, plan or replay the sync in a workspace."""
        (definition,) = read_syncs(workspace).values()
        found: SyncResult = getattr(Syncs(workspace), how)(definition, environment, **asked)
        return found

    def shown(self, environment: str = "prod", model: str = "marts.latest") -> list[dict[str, Any]]:
        """What the view shows, by customer."""
        with open_duck(self.folder.root) as workspace:
            rows = workspace.queries.read(environment, model).to_pylist()
        return sorted(rows, key=repr)

    def cursor(self) -> list[tuple[Any, ...]]:
        """What the state's ledger has."""
        with sqlite3.connect(self.folder.root / ".vde" / "vde.db") as db:
            return db.execute("SELECT version, pending FROM vde_sync_cursors").fetchall()


def in_postgres(url: str, table: str = "latest") -> list[dict[str, Any]]:
    """What a table has, sorted as `Shop.shown` does."""
    with psycopg.connect(url, row_factory=psycopg.rows.dict_row) as conn:
        rows = conn.execute(f"SELECT * FROM {table}").fetchall()
    return sorted(rows, key=repr)
