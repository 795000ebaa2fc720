"""Everyday edits of a project of thirteen models: what has to be built, and what is.

`python -m vde_dagster_tests.planning.edit_classes` writes docs/edits.md.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.plan.plan import Change
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.planning.edit_classes_rules import (
    Project,
    dbt_modified,
    dbt_state,
    sqlmesh,
)
from vde_dagster_tests.planning.oracle_lake import ExternalTable, Lake
from vde_dagster_tests.planning.oracle_world import could_serve
from vde_dagster_tests.planning.simulate import NOW, MemoryMemo, Warehouse
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.yaml_files import read_yaml

DATA = Path(__file__).with_name("edit_classes.yaml")
Rule = Callable[[Project, Project], set[str]]
OTHERS: dict[str, Rule] = {
    "dbt State": dbt_state,
    "dbt `state:modified+`": dbt_modified,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One edit, and what happened.

    Args:
        title: The edit in words.
        in_set: Whether it is one of the 28 that are counted together.
        harmless: Whether no table has to be built, as the data file says.
        expected: Models that have to be built, as the data file says.
        needed: Models whose kept contents would differ from a rebuild, as DuckDB says.
        builds: Models that the plan builds.
        wrong: Models that do not show what a rebuild would after the plan was applied.
        others: Models that other tools build, by tool.
    """

    title: str
    in_set: bool
    harmless: bool
    expected: frozenset[str]
    needed: frozenset[str]
    builds: frozenset[str]
    wrong: frozenset[str]
    others: dict[str, frozenset[str]]


def measure_all() -> list[Measured]:
    """Measure every edit of the data file, each from the same published project."""
    document = read_yaml(DATA)
    with tempfile.TemporaryDirectory() as folder:
        shop = _Shop(document, Path(folder))
        first = shop.read()
        shop.lake.apply(shop.warehouse, shop.warehouse.plan_snapshots(dict(first.snapshots)))
        published = shop.warehouse
        out = []
        for edit in document["edits"]:
            shop.warehouse = published.copy()
            out.append(_measure(shop, first, edit))
            shop.reset()
        shop.lake.close()
    return out


def external_rows(columns: dict[str, dict[str, str]]) -> dict[str, ExternalTable]:
    """Rows in which every edit of the data file that can show does show."""
    rng = random.Random(1)
    countries = ["NL", "DE", "US", "BR", "FR", None]
    names = ["Ann", "bob", "eve", "Dan", "Zoe"]
    rows: dict[str, list[tuple[Any, ...]]] = {
        "lake.customers": [
            (n, names[n % 5], f"{names[n % 5]}{n}@X.com", countries[n % 6], date(2023, 1, n + 1))
            for n in range(20)
        ],
        "lake.products": [(n, f"title {n}", "abc"[n % 3], n * 2) for n in range(8)],
        "lake.orders": [
            (
                *(n, rng.randrange(20), rng.randrange(8), rng.randint(1, 4), rng.randint(1, 9)),
                *(rng.choice(["paid", "open", "test"]), date(2024, 1, 1) + timedelta(days=n % 9)),
            )
            for n in range(120)
        ],
    }
    rows["lake.orders"] += rows["lake.orders"][:10]
    return {
        name: ExternalTable(tuple(types.items()), tuple(rows[name]))
        for name, types in columns.items()
    }


class _Shop:
    """The project in a folder, with a warehouse and its data."""

    def __init__(self, document: dict[str, Any], root: Path) -> None:
        self.files: dict[str, str] = document["files"]
        self.folder = ProjectFolder(root, self.files)
        self.external = document["external"]
        self.lake = Lake(external_rows(self.external), root)
        self.warehouse = Warehouse()
        self.memo = MemoryMemo()

    def reset(self) -> None:
        """Take all edits back."""
        for path in self.folder.root.glob("models/*"):
            if f"models/{path.name}" not in self.files:
                path.unlink()
        for name, text in self.files.items():
            self.folder.write(name, text)

    def edit(self, edits: dict[str, Any]) -> None:
        for name, change in edits.items():
            path = f"seeds/{name}" if name.endswith(".csv") else f"models/{name}.sql"
            if change is None:
                self.folder.remove(path)
            elif isinstance(change, str):
                self.folder.write(path, change)
            else:
                for old, new in change.items():
                    self.folder.edit(path, old, new)

    def read(self) -> Project:
        project = load_project(self.folder.root)
        columns = {name: list(types.items()) for name, types in self.external.items()}
        snapshots = build_snapshots(
            project.models, lambda name: columns.get(str(name)), memo=self.memo
        )
        return Project.read(self.folder.root, snapshots)


def _measure(shop: _Shop, first: Project, edit: dict[str, Any]) -> Measured:
    after = first
    if "before" in edit:
        shop.edit(edit["before"])
        after = shop.read()
        shop.lake.apply(shop.warehouse, shop.warehouse.plan_snapshots(dict(after.snapshots)))
    steps = [edit["edit"], edit["then"]] if "then" in edit else [edit["edit"]]
    earlier: list[Project] = []
    for step in steps:
        before = after
        earlier.append(before)
        old = shop.lake.rebuild(before.snapshots, NOW)
        shop.edit(step)
        after = shop.read()
        plan = shop.warehouse.plan_snapshots(dict(after.snapshots))
        known = dict(shop.warehouse.tables)
        shop.lake.apply(shop.warehouse, plan)
    truth = shop.lake.rebuild(after.snapshots, NOW)
    served = shop.lake.served(shop.warehouse, "prod")
    needed = set()
    for planned in plan.models:
        name = planned.name
        if planned.change is Change.REMOVED or not after.snapshots[name].has_table:
            continue
        had_table = name in before.snapshots and before.snapshots[name].has_table
        copied = planned.table is not None and planned.table.id in known
        if not copied and (not had_table or not could_serve(old[name], truth[name])):
            needed.add(str(name))
    forced = frozenset(edit.get("forced", ()))
    expected = frozenset(edit.get("rebuild", ())) | forced
    return Measured(
        title=edit["title"],
        in_set=bool(edit.get("set")),
        harmless=not expected,
        expected=expected,
        needed=frozenset(needed) | forced,
        builds=frozenset(str(model.name) for model in plan.builds),
        wrong=frozenset(str(name) for name in served if served[name] != truth[name]),
        others={
            "SQLMesh": frozenset(sqlmesh(before, after, earlier=earlier[:-1])),
            **{tool: frozenset(rule(before, after)) for tool, rule in OTHERS.items()},
        },
    )


if __name__ == "__main__":
    from vde_dagster_tests.planning.edit_classes_page import PAGE, page

    PAGE.write_text(page(measure_all()))
