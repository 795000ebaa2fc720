"""Loaders of one hub that begin at the same instant: no key twice, none lost, whoever dies."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier, Lock

import pytest

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.execution.events import Event, IntervalFilled
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.tables.pinned_reads import Input
from vde_dagster.plugins.vault.first_seen import Earliest
from vde_dagster.plugins.vault.kinds import FirstSeen
from vde_dagster.project.kinds import IncrementalByUniqueKey
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.strategies import base
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.daily_runs import DailyRuns
from vde_dagster_tests.faults import VARIABLE
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.spark.tasks import Warehouse, days

pytestmark = [
    pytest.mark.spark,
    pytest.mark.usefixtures("spark_engine"),
    pytest.mark.turns(14, "vaults on Spark"),
]

SOURCES = {
    "crm": (0, 200, "2024-01-02"),
    "erp": (100, 300, "2024-01-01"),
    "web": (0, 50, "2024-01-02"),
}
"""The first key of each, the one behind its last, and its load date."""
HUB = """
    MODEL (name vault.hub, start '2024-01-01', end '2024-01-02',
      kind HUB (key hk, batch_size 1, loaders BY_SOURCE),
      audits (unique_values(columns := (hk))));
"""
SELECT = (
    "SELECT @HASH_KEY(id) AS hk, id, DATE '{day}' AS ldts, '{source}' AS rsrc FROM src.{source}"
)
WINNERS = {"crm": 100, "erp": 200}
"""erp was first; crm has the keys below its, before web by name."""


def _project(root: Path) -> ProjectFolder:
    files = {
        f"models/{source}.sql": f"MODEL (name src.{source}, kind VIEW); "
        f"SELECT EXPLODE(SEQUENCE({first}, {end - 1})) AS id"
        for source, (first, end, _) in SOURCES.items()
    }
    selects = (SELECT.format(source=one, day=day) for one, (_, _, day) in SOURCES.items())
    return ProjectFolder(root, {**files, "models/hub.sql": HUB + " UNION ALL ".join(selects)})


def _check(workspace: Workspace, environment: str = "prod") -> None:
    """The view has each key once, of the source that was first; each source has all its keys."""
    found = workspace.query(
        environment, "SELECT rsrc, COUNT(*), COUNT(DISTINCT hk) FROM vault.hub GROUP BY rsrc"
    )
    assert {row[0]: row[1:] for row in map(tuple, found.rows)} == {
        source: (keys, keys) for source, keys in WINNERS.items()
    }
    for source, (first, end, _) in SOURCES.items():
        query = f"SELECT COUNT(*), COUNT(DISTINCT hk), MIN(id), MAX(id) FROM vault.hub__{source}"
        (row,) = workspace.query(environment, query).rows
        assert tuple(row) == (end - first, end - first, first, end - 1)


def _at_once(root: Path, loads: list[tuple[str, tuple[str, ...]]]) -> list[Event]:
    """Load in one thread each, all of which begin at the same instant.

    Args:
        loads: An environment, and the models that it loads.
    """
    barrier, told = Barrier(len(loads)), list[Event]()

    def load(environment: str, models: tuple[str, ...]) -> None:
        with Workspace.open(root) as workspace:
            plan = workspace.plan(environment, select=models)
            barrier.wait(60)
            workspace.apply(plan, on_event=told.append)

    with ThreadPoolExecutor(len(loads)) as pool:
        for done in [pool.submit(load, *one) for one in loads]:
            done.result(200)
    return told


def _filled(told: list[Event]) -> list[str]:
    return sorted(str(one.snapshot.name) for one in told if isinstance(one, IntervalFilled))


def test_sources_that_load_at_once_in_several_environments_make_one_hub(tmp_path: Path) -> None:
    root = _project(tmp_path).root
    told = _at_once(root, [(f"load_{one}", (f"vault.hub__{one}",)) for one in SOURCES])
    days = sorted(f"vault.hub__{one}" for one in SOURCES for _ in range(2))
    assert _filled(told) == days
    # Two environments want all of it, and production shows it: nobody loads anything again.
    told = _at_once(root, [("one", ("vault.*",)), ("two", ("vault.*",))])
    assert _filled(told) == []
    with Workspace.open(root) as workspace:
        workspace.apply(workspace.plan("prod"), on_event=told.append)
        assert _filled(told) == []
        _check(workspace)
        _check(workspace, "one")
        assert workspace.plan("prod").is_empty

        # A reload adds none.
        sources = tuple(f"vault.hub__{one}" for one in SOURCES)
        workspace.apply(workspace.plan("prod", restate=sources), on_event=told.append)
        assert _filled(told) == days
        _check(workspace)


UNIQUE = """
    MODEL (name vault.links, start '2024-01-01', end '2024-01-02',
      kind INCREMENTAL_BY_UNIQUE_KEY (unique_key id, batch_size 1));
    SELECT id, @start_date AS loaded FROM src.crm WHERE id >= 100 OR @start_date > DATE '2024-01-01'
"""


def test_two_loaders_of_one_source_or_unique_key_take_turns_and_the_second_finds_it_loaded(
    tmp_path: Path,
) -> None:
    folder = _project(tmp_path)
    folder.write("models/links.sql", UNIQUE)
    loads = ("vault.hub__crm", "vault.links")
    told = _at_once(folder.root, [("one", loads), ("two", loads)])
    assert _filled(told) == sorted(loads * 2)
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        _check(workspace)
        query = "SELECT COUNT(*), COUNT(DISTINCT id), MIN(loaded) FROM vault.links"
        (row,) = workspace.query("prod", query).rows
        assert tuple(map(str, row)) == ("200", "200", "2024-01-02")


STORED = """
    MODEL (name vault.hub, start '2023-12-31', kind HUB (key hk, loaders BY_SOURCE, stored true));
    SELECT @HASH_KEY(id) AS hk, id, ldts, 'crm' AS rsrc FROM raw.crm
    UNION ALL SELECT @HASH_KEY(id), id, ldts, 'erp' FROM raw.erp
"""


def test_a_hub_that_is_stored_computes_the_keys_that_came_to_the_tables_of_its_sources(
    tmp_path: Path,
) -> None:
    table = "CREATE TABLE lakehouse.raw.{} (id INT, ldts DATE) USING iceberg"
    world = DailyRuns(
        tmp_path,
        {"models/hub.sql": STORED},
        *map(table.format, ("crm", "erp")),
        "INSERT INTO lakehouse.raw.crm SELECT CAST(id AS INT), DATE '2024-01-01' FROM range(200)",
        "INSERT INTO lakehouse.raw.erp SELECT CAST(id AS INT), DATE '2024-01-02' FROM range(5)",
    )

    def keys() -> dict[str, int]:
        query = "SELECT rsrc, COUNT(*), COUNT(DISTINCT hk) FROM vault.hub GROUP BY rsrc"
        found = [tuple(row) for row in world.workspace.query("prod", query).rows]
        assert all(rows == unique for _, rows, unique in found)
        return {source: rows for source, rows, _ in found}

    with world.workspace:
        assert keys() == {"crm": 200}
        # One key that erp had before crm, and one that is new.
        world.sql(
            "INSERT INTO lakehouse.raw.erp VALUES (7, DATE '2023-06-01'), (900, DATE '2024-01-03')"
        )
        assert world.run()["vault.hub"] == 2
        assert {one.how for one in world.inputs("vault.hub").values()} == {Input.BY_CHANGES}
        assert keys() == {"crm": 199, "erp": 2}
        assert set(world.run().values()) <= {None, 0}


KINDS = {
    "FIRST_SEEN": FirstSeen(("hk",), "ldts", "rsrc"),
    "LINK": FirstSeen(("hk", "other"), "ldts", "rsrc"),
    "INCREMENTAL_BY_UNIQUE_KEY": IncrementalByUniqueKey(("hk",), ("hk",)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_writers_that_no_lease_holds_apart_meet_and_the_keys_are_there_once(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Each of three loads the same 200 keys at the same instant, and 20 of its own."""
    monkeypatch.setattr(base.Write, "lock", property(lambda _: Lock()))
    types = {"hk": "string", "other": "bigint", "ldts": "date", "rsrc": "string"}
    held = Warehouse(spark_engine, KINDS[kind], types)
    keys = "SELECT CAST(id AS STRING) AS hk, id AS other, DATE '2024-01-0{0}' AS ldts, '{0}' AS "
    rows = (
        keys + "rsrc FROM (SELECT id FROM range(200) UNION ALL SELECT {0}000 + id FROM range(20))"
    )
    barrier = Barrier(3)

    def load(source: int) -> ConflictError | None:
        barrier.wait(60)
        try:
            held.fill(rows.format(source), days(source, source + 1))
        except ConflictError as error:
            return error
        return None

    def loaded(sources: Sequence[int]) -> list[int]:
        """Load at once; return those that were outrun."""
        with ThreadPoolExecutor(3) as pool:
            found = dict(zip(sources, pool.map(load, sources), strict=True))
        for error in filter(None, found.values()):
            assert re.search(r"was changed by other writers while .* being merged$", error.message)
            assert error.hint is not None
            assert error.hint.startswith(
                "when the other writers are done, apply the plan again: vde"
            )
        return [source for source, error in found.items() if error]

    # Whoever is outrun says so and has written nothing; who tries again loses and doubles nothing.
    monkeypatch.setattr(base, "_ATTEMPTS", 1)
    outrun = next(filter(None, (loaded((1, 2, 3)) for _ in range(20))), [])
    assert outrun, "no two of them ever met"
    monkeypatch.setattr(base, "_ATTEMPTS", 10)
    assert loaded((1, 2, 3)) == []
    (counts,) = held.rows("COUNT(*), COUNT(DISTINCT hk), MIN(other), MAX(other)")
    assert counts == (260, 260, 0, 3019)
    if kind != "INCREMENTAL_BY_UNIQUE_KEY":
        firsts = held.rows("rsrc, COUNT(*)", " GROUP BY rsrc")
        assert firsts == [("1", 220), ("2", 20), ("3", 20)]


def test_a_merge_that_is_not_planned_row_by_row_is_refused_before_it_writes(
    spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    types = {"hk": "string", "ldts": "date", "rsrc": "string"}
    held = Warehouse(spark_engine, FirstSeen(("hk",), "ldts", "rsrc"), types)
    rows = "SELECT '{}' AS hk, DATE '2024-01-01' AS ldts, 'crm' AS rsrc"
    asked: list[str] = []
    ask = base.require_row_level
    monkeypatch.setattr(
        base, "require_row_level", lambda write, merge: (asked.append(merge), ask(write, merge))
    )
    for day, key in enumerate("abc", 1):
        before = len(base._checked_merges)
        held.fill(rows.format(key), days(day, day + 1))
        assert len(base._checked_merges) - before == (day == 1), "each statement is looked at once"
    assert "WHEN MATCHED" in asked[0]

    # Without a branch for what matches it is an append, which checks nothing.
    merge = Earliest.merge
    monkeypatch.setattr(
        Earliest,
        "merge",
        lambda self, target, rows: (
            (text := merge(self, target, rows))[: text.index("WHEN MATCHED")]
            + text[text.index("WHEN NOT MATCHED") :]
        ),
    )
    with pytest.raises(
        ExecutionError, match=r"by 'AppendData.*does not detect conflicts"
    ) as raised:
        held.fill(rows.format("d"), days(4, 5))
    assert raised.value.hint
    assert held.rows("hk") == [("a",), ("b",), ("c",)]


def test_a_process_that_is_killed_beside_another_loses_and_doubles_nothing(tmp_path: Path) -> None:
    root = _project(tmp_path / "project").root
    config = "\n".join(f"{json.dumps(k)} = {json.dumps(v)}" for k, v in SMALL_SPARK.items())
    (root / "pyproject.toml").write_text(
        f'[tool.vde.spark]\nmaster = "local[1]"\n[tool.vde.spark.config]\n{config}\n'
    )
    fault = {"point": "fill.advance.file", "mode": "kill_before", "occurrence": 2}
    ready = [str(tmp_path / source) for source in ("crm", "erp")]
    loaders = [
        subprocess.Popen(
            [sys.executable, "-m", "vde_dagster_tests.vault.loader", str(root), *arguments],
            env={**os.environ, VARIABLE: json.dumps(fault)} if dies else dict(os.environ),
            cwd=Path(__file__).parents[2],
        )
        for dies, arguments in (
            (True, ("load_crm", "vault.hub__crm", *ready)),
            (False, ("load_erp", "vault.hub__erp", *reversed(ready))),
        )
    ]
    assert [one.wait(240) for one in loaders] == [-9, 0]
    with Workspace.open(root) as workspace:
        told: list[Event] = []
        workspace.apply(workspace.plan("prod"), on_event=told.append)
        # What the dead one had committed is taken over; of erp nothing is loaded again.
        assert set(_filled(told)) == {"vault.hub__crm", "vault.hub__web"}
        _check(workspace)
        assert workspace.plan("prod").is_empty
