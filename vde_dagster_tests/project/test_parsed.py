"""Trees kept between loading and planning: each is taken once, and there is a bound."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlglot import exp

from vde_dagster.base import workers
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.project.loading.loader import load_project
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.trees import ParsedQueries, collect_rarely
from vde_dagster_tests.project.conftest import LoadModel, WriteProject


def test_a_tree_is_handed_over_once() -> None:
    parsed = ParsedQueries()
    tree = read_query("SELECT 1 AS a").tree
    parsed.keep("SELECT 1 AS a", tree)

    assert parsed.take("SELECT 1 AS a") is tree
    assert parsed.take("SELECT 1 AS a") is None


def test_there_is_room_for_so_many_characters_at_a_time() -> None:
    parsed = ParsedQueries(most=30)
    queries = [f"SELECT {number} AS a" for number in range(3)]
    for query in queries:
        parsed.keep(query, read_query(query).tree)

    assert [parsed.take(query) is not None for query in queries] == [True, True, False]
    parsed.keep(queries[2], read_query(queries[2]).tree)
    assert parsed.take(queries[2]) is not None


@pytest.mark.parametrize(("memory", "kept"), [("8000000000", True), ("2000000000", False)])
def test_trees_take_a_share_of_the_memory_that_the_process_may_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: str, kept: bool
) -> None:
    limit = tmp_path / "memory.max"
    limit.write_text(memory)
    monkeypatch.setattr(workers, "_MEMORY_LIMITS", (limit,))
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 4_000_000}.get)
    parsed = ParsedQueries()
    for start in ("", " "):
        parsed.keep(f"{start}SELECT 1{' ' * 800_000}", read_query("SELECT 1").tree)
    assert (f" SELECT 1{' ' * 800_000}" in parsed) is kept


def test_the_collector_visits_kept_trees_rarely_and_then_runs_as_before() -> None:
    before = gc.get_threshold()
    try:
        parsed = ParsedQueries(most=20_000_000)
        parsed.keep("SELECT 1" + " " * 1_000_000, read_query("SELECT 1").tree)
        assert gc.get_threshold() == before  # A process whose collector runs often is left alone.
        collect_rarely()
        often = gc.get_threshold()[0]
        for number in range(4):
            parsed.keep(f"SELECT {number}{' ' * 1_000_000}", read_query("SELECT 1").tree)
        assert gc.get_threshold()[0] > 5_000_000
        parsed.clear()
        assert gc.get_threshold()[0] == often
    finally:
        gc.set_threshold(*before)


def test_a_short_process_ends_without_a_last_collection() -> None:
    code = """
class Cycle:
    def __del__(self):
        print("collected")
one = Cycle()
one.itself = one
"""
    rarely = "from vde_dagster.sql.trees import collect_rarely; collect_rarely(); collect_rarely()"
    ends = [
        subprocess.run([sys.executable, "-c", first + code], capture_output=True, text=True)
        for first in ("", rarely)
    ]
    assert [end.stdout for end in ends] == ["collected\n", ""]
    assert [end.returncode for end in ends] == [0, 0]


def test_what_is_not_kept_leaves_nothing_to_the_garbage_collector() -> None:
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)  # What it would free, it lists.
    try:
        parsed = ParsedQueries(most=25)
        parsed.keep("SELECT a + 1 AS b FROM t", read_query("SELECT a + 1 AS b FROM t").tree)
        parsed.keep("SELECT 2 AS c", read_query("SELECT 2 AS c").tree)
        parsed.clear()
        gc.collect()
        left = [item for item in gc.garbage if isinstance(item, exp.Expr)]
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()

    assert left == []


def test_planning_parses_no_query_that_loading_parsed(
    write_project: WriteProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_project(
        {
            "models/a.sql": "MODEL (name d.a, kind FULL); SELECT 1 AS id, 'x' AS s",
            "models/b.sql": "MODEL (name d.b); SELECT a.id, COUNT(*) AS n FROM d.a GROUP BY a.id",
        }
    )
    parsed = ParsedQueries()
    project = load_project(root, parsed=parsed)
    expected = build_snapshots(project.models, lambda name: None)

    def parse(query: str, dialect: str) -> exp.Expr:
        raise AssertionError(f"parsed again: {query}")

    monkeypatch.setattr("vde_dagster.semantics.analysis.parse", parse)

    found = build_snapshots(project.models, lambda name: None, parsed=parsed)

    assert found == expected


@pytest.mark.parametrize("text", ["y", "yyyy", "d/M/yy", "EEEE"])
def test_time_formats_reach_spark_as_they_were_written(load_model: LoadModel, text: str) -> None:
    model = load_model(
        "MODEL (name a.m); "
        f"SELECT date_format(ts, '{text}') AS y, @twice(date_format(ts, '{text}')) AS z FROM d.t",
        {
            "macros/twice.py": """
            from vde_dagster import macro

            @macro()
            def twice(evaluator, value):
                return [value, value.copy()]
            """
        },
    )

    assert model.query is not None
    assert replace_tables(model.query, lambda name: None).count(f"'{text}'") == 3
