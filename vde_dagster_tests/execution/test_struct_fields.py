"""Fields of structs are matched by name, and a plan reports another order of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError, ProjectError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.reports.reasons import describe_change_in_place
from vde_dagster.spark import SparkEngine
from vde_dagster.sql.casts import UnmatchedField, cast_by_name, struct_fields, without_order
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

ROWS = (
    "FROM VALUES (1, DATE '2024-01-01', 'a1', 'b1'), (2, DATE '2024-01-02', 'a2', 'b2') "
    "AS v(id, d, a, b)"
)
STRUCT = "named_struct('x', a, 'y', b)"
OTHER = "named_struct('y', b, 'x', a)"
DAYS = "WHERE d BETWEEN @start_date AND @end_date"


def model(name: str, kind: str, columns: str, more: str = DAYS) -> dict[str, str]:
    text = f"MODEL (name q.{name}, start '2024-01-01', cron '@daily', kind {kind});"
    return {f"models/{name}.sql": f"{text}\nSELECT id, d, {columns}\n{ROWS} {more}"}


BY_TIME = "INCREMENTAL_BY_TIME_RANGE (time_column d, forward_only true)"


class WithStructs(FakeSpark):
    """An engine that has the types of the columns of `CHANGES`."""

    def analyze(
        self, sql: str, before: Sequence[str] = (), after: Sequence[str] = ()
    ) -> tuple[tuple[str, str], ...]:
        struct = "STRUCT<x: STRING, y: STRING>"
        outer = {"array(n": "ARRAY<{}>", "map(": "MAP<STRING, {}>", "struct(n": "STRUCT<i: {}>"}
        query = sql[sql.index("d, ") + 3 :] if "d, " in sql else ""
        outers = (form for word, form in outer.items() if query.lower().startswith(word))
        types = {"id": "INT", "d": "DATE", "st": next(outers, "{}").format(struct)}
        found = super().analyze(sql, before, after)
        return tuple((name, types.get(name, type_)) for name, type_ in found)


PARSED = "from_json(to_json(struct({})), 'x STRING, y STRING') AS st"
CHANGES: list[tuple[str, str, str | None]] = [
    (f"{STRUCT} AS st", f"{OTHER} AS st", "reordered"),
    ("struct(a AS x, b AS y) AS st", "struct(b AS Y, a AS X) AS st", "reordered"),
    (f"array({STRUCT}) AS st", f"array({OTHER}) AS st", "reordered"),
    (f"map('k', {STRUCT}) AS st", f"map('k', {OTHER}) AS st", "reordered"),
    (f"struct({STRUCT} AS i) AS st", f"struct({OTHER} AS i) AS st", "reordered"),
    (f"{STRUCT} AS st", "named_struct('x', upper(a), 'y', b) AS st", None),
    (f"nvl2(struct(a), {STRUCT}, NULL) AS st", f"nvl2(struct(b), {STRUCT}, NULL) AS st", None),
    (PARSED.format("a, b"), PARSED.format("b"), None),
]
NOW = datetime(2024, 1, 2, 1, tzinfo=timezone.utc)


def changed(root: Path, changes: Sequence[tuple[str, str]]) -> ProjectFolder:
    """Return a project whose models changed after their publication: `m0`, `m1`, …"""
    files: dict[str, str] = {}
    for number, (before, _) in enumerate(changes):
        # Equal models would share a table.
        files |= model(f"m{number}", BY_TIME, before, f"{DAYS} AND id < {100 + number}")
    folder = ProjectFolder(root / "p", files)
    with open_fake(folder.root, WithStructs()) as workspace:
        workspace.apply(workspace.plan("prod", now=NOW))
    for number, (before, after) in enumerate(changes):
        folder.edit(f"models/m{number}.sql", before, after)
    return folder


def test_a_plan_reports_another_order_of_a_structs_fields(tmp_path: Path) -> None:
    folder = changed(tmp_path, [(before, after) for before, after, _ in CHANGES])
    with open_fake(folder.root) as workspace:
        plan = workspace.plan("prod", now=NOW)
    in_place = {one.name.name: one.in_place for one in plan.models}
    for number, (before, _, what) in enumerate(CHANGES):
        found = in_place[f"m{number}"]
        assert found is not None
        assert [one.what for one in found.columns] == ([what] if what else []), before
        said = any("matched by name" in text for text in describe_change_in_place(found))
        assert said == (what is not None)


def test_other_fields_of_a_struct_are_a_destructive_change(tmp_path: Path) -> None:
    others = ("'x', a, 'z', b", "'x', a", "'x', a, 'y', b, 'z', b")
    folder = changed(
        tmp_path, [(f"{STRUCT} AS st", f"named_struct({one}) AS st") for one in others]
    )
    for path in (folder.root / "models").glob("*.sql"):
        assert "named_struct" in path.read_text()
    with open_fake(folder.root) as workspace, pytest.raises(ProjectError) as told:
        workspace.plan("prod", now=NOW)
    assert str(told.value).count("to a struct of other fields") == len(others)


def test_types_are_cast_by_name_at_every_depth() -> None:
    wanted = "map<string,array<struct<x:string,y:string>>>"
    has = "map<string,array<struct<y:string,x:string>>>"
    made = cast_by_name("`c`", has, wanted)
    assert "transform_values" in made
    assert without_order(has) == without_order(wanted)
    assert cast_by_name("`c`", wanted, wanted) == f"CAST(`c` AS {wanted})"
    with pytest.raises(UnmatchedField) as told:
        cast_by_name("`c`", "array<struct<z:int>>", "array<struct<x:int>>")
    assert (told.value.field, told.value.known) == ("element.z", ("x",))
    assert "'z'" not in cast_by_name(
        "`c`", "array<struct<z:int>>", "array<struct<x:int>>", strict=False
    )
    assert struct_fields("WITH c AS (SELECT struct(1 AS A) AS s) SELECT * FROM c", "s") == [("a",)]


PYTHON = """
from vde_dagster import model
@model("q.made", columns={"id": "INT", "st": "STRUCT<x: STRING, y: STRING>"})
def execute(context, **more):
    return context.spark.sql("SELECT 1 AS id, named_struct('y', 'b1', 'x', 'a1') AS st")
"""
DECLARED = """
MODEL (name q.declared, kind FULL, columns (id INT, st STRUCT<x: STRING, y: STRING>,
  li ARRAY<STRUCT<x: STRING, n: STRUCT<p: BIGINT, q: INT>>>));
SELECT 1 AS id, named_struct('y', 'b1', 'x', 'a1') AS st,
  array(named_struct('n', named_struct('q', 2, 'p', 1), 'X', 'a1'), NULL) AS li
"""
KINDS = {
    "by_time": BY_TIME,
    "by_key": "INCREMENTAL_BY_UNIQUE_KEY (unique_key id, forward_only true)",
    "by_partition": "INCREMENTAL_BY_PARTITION (forward_only true)",
    "unmanaged": "INCREMENTAL_UNMANAGED (forward_only true)",
    "history": "SCD_TYPE_2_BY_COLUMN (unique_key id, columns [st], forward_only true)",
}


@pytest.mark.spark
def test_fields_in_another_order_keep_their_values_in_every_kind(
    tmp_path: Path, spark_engine: SparkEngine
) -> None:
    nested = "{0} AS st, array({0}, NULL) AS li, map('k', {0}) AS ma, struct({0} AS i) AS deep"
    files = {"models/made.py": PYTHON, "models/declared.sql": DECLARED}
    for name, kind in KINDS.items():
        text = model(name, kind, nested.format(STRUCT), DAYS if name == "by_time" else "")
        if name == "by_partition":
            text = {
                path: sql.replace(");\n", ", partitioned_by (d));\n", 1)
                for path, sql in text.items()
            }
        files |= text
    folder = ProjectFolder(tmp_path / "p", files)

    def publish(day: int) -> None:
        with Workspace.open(folder.root) as workspace:
            now = datetime(2024, 1, day, 1, tzinfo=timezone.utc)
            assert workspace.apply(workspace.plan("prod", now=now)).published

    publish(2)
    for name in KINDS:
        path = f"models/{name}.sql"
        folder.write(path, (folder.root / path).read_text().replace(STRUCT, OTHER))
    publish(3)
    with Workspace.open(folder.root) as workspace:
        workspace.apply(
            workspace.plans.due("prod", now=datetime(2024, 1, 3, 1, tzinfo=timezone.utc))
        )
        parts = (f"SELECT '{name}', id, st, li, ma, deep FROM q.{name}" for name in KINDS)
        rows = workspace.query("prod", " UNION ALL ".join(parts)).rows
        assert {name for name, *_ in rows} == set(KINDS)
        for name, id_, st, li, ma, deep in rows:
            right = {"x": f"a{id_}", "y": f"b{id_}"}
            found: list[Any] = [st, li[0], ma["k"], deep["i"]]
            assert found == [right] * 4, name
            assert li[1] is None
        made = workspace.query("prod", "SELECT st FROM q.made UNION ALL SELECT st FROM q.declared")
        assert made.rows == (({"x": "a1", "y": "b1"},),) * 2
        (((first, last),),) = workspace.query("prod", "SELECT li FROM q.declared").rows
        assert (first, last) == ({"x": "a1", "n": {"p": 1, "q": 2}}, None)
    folder.edit("models/declared.sql", "'x', 'a1') AS st", "'z', 'a1') AS st")
    with (
        Workspace.open(folder.root) as workspace,
        pytest.raises((ExecutionError, VdeError)) as told,
    ):
        workspace.apply(workspace.plan("prod"))
    assert "field 'z'" in str(told.value)
