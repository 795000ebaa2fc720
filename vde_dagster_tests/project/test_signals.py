"""Signals, and what else says when: read from SQL and Python models, and stored with them."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import from_bytes, to_bytes
from vde_dagster_tests.projects import ProjectFolder

FILES = {
    "signals/ready.py": """
        import helpers
        from vde_dagster import signal

        @signal()
        def ready(batch, yes):
            return helpers.same(yes)
    """,
    "helpers.py": """
        def same(value):
            return value
    """,
    "models/sums.sql": """
        MODEL (name m.sums, start '1 week ago', end yesterday, cron_tz 'Europe/Berlin',
          interval_unit hour, signals (ready(yes := true)), columns (at TIMESTAMP, x INT),
          kind INCREMENTAL_BY_TIME_RANGE (time_column at));
        SELECT e.at, e.x + COALESCE(s.x, 0) AS x FROM lake.events AS e
        LEFT JOIN m.sums AS s ON s.at < e.at
    """,
    "models/whole.py": """
        from vde_dagster import model

        @model("m.whole", kind="FULL", columns={"x": "INT"}, signals=[("ready", {"yes": True})])
        def whole(context, **kwargs):
            return context.table("m.sums")
    """,
}
SUMS, WHOLE = ModelName("m", "sums"), ModelName("m", "whole")


def test_models_in_sql_and_python_name_signals_and_keep_their_code(tmp_path: Path) -> None:
    models = load_project(ProjectFolder(tmp_path / "project", FILES).root).models
    for name in (SUMS, WHOLE):
        (signal,) = models[name].signals
        assert (signal.name, signal.arguments) == ("ready", (("yes", True),))
        assert sorted(signal.python.files) == ["helpers.py", "signals/ready.py"]
    assert models[SUMS].reads_itself
    assert SUMS not in models[SUMS].depends_on
    assert not models[WHOLE].reads_itself


def test_what_says_when_survives_the_state_store(tmp_path: Path) -> None:
    models = load_project(ProjectFolder(tmp_path / "project", FILES).root).models
    for model in models.values():
        assert from_bytes(Model, to_bytes(model)) == model


def test_a_module_that_a_signal_imports_is_a_part_of_it(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "project", FILES)
    before = load_project(folder.root).models
    folder.edit("helpers.py", "return value", "return not value")
    after = load_project(folder.root).models
    assert before[SUMS].signals != after[SUMS].signals
    assert before[WHOLE].signals != after[WHOLE].signals
