"""Changes of published views between all pairs of versions, on Spark and Iceberg's own tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.execution.change_copies import follow_everywhere
from vde_dagster_tests.execution.changes_world import migrated
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.spark

KEYED = """MODEL (name shop.orders, start '2024-01-01',
  kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id), physical_properties (properties_here));
"""
QUERY = """SELECT CAST(id AS INT) AS id, CAST(id % 2 AS STRING) AS kind, @start_ds AS seen,
  map('k', id) AS m
FROM range(4) WHERE day(CAST(@start_ds AS DATE)) <> 2 OR id < 2"""
DAYS = """MODEL (name shop.days, start '2024-01-01',
  kind INCREMENTAL_BY_TIME_RANGE (time_column day));
SELECT CAST(@start_ds AS DATE) AS day, CAST(id AS INT) AS id FROM range(3)"""
HOW = {
    "copy-on-write": "'write.merge.mode' = 'copy-on-write'",
    "merge-on-read": "'write.merge.mode' = 'merge-on-read'",
    "lineage": "'format-version' = '3', 'write.merge.mode' = 'merge-on-read'",
}
TOP = """MODEL (name shop.top, kind VIEW);
SELECT kind, count(*) AS n FROM shop.orders GROUP BY kind"""
MODELS = ("shop.orders", "shop.days", "shop.top")


def at(day: int) -> datetime:
    return datetime(2024, 1, day, 12, tzinfo=timezone.utc)


def plain(value: Any) -> Any:
    return tuple(sorted(value.items())) if isinstance(value, dict) else value


def rows(workspace: Workspace, environment: str, model: str) -> tuple[list[str], Counter[Any]]:
    found = workspace.query(environment, f"SELECT * FROM {model}")
    return [name for name, _ in found.columns], bag(found.rows)


def bag(found: Any) -> Counter[Any]:
    return Counter(tuple(map(plain, row)) for row in found)


@pytest.mark.turns(8, "histories on Spark")
@pytest.mark.parametrize("how", HOW)
def test_copies_that_apply_changes_equal_the_view(
    how: str, tmp_path: Path, open_workspace: Callable[[ProjectFolder], Workspace]
) -> None:
    orders = KEYED.replace("properties_here", HOW[how])
    files = {"models/orders.sql": orders + QUERY, "models/days.sql": DAYS, "models/top.sql": TOP}
    folder = ProjectFolder(tmp_path / "shop", files)
    seen: dict[tuple[int, str], tuple[list[str], Counter[Any]]] = {}

    def note(workspace: Workspace) -> Workspace:
        current = workspace.store.environments.get("prod")
        assert current is not None
        for model in MODELS:
            if model in map(str, current.entries):
                seen[current.version, model] = rows(workspace, "prod", model)
        return workspace

    def publish(day: int, *, run: bool = False, **options: Any) -> Workspace:
        workspace = open_workspace(folder)
        made = workspace.plans.due if run else workspace.plan
        workspace.apply(made("prod", now=at(day), **options))
        return note(workspace)

    publish(2)
    publish(3, run=True)  # Updates two orders, adds a day.
    folder.edit("models/orders.sql", "AS kind,", "AS sort,")
    folder.edit("models/top.sql", "SELECT kind", "SELECT sort")
    folder.edit("models/top.sql", "GROUP BY kind", "GROUP BY sort")
    publish(3)  # A rename.
    publish(4, run=True)
    folder.edit("models/orders.sql", "range(4)", "range(5)")
    folder.edit("models/days.sql", "AS id FROM", "AS id, 'x' AS more FROM")
    publish(4)  # Other tables.
    publish(4, restate=["shop.days"])
    folder.remove("models/top.sql")
    workspace = publish(5)
    workspace.environments.rollback("prod", 2)
    workspace = note(open_workspace(folder))
    last = max(version for version, _ in seen)
    methods: Counter[str] = Counter()
    pairs = [(version, version + step) for version in range(1, last) for step in (0, 1)]
    pairs += [(version + 1, version) for version in range(1, last)]
    pairs += [(0, last), (1, last), (last, 2)]
    for model in MODELS:
        for since, until in pairs:
            before, after = seen.get((since, model)), seen.get((until, model))
            if before is None and after is None:
                continue
            found = workspace.changes.read("prod", model, since=since, until=until)
            changes = found.changes
            methods[changes.method] += 1
            names = [name for name, _ in changes.columns][5:]
            gone = bag(r[5:] for r in found.rows if r[0] in ("delete", "update_before"))
            come = bag(r[5:] for r in found.rows if r[0] in ("insert", "update_after"))
            case = f"{model} from {since} to {until}, by {changes.method}"
            assert gone.total() + come.total() == len(found.rows), case
            assert not gone & come, case
            copy = before[1] if before is not None else Counter()
            if before is not None and after is not None:
                copy = migrated(before[0], copy, changes.events, names)
            assert gone <= copy, case
            assert copy - gone + come == (after[1] if after is not None else Counter()), case
    assert min(methods["nothing"], methods["versions"]) > 5
    assert methods["lineage" if how == "lineage" else "commits"] > 0, methods
    told = workspace.changes.read("prod", "shop.orders", since=1, until=2)
    assert told.changes.key == ("id",)
    images = Counter((row[0], row[5]) for row in told.rows)
    assert images == Counter(
        [(kind, id_) for kind in ("update_before", "update_after") for id_ in (0, 1)]
    )
    assert {row[2:5] for row in told.rows} == {
        (pin(workspace, 2, "shop.orders"), 2, told.changes.publication_id)
    }
    renamed = workspace.changes.read("prod", "shop.orders", since=2, until=3)
    assert (renamed.rows, renamed.changes.method) == ((), "nothing")
    assert [(one.what, one.was, one.column) for one in renamed.changes.events] == [
        ("renamed", "kind", "sort")
    ]


ODD = """MODEL (name shop.odd, kind {kind});
SELECT id, map('k', CAST(IF(id = {n}, NULL, 0) AS INT), 'l', 0) AS m,
  named_struct('a b', array(map(1, CAST(IF(id = {n}, NULL, 0.0D) AS DOUBLE)))) AS s,
  map('x', map('y', IF(id = {n}, NULL, false))) AS deep FROM range(3)"""


@pytest.mark.turns(8, "histories on Spark")
@pytest.mark.server
@pytest.mark.parametrize("kind", ["FULL", "VIEW"])
def test_null_in_a_map_is_not_zero(
    kind: str,
    tmp_path: Path,
    open_workspace: Callable[[ProjectFolder], Workspace],
    postgres: PostgresServer,
    empty_postgres: str,
) -> None:
    settings = "[tool.vde]\n"
    if kind == "FULL":
        url = postgres.url(postgres.create_database(empty_postgres))
        settings += f'change_views = ["shop.*"]\nstate_url = "{url}"\n'
    folder = ProjectFolder(tmp_path / "shop", {"pyproject.toml": settings})
    for n in (0, 1):
        folder.write("models/odd.sql", ODD.format(kind=kind, n=n))
        workspace = open_workspace(folder)
        workspace.apply(workspace.plan("prod"))
    found = workspace.changes.read("prod", "shop.odd", since=1)
    zero = [{"k": 0, "l": 0}, {"a b": [{1: 0.0}]}, {"x": {"y": False}}]
    null = [{"k": None, "l": 0}, {"a b": [{1: None}]}, {"x": {"y": None}}]
    assert sorted(([row[0], *row[5:]] for row in found.rows), key=lambda row: row[:2]) == [
        ["delete", 0, *null],
        ["delete", 1, *zero],
        ["insert", 0, *zero],
        ["insert", 1, *null],
    ]
    assert follow_everywhere(workspace, "shop.odd") == Counter(nothing=2, versions=2)


def pin(workspace: Workspace, version: int, model: str) -> int | None:
    shown = workspace.store.versions.at("prod", version)
    assert shown is not None
    (table_id,) = [one.table_id for one in shown.entries.values() if str(one.name) == model]
    return workspace.store.pins.at("prod", version)[table_id or ""].snapshot_id
