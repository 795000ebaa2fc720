"""Fields of structs are matched by name, and a plan reports another order of them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.errors import ExecutionError, ProjectError, VdeError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.reports.reasons import describe_change_in_place
from vde_dagster.spark.engine import SparkEngine
from vde_dagster.sql.casts import UnmatchedField, cast_by_name, sort_type_fields, struct_fields
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.long

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
        query = sql.partition(" d, ")[2]
        outers = (form for word, form in outer.items() if query.lower().startswith(word))
        types = {"id": "INT", "d": "DATE", "st": next(outers, "{}").format(struct)}
        if query.startswith("map(struct(a AS x), b)"):
            types["st"] = "MAP<STRUCT<x: STRING>, STRING>"
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


FIELDS = [
    (f"{STRUCT} AS st", "named_struct('x', a, 'y', b, 'z', id) AS st", [("added", "z")]),
    (f"{STRUCT} AS st", "struct(id AS z, b AS y, a AS x) AS st", [("added", "z")]),
    (f"{STRUCT} AS st", "named_struct('x', a) AS st", [("removed", "y")]),
    (f"{STRUCT} AS st", "named_struct('x', id, 'y', b) AS st", [("retyped", "x")]),
    (f"array({STRUCT}) AS st", "array(struct(a AS x)) AS st", [("removed", "element.y")]),
    (
        f"map('k', {STRUCT}) AS st",
        "map('k', struct(a AS x, b AS y, struct(id AS n) AS z)) AS st",
        [("added", "value.z")],
    ),
    (
        f"struct({STRUCT} AS i) AS st",
        "struct(struct(a AS x, b AS z) AS i, 1 AS j) AS st",
        [("removed", "i.y"), ("added", "i.z"), ("added", "j")],
    ),
    (f"{STRUCT} AS st", "WITH c", [("added", "z")]),
]


def test_a_plan_reports_each_field_that_changes(tmp_path: Path) -> None:
    ctes = "named_struct('x', a, 'y', b, 'z', 1) AS st"
    changes = [(before, ctes if "WITH" in after else after) for before, after, _ in FIELDS]
    folder = changed(tmp_path, changes)
    path = folder.root / f"models/m{len(FIELDS) - 1}.sql"
    text = path.read_text()
    head, _, query = text.partition("\nSELECT")
    path.write_text(f"{head}\nWITH c AS (SELECT{query}) SELECT * FROM c")
    with open_fake(folder.root) as workspace:
        with pytest.raises(ProjectError) as told:
            workspace.plan("prod", now=NOW)
        assert str(told.value).count("the setting on_destructive_change of its kind forbids") == 4
        assert "field st.element.y STRING is no longer shown or filled" in str(told.value)
        allowed = PlanOptions(allow_destructive=("q.*",))
        plan = workspace.plan("prod", allowed, now=NOW)
    in_place = {one.name.name: one.in_place for one in plan.models}
    for number, (before, _, fields) in enumerate(FIELDS):
        found = in_place[f"m{number}"]
        assert found is not None
        assert [(one.what, one.field) for one in found.columns] == fields, before


def test_a_field_of_unknown_type_is_refused(tmp_path: Path) -> None:
    after = "named_struct('x', a, 'y', b, 'z', from_json(b, 'k INT')) AS st"
    folder = changed(tmp_path, [(f"{STRUCT} AS st", after)])
    with open_fake(folder.root) as workspace, pytest.raises(ProjectError) as told:
        workspace.plan("prod", now=NOW)
    assert "to a struct with other fields" in str(told.value)
    assert "declare the column's type" in str(told.value)


def test_keys_of_maps_get_no_fields_in_place(tmp_path: Path) -> None:
    folder = changed(
        tmp_path, [("map(struct(a AS x), b) AS st", "map(struct(a AS x, b AS y), b) AS st")]
    )
    with open_fake(folder.root) as workspace, pytest.raises(ProjectError) as told:
        workspace.plan("prod", now=NOW)
    assert "column st changes its type from MAP<STRUCT<x: STRING>" in str(told.value)


def test_types_are_cast_by_name_at_every_depth() -> None:
    wanted = "map<string,array<struct<x:string,y:string>>>"
    has = "map<string,array<struct<y:string,x:string>>>"
    made = cast_by_name("`c`", has, wanted)
    assert "transform_values" in made
    assert sort_type_fields(has) == sort_type_fields(wanted)
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


MORE = "named_struct('y', b, 'x', a, 'z', id)"


@pytest.mark.spark
def test_fields_are_added_and_dropped_in_place_in_every_kind(
    tmp_path: Path, spark_engine: SparkEngine
) -> None:
    nested = "{0} AS st, array({0}, NULL) AS li, map('k', {0}) AS ma, struct({0} AS i) AS deep"
    files = {
        "models/whole.sql": "MODEL (name q.whole, kind VIEW);\nSELECT id, st, li FROM q.by_time",
        "models/part.sql": "MODEL (name q.part, kind FULL);\nSELECT id, st.x AS x FROM q.by_time",
    }
    for name, kind in KINDS.items():
        text = model(name, kind, nested.format(STRUCT), DAYS if name == "by_time" else "")
        if name == "by_partition":
            text = {p: t.replace(");\n", ", partitioned_by (d));\n", 1) for p, t in text.items()}
        files |= text
    folder = ProjectFolder(tmp_path / "p", files)
    old, new = {"x": "a1", "y": "b1"}, {"x": "a1", "y": "b1", "z": 1}

    def replace_all(before: str, after: str) -> None:
        for name in KINDS:
            path = f"models/{name}.sql"
            folder.write(path, (folder.root / path).read_text().replace(before, after))

    def rows(workspace: Workspace, environment: str, name: str) -> list[Any]:
        current = " WHERE valid_to IS NULL" if name == "history" else ""
        asked = f"SELECT id, st, li, ma, deep FROM q.{name}{current} ORDER BY id"
        return list(workspace.query(environment, asked).rows)

    def structs(found: Any) -> list[Any]:
        _, st, li, ma, deep = found
        assert li[1] is None
        return [st, li[0], ma["k"], deep["i"]]

    def apply(environment: str, day: int, **options: Any) -> Any:
        with Workspace.open(folder.root) as workspace:
            now = datetime(2024, 1, day, 1, tzinfo=timezone.utc)
            plan = workspace.plan(environment, PlanOptions(**options), now=now)
            assert workspace.apply(plan).published
            return {one.name.name: one for one in plan.models}

    apply("prod", 2)
    replace_all(STRUCT, MORE)
    models = apply("dev", 2)
    assert models["part"].table is not None
    assert not models["part"].intervals, "it reads one field alone, which did not change"
    with Workspace.open(folder.root) as workspace:
        for name in KINDS:
            shown = "q.by_time" if name == "by_time" else f"q.{name}"
            catalog = workspace.settings.catalog
            _, seen = workspace.engine().query(f"SELECT st FROM {catalog}.{shown} WHERE id = 1")
            assert seen == ((old,),), "production's published view has no other field"
            assert structs(rows(workspace, "prod", name)[0]) == [old] * 4, name
            filled = name in ("by_time", "by_key", "by_partition", "history")
            wanted = new if filled else {**old, "z": None}
            assert structs(rows(workspace, "dev", name)[0]) == [wanted] * 4, name
        whole = "SELECT st, li[0] FROM q.whole WHERE id = 1"
        assert workspace.query("prod", whole).rows == ((old, old),)
        assert workspace.query("dev", whole).rows == ((new, new),)
    apply("prod", 2)
    with Workspace.open(folder.root) as workspace:
        now = datetime(2024, 1, 3, 1, tzinfo=timezone.utc)
        workspace.apply(workspace.plans.due("prod", now=now))
        first, second = rows(workspace, "prod", "by_time")
        assert structs(first) == [{**old, "z": None}] * 4
        assert structs(second) == [{"x": "a2", "y": "b2", "z": 2}] * 4
        for name in ("by_key", "by_partition", "history"):
            assert structs(rows(workspace, "prod", name)[0]) == [new] * 4, name
        asked = workspace.query("prod", "SELECT count(*) FROM q.history")
        assert asked.rows == ((4,),), "each key got one version with the field"
    replace_all(MORE, "named_struct('x', a, 'z', CAST(id AS STRING))")
    apply("prod", 3, allow_destructive=("q.*",))
    with Workspace.open(folder.root) as workspace:
        now = datetime(2024, 1, 4, 1, tzinfo=timezone.utc)
        workspace.apply(workspace.plans.due("prod", now=now))
        assert structs(rows(workspace, "prod", "by_time")[1]) == [{"x": "a2", "z": None}] * 4
        assert structs(rows(workspace, "prod", "by_key")[1]) == [{"x": "a2", "z": "2"}] * 4
        published = workspace.store.environments.get("prod")
        assert published is not None
        workspace.environments.rollback("prod", published.version - 2)
        assert (
            structs(rows(workspace, "prod", "by_time")[1]) == [{"x": "a2", "y": "b2", "z": 2}] * 4
        )
