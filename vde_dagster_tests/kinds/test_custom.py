"""Tables that a function of the project writes: found, versioned, called, and held to its rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ExecutionError, ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.kinds import Custom, Kind
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.serialise import from_plain, to_plain
from vde_dagster_tests.projects import ProjectFolder

NAME = ModelName("marts", "kept")
CODE = "materializations/keep.py"
FILES = {
    "models/orders.sql": """
        MODEL (name raw.orders, kind SEED (path '../seeds/orders.csv'),
          columns (customer INT, amount INT, day DATE));
    """,
    "models/kept.sql": """
        MODEL (name marts.kept, start '2024-01-01', end '2024-01-03', cron '@daily',
          kind CUSTOM (materialization 'keep_largest', batch_size 1,
            materialization_properties (keep = 1, by = 'amount', of = ('customer'))));
        SELECT customer, amount, day FROM raw.orders WHERE day BETWEEN @start_date AND @end_date
    """,
    "seeds/orders.csv": """
        customer,amount,day
        1,10,2024-01-01
        1,12,2024-01-02
        1,11,2024-01-03
        2,20,2024-01-02
    """,
    "shared/order.py": """
        def newest_first(rows, by):
            return rows[by].desc()
    """,
    CODE: """
        from pyspark.sql import Window
        from pyspark.sql import functions as f

        from shared.order import newest_first
        from vde_dagster import materialization


        @materialization("keep_largest")
        def write(rows, target):
            every = rows if target.anew else target.read().unionByName(rows)
            told = target.properties
            window = Window.partitionBy(*told["of"]).orderBy(newest_first(every, told["by"]))
            ranked = every.withColumn("n", f.row_number().over(window))
            target.writer(ranked.where(f.col("n") <= told["keep"])).overwrite(f.lit(True))
    """,
}
LARGEST = [(1, 12), (2, 20)]


@pytest.fixture
def folder(tmp_path: Path) -> ProjectFolder:
    return ProjectFolder(tmp_path / "project", FILES)


def snapshot(folder: ProjectFolder) -> Snapshot:
    return build_snapshots(load_project(folder.root).models, lambda name: None)[NAME]


def kept(workspace: Workspace) -> list[tuple[object, ...]]:
    query = "SELECT customer, amount FROM marts.kept ORDER BY 1, 2"
    return [tuple(row) for row in workspace.query("prod", query).rows]


def test_the_code_and_what_it_imports_are_stored_with_the_model(folder: ProjectFolder) -> None:
    kind = load_project(folder.root).models[NAME].kind
    assert isinstance(kind, Custom)
    assert kind.entrypoint == "materializations/keep.py:write"
    assert [path for path, _ in kind.code] == [CODE, "shared/order.py"]
    assert kind.settings == {"by": "amount", "keep": 1, "of": ("customer",)}
    assert from_plain(Kind, to_plain(kind)) == kind


def test_a_python_model_is_written_by_it_too(folder: ProjectFolder) -> None:
    folder.write(
        "models/made.py",
        """
        from vde_dagster import model


        @model("marts.made", columns={"customer": "INT", "amount": "INT"}, kind={
            "name": "CUSTOM", "materialization": "keep_largest",
            "materialization_properties": {"keep": 2, "by": "amount", "of": ["customer"]},
        })
        def execute(context):
            return None
        """,
    )
    kind = load_project(folder.root).models[ModelName("marts", "made")].kind
    assert isinstance(kind, Custom)
    assert kind.settings == {"by": "amount", "keep": 2, "of": ("customer",)}
    assert kind.entrypoint == "materializations/keep.py:write"


def test_what_the_function_does_and_is_told_decides_the_tables_version(
    folder: ProjectFolder,
) -> None:
    first = snapshot(folder)
    folder.edit(CODE, "every = rows if", "# the newest ones\n    every = rows if")
    assert snapshot(folder).fill_version == first.fill_version
    folder.edit("shared/order.py", "desc()", "asc()")
    second = snapshot(folder)
    folder.edit("models/kept.sql", "keep = 1", "keep = 2")
    third = snapshot(folder)
    assert len({one.fill_version for one in (first, second, third)}) == 3


@pytest.mark.parametrize(
    ("path", "old", "new", "message"),
    [
        ("models/kept.sql", "keep_largest", "keep_larges", "'keep_larges', which no file defines"),
        ("models/kept.sql", "materialization 'keep_largest',", "", "requires 'materialization'"),
        ("models/kept.sql", "keep = 1", "keep 1", "does not have the form key = value"),
        (CODE, "from pyspark.sql import Window", "import nowhere", "cannot be imported"),
    ],
)
def test_mistakes_are_told(
    folder: ProjectFolder, path: str, old: str, new: str, message: str
) -> None:
    folder.edit(path, old, new)
    with pytest.raises(ProjectError, match=message) as caught:
        load_project(folder.root)
    assert caught.value.hint or caught.value.location


def test_an_unknown_function_is_told_where_it_is_named(folder: ProjectFolder) -> None:
    folder.edit("models/kept.sql", "keep_largest", "keep_larges")
    with pytest.raises(ProjectError) as caught:
        load_project(folder.root)
    text = (folder.root / "models/kept.sql").read_text()
    line = text[: text.index("keep_larges")].count("\n") + 1
    assert caught.value.location is not None
    assert (caught.value.location.path.name, caught.value.location.line) == ("kept.sql", line)


def test_two_functions_of_one_name_are_a_mistake(folder: ProjectFolder) -> None:
    folder.write("materializations/again.py", FILES[CODE])
    with pytest.raises(ProjectError, match=r"defined in materializations/again[.]py and"):
        load_project(folder.root)


def rows_on_main(workspace: Workspace) -> list[int]:
    """How many rows each physical table of the model has, whoever shows it."""
    engine = workspace.engine()
    store = workspace.store
    with store.database.reading() as connection:
        tables = store.tables.live(connection).values()
    names = [table.ref for table in tables if table.created and "kept" in table.ref.name]
    found = (engine.query(f"SELECT count(*) FROM lakehouse.{ref}")[1] for ref in names)
    return [rows[0][0] for rows in found]


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_it_is_filled_edited_rolled_back_and_restated(folder: ProjectFolder) -> None:
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert kept(workspace) == LARGEST
        assert workspace.plan("prod").is_empty

        folder.edit("models/kept.sql", "keep = 1", "keep = 2")
        folder.edit("models/kept.sql", "customer, amount, day FROM", "customer, day, amount FROM")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        assert kept(workspace) == [(1, 11), *LARGEST]
        workspace.environments.rollback("prod")
        assert kept(workspace) == LARGEST
        workspace.apply(workspace.plan("prod", restate=("marts.kept",)))
        assert kept(workspace) == LARGEST


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "it wrote nothing"),
        (
            "target.writer(rows).append()\n    target.writer(rows).append()",
            "it wrote more than once",
        ),
        ("raise ValueError('not today')", "ValueError: not today"),
        (
            "import re\n    main = re.sub(r'[.]`branch_[^`]+`$', '', target.name)\n"
            "    rows.writeTo(main).append()",
            "main branch, which readers see",
        ),
    ],
)
def test_a_function_that_breaks_the_rule_leaves_nothing_and_is_called_again(
    folder: ProjectFolder, body: str, message: str
) -> None:
    good = (folder.root / CODE).read_text()
    with Workspace.open(folder.root) as workspace:
        folder.edit("models/kept.sql", "end '2024-01-03'", "end '2024-01-01'")
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        start = good.index("    every = ")
        (folder.root / CODE).write_text(good[:start] + f"    {body}\n")
        workspace.reload()
        with pytest.raises(ExecutionError, match=message) as caught:
            workspace.apply(workspace.plan("prod"))
        assert "models/kept.sql:" in str(caught.value) or CODE in str(caught.value)
        assert kept(workspace) == [(1, 10)]
        assert sorted(rows_on_main(workspace)) == [0, 1]
        folder.edit("models/kept.sql", "end '2024-01-01'", "end '2024-01-03'")
        (folder.root / CODE).write_text(good)
        workspace.reload()
        workspace.apply(workspace.plan("prod"))
        workspace.apply(workspace.plans.due("prod"))
        assert kept(workspace) == LARGEST


SQLMESH = """
    from sqlmesh import CustomMaterialization, Model


    class KeepAll(CustomMaterialization):
        NAME = "keep_largest"

        def insert(self, table_name, query_or_df, model: Model, is_first_insert, render_kwargs,
                   **kwargs):
            key = model.custom_materialization_properties["by"]
            rows = query_or_df.where(f"{key} > 10")
            if is_first_insert:
                self._replace_query_for_model(model, table_name, rows, render_kwargs)
            else:
                self.adapter.insert_append(table_name, rows)
"""


def test_a_class_of_sqlmesh_s_is_known_by_its_name(folder: ProjectFolder) -> None:
    folder.write(CODE, SQLMESH)

    kind = load_project(folder.root).models[NAME].kind

    assert isinstance(kind, Custom)
    assert kind.entrypoint == "materializations/keep.py:KeepAll"


@pytest.mark.spark
@pytest.mark.usefixtures("spark_engine")
def test_a_class_of_sqlmesh_s_writes_the_table(folder: ProjectFolder) -> None:
    folder.write(CODE, SQLMESH)
    with Workspace.open(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))

        assert kept(workspace) == [(1, 11), (1, 12), (2, 20)]
