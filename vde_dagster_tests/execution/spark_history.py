"""Random histories of published models on Spark and Iceberg, and copies that follow them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from vde_dagster.errors import UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.changes_world import migrated
from vde_dagster_tests.projects import ProjectFolder

Row = tuple[Any, ...]
GONE, COME = ("delete", "update_before"), ("insert", "update_after")
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


def bag(found: Iterable[Iterable[Any]]) -> Counter[Row]:
    """Count equal rows."""
    return Counter(tuple(row) for row in found)


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
    seen: dict[tuple[int, str], tuple[list[str], Counter[Row]]] = field(default_factory=dict)
    views: dict[tuple[int, str], tuple[list[str], list[Row]]] = field(default_factory=dict)
    did: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.day, self.frozen = 2, 0
        self.shape: dict[str, Any] = {"column": "kind", "rows": 4, "more": "", "leaves": False}
        self.folder.write("pyproject.toml", SETTINGS.format(versions=self.versions))
        self._write()
        self.workspace = self.opened(self.folder)
        self._publish()
        self.day += 1
        self._publish(run=True)

    @property
    def last(self) -> int:
        """The current version."""
        current = self.workspace.store.environments.get("prod")
        assert current is not None
        return current.version

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
        older = [number for number, model in self.seen if model == MODELS[0]][:-1]
        if what in ("rollback", "definitions"):
            only = what == "definitions"
            try:
                self.workspace.rollback("prod", self.dice.choice(older), definitions_only=only)
            except UsageError as error:
                assert "no earlier version" in error.message, error  # noqa: PT017
            self._note()
            return
        if what == "freeze":
            self.frozen += 1
            name = f"kept_{self.frozen}"
            self.workspace.freeze(f"prod@{self.dice.choice([*older, self.last])}", name)
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
        make = self.workspace.plan_run if run else self.workspace.plan
        self.workspace.apply(make("prod", **said))
        self._note()

    def _note(self) -> None:
        current = self.workspace.store.environments.get("prod")
        assert current is not None
        session = self.workspace.engine().session  # type: ignore[attr-defined]
        catalog = self.workspace.settings.catalog
        for entry in current.entries.values():
            model = str(entry.name)
            found = session.sql(f"SELECT * FROM {catalog}.{model}")
            self.seen[current.version, model] = found.columns, bag(found.collect())
            if entry.table_id is not None:
                found = session.sql(f"SELECT * FROM {catalog}.{model}__changes")
                self.views[current.version, model] = (
                    found.columns,
                    [tuple(row) for row in found.collect()],
                )

    def check_net(self, model: str, since: int, until: int) -> str | None:
        """Apply the net changes between two versions to a copy; return how they were found."""
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if before is None and after is None:
            return None
        found = self.workspace.changes("prod", model, since=since, until=until)
        names = [name for name, _ in found.changes.columns][5:]
        copy = self._copy(before, after, found.changes.events, names)
        gone, come = _split(found.rows)
        assert gone.total() + come.total() == len(found.rows)
        assert not gone & come, "a row was carried over"
        assert gone <= copy, "a row goes that is not there"
        assert copy - gone + come == (after[1] if after else Counter())
        return found.changes.method

    def check_each(self, model: str, since: int, until: int) -> int:
        """Apply each version's changes to a copy, which is each version; return how many."""
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if since > until or (before is None and after is None):
            return 0
        found = self.workspace.changes("prod", model, since=since, until=until, each=True)
        names = [name for name, _ in found.changes.columns][5:]
        copy = self._copy(before, after, found.changes.events, names)
        for ordinal, step in enumerate(found.changes.steps):
            rows = [row for row in found.rows if row[1] == ordinal]
            assert {row[3] for row in rows} <= {step.until}
            gone, come = _split(rows)
            assert gone <= copy, "a row goes that is not there"
            copy = copy - gone + come
            shown = self.seen.get((step.until, model))
            if shown is None or shown[0] == names:
                assert copy == (shown[1] if shown else Counter()), f"at version {step.until}"
        assert copy == (after[1] if after else Counter())
        return len(found.changes.steps)

    def check_view(self, model: str, since: int, until: int) -> str | None:
        """Let a copy of a version follow by what the view of changes showed at a later one."""
        before, after = self.seen.get((since, model)), self.seen.get((until, model))
        if (until, model) not in self.views or after is None:
            return None
        columns, rows = self.views[until, model]
        told = [row for row in rows if row[3] > since]
        events = () if before is None else self._events(model, since, until)
        copy = None
        for version in sorted({row[3] for row in told}):
            step = [row for row in told if row[3] == version]
            if any(row[0] == "resync" for row in step):
                copy = Counter[Row]()
            elif copy is None:
                copy = self._copy(before, after, events, columns[5:])
            gone, come = _split(step)
            assert gone <= copy, "a row goes that is not there"
            copy = copy - gone + come
        if copy is None:
            copy = self._copy(before, after, events, columns[5:])
        assert copy == after[1], f"the view of version {until}"
        return "resync" if any(row[0] == "resync" for row in told) else "steps"

    def _events(self, model: str, since: int, until: int) -> Any:
        return self.workspace.changes_between("prod", model, since, until, each=True).events

    def _copy(self, before: Any, after: Any, events: Any, names: list[str]) -> Counter[Row]:
        if before is None:
            return Counter()
        return migrated(before[0], before[1], events, names)


def _split(rows: Iterable[Row]) -> tuple[Counter[Row], Counter[Row]]:
    rows = list(rows)
    return bag(r[5:] for r in rows if r[0] in GONE), bag(r[5:] for r in rows if r[0] in COME)
