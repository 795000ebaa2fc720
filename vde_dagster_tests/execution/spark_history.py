"""Random histories of published models on Spark and Iceberg, and copies that follow them."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.change_copies import Copies
from vde_dagster_tests.projects import ProjectFolder

HOW = {
    "copy-on-write": "'write.merge.mode' = 'copy-on-write'",
    "merge-on-read": "'write.merge.mode' = 'merge-on-read', 'write.delete.mode' = 'merge-on-read'",
    "lineage": "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'",
}
ORDERS = """MODEL (name shop.orders, start '2024-01-01', {grain}
  kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id), physical_properties ({how}));
SELECT CAST(id AS INT) AS id, CAST(id % 2 AS STRING) AS {column}, @start_ds AS seen
FROM range({rows}) WHERE (id + day(CAST(@start_ds AS DATE))) % 3 <> 0"""
DAYS = """MODEL (name shop.days, start '2024-01-01',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day));
SELECT CAST(@start_ds AS DATE) AS day, CAST(id AS INT) AS id{more} FROM range(3)"""
WHOLE = """MODEL (name shop.whole, kind FULL);
SELECT seen, count(*) AS n FROM shop.orders GROUP BY seen"""
TOP = """MODEL (name shop.top, kind VIEW);
SELECT {column}, count(*) AS n FROM shop.orders GROUP BY {column}"""
SETTINGS = "[tool.vde]\nchange_views = ['shop.*']\nchange_view_versions = {versions}\n"
MODELS = ("shop.orders", "shop.days", "shop.whole", "shop.top")
STEPS = (
    *("run", "run", "run", "rename", "swap", "more", "restate", "rollback", "rollback"),
    *("definitions", "freeze", "leave", "nothing"),
)


@dataclass
class History:
    """A project that is edited, run, restated, rolled back and frozen at random.

    Args:
        folder: Where it is.
        opened: Opens it as a new process would.
        how: How `shop.orders` is written.
        seed: Says which history.
        versions: How many changes the views of changes go back.
    """

    folder: ProjectFolder
    opened: Callable[[ProjectFolder], Workspace]
    how: str
    seed: int
    versions: int = 3
    did: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.copies = Copies(lambda: self.workspace)
        self.day, self.frozen = 2, 0
        self.shape: dict[str, Any] = {"column": "kind", "rows": 4, "more": "", "leaves": False}
        self.folder.write("pyproject.toml", SETTINGS.format(versions=self.versions))
        self._write()
        self.workspace = self.opened(self.folder)
        self._publish()
        self.day += 1
        self._publish(run=True)

    def _write(self) -> None:
        grain = "grain id," if self.seed % 2 else ""
        said = {**self.shape, "how": HOW[self.how], "grain": grain}
        self.folder.write("models/orders.sql", ORDERS.format(**said))
        self.folder.write("models/whole.sql", WHOLE)
        self.folder.write("models/top.sql", TOP.format(**said))
        days = self.folder.root / "models/days.sql"
        if self.shape["leaves"]:
            days.unlink(missing_ok=True)
        else:
            self.folder.write("models/days.sql", DAYS.format(**said))

    def step(self) -> None:
        """Do something, and note what readers see then."""
        what = self.dice.choice(STEPS)
        self.did.append(what)
        older = [number for number, model in self.copies.seen if model == MODELS[0]][:-1]
        if what in ("rollback", "definitions"):
            only = what == "definitions"
            try:
                self.workspace.environments.rollback(
                    "prod", self.dice.choice(older), definitions_only=only
                )
            except UsageError as error:
                assert "no earlier version" in error.message, error  # noqa: PT017
            self.copies.note()
            return
        if what == "freeze":
            self.frozen += 1
            name = f"kept_{self.frozen}"
            self.workspace.environments.freeze(
                f"prod@{self.dice.choice([*older, self.copies.last])}", name
            )
            return
        if what == "rename":
            self.shape["column"] = "sort" if self.shape["column"] == "kind" else "kind"
        elif what == "swap":
            self.shape["rows"] = self.dice.choice([3, 4, 5, 6])
        elif what == "more":
            self.shape["more"] = "" if self.shape["more"] else ", 'x' AS more"
        elif what == "leave":
            self.shape["leaves"] = not self.shape["leaves"]
        elif what == "run":
            self.day += 1
        self._publish(run=what == "run", restate=what == "restate")

    def _publish(self, *, run: bool = False, restate: bool = False) -> None:
        self._write()
        self.workspace = self.opened(self.folder)
        now = datetime(2024, 1, self.day, 12, tzinfo=timezone.utc)
        said: dict[str, Any] = {"now": now}
        if restate:
            said["restate"] = [self.dice.choice(["shop.orders", "shop.whole"])]
        make = self.workspace.plans.due if run else self.workspace.plan
        self.workspace.apply(make("prod", **said))
        self.copies.note()
