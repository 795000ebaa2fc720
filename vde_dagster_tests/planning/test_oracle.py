"""What a plan skips is what a rebuild would leave as it is: random projects on DuckDB."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project.kinds import (
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    Kind,
    View,
)
from vde_dagster.project.model import Model
from vde_dagster_tests.planning.oracle import FIRST_DAY, run_seed
from vde_dagster_tests.planning.oracle_data import (
    START,
    external_models,
    random_tables,
    with_query,
)
from vde_dagster_tests.planning.oracle_world import Step, Tally, World, WrongSkipError

FIRST = int(os.environ.get("VDE_ORACLE_SEED", "0"))
PROJECTS = int(os.environ.get("VDE_ORACLE_PROJECTS", "12"))


@pytest.mark.turns(4)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROJECTS))
def test_what_a_plan_skips_is_as_a_rebuild_would_make_it(seed: int) -> None:
    tally = Tally()
    run_seed(seed, tally)
    assert tally.compared > 0


DAYS = IncrementalByTimeRange("d")
KEY = IncrementalByUniqueKey(("k",), batch_size=1)
PER_DAY = IncrementalByTimeRange("d", batch_size=1)
OF_DAYS = "FROM raw.a AS q WHERE q.d BETWEEN @start_date AND @end_date"
FOUND: dict[str, list[dict[str, tuple[Kind, str]]]] = {
    "one column is left of two that hold the same": [
        {"t": (Full(), "SELECT q.k AS a, q.k AS b FROM raw.c AS q")},
        {"t": (Full(), "SELECT q.k AS b FROM raw.c AS q")},
    ],
    "a time column is stored once under another name": [
        {"t": (DAYS, f"SELECT q.d AS d, q.k AS k {OF_DAYS}")},
        {"t": (DAYS, f"SELECT q.d AS other, q.d AS d, q.k AS k {OF_DAYS}")},
    ],
    "a key is stored once under another name": [
        {"t": (KEY, f"SELECT q.k AS k, COUNT(*) AS n {OF_DAYS} GROUP BY q.k")},
        {"t": (KEY, f"SELECT q.k AS k, q.k AS z, COUNT(*) AS n {OF_DAYS} GROUP BY q.k")},
    ],
    "which of a key's rows is kept depends on the order of columns": [
        {"t": (KEY, f"SELECT q.k AS k, q.s AS s, q.v AS v {OF_DAYS}")},
        {"t": (KEY, f"SELECT q.k AS k, q.v AS v, q.s AS s {OF_DAYS}")},
    ],
    "which of a key's rows is kept depends on dropped columns": [
        {"t": (KEY, f"SELECT q.k AS k, q.s AS s, q.v AS v {OF_DAYS}")},
        {"t": (KEY, f"SELECT q.k AS k, q.v AS v {OF_DAYS}")},
    ],
    "what is unique within a day is not unique in a table of days": [
        {
            "t": (PER_DAY, f"SELECT MAX(q.d) AS d, q.k AS k {OF_DAYS} GROUP BY q.k"),
            "u": (Full(), "SELECT c.k AS k FROM raw.c AS c"),
        },
        {
            "t": (PER_DAY, f"SELECT MAX(q.d) AS d, q.k AS k {OF_DAYS} GROUP BY q.k"),
            "u": (Full(), "SELECT c.k AS k FROM raw.c AS c LEFT JOIN m.t AS t ON t.k = c.k"),
        },
    ],
    "an inlined star keeps its filter": [
        {
            "t": (View(), "SELECT * FROM raw.c AS q WHERE q.k > 0"),
            "u": (View(), "SELECT DISTINCT * FROM m.t"),
            "v": (Full(), "SELECT u.k AS k, u.x AS x FROM m.u AS u"),
        }
    ],
    "common table expressions of one name in a view and in its reader": [
        {
            "t": (View(), "WITH c AS (SELECT * FROM raw.c WHERE k > 0) SELECT * FROM c"),
            "u": (Full(), "WITH c AS (SELECT k, x FROM m.t WHERE x > 0) SELECT c.k AS k FROM c"),
        }
    ],
    "QUALIFY reads the column of its own source": [
        {
            "t": (
                Full(),
                "SELECT a.k AS k, COUNT(*) OVER (PARTITION BY c.k) AS n FROM raw.a AS a "
                "JOIN raw.c AS c ON a.k = c.x QUALIFY COUNT(*) OVER (PARTITION BY c.k) <= 9",
            )
        }
    ],
}


@pytest.mark.parametrize("case", FOUND)
@pytest.mark.parametrize("seed", range(3))
def test_what_the_oracle_found_stays_right(case: str, seed: int) -> None:
    world = World(random_tables(random.Random(seed)))
    now = FIRST_DAY
    for version in FOUND[case]:
        models = external_models()
        for text, (kind, query) in version.items():
            name = ModelName("m", text)
            model = Model(name, kind, SourceLocation(Path(f"models/{text}.sql"), 1), start=START)
            models[name] = with_query(model, query)
        world.take(Step("prod", models, now))
    now += timedelta(days=1)
    world.take(Step("prod", None, now))
    world.close()


def test_the_oracle_sees_a_table_that_was_wrongly_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(random_tables(random.Random(7)))
    name = ModelName("m", "t0")
    model = Model(name, Full(), SourceLocation(Path("models/t0.sql"), 1), start=START)
    models = {**external_models(), name: with_query(model, "SELECT q.id AS id FROM raw.a AS q")}
    world.take(Step("prod", models, FIRST_DAY))
    before = world.snapshots(models)
    edited = {**models, name: with_query(model, "SELECT q.id + 1 AS id FROM raw.a AS q")}
    unsound = {**before, name: replace(before[name], id="edited", model=edited[name])}
    monkeypatch.setattr(world, "snapshots", lambda models: unsound)
    with pytest.raises(WrongSkipError, match=r"m\.t0 does not show what a rebuild would"):
        world.take(Step("prod", edited, FIRST_DAY))
    world.close()
