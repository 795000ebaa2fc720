"""A Python model depends on the columns that its queries read, where its code shows them all."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.python.literal_queries import literal_queries
from vde_dagster_tests.projects import ProjectFolder

RAIN = "MODEL (name m.rain, kind FULL); SELECT id, a AS month, b AS rain{} FROM lake.t{}"
FILES = {
    "models/rain.sql": RAIN.format("", ""),
    "external_models.yaml": "- name: lake.t\n  columns: {id: INT, a: INT, b: INT, c: INT}\n",
}
MODEL = """
from vde_dagster import model

@model("m.wet", columns={{"month": "INT"}}{more})
def wet(context):
    {body}
"""
READS = 'return context.fetchdf("SELECT month, max(rain) AS rain FROM m.rain GROUP BY month")'


def version(root: Path, body: str, *, more: str = "", added: str = "", where: str = "") -> Snapshot:
    """Return the snapshot of a Python model over a parent with another column or filter."""
    folder = ProjectFolder(root, FILES)
    folder.write("models/rain.sql", RAIN.format(added, where))
    folder.write("models/wet.py", MODEL.format(body=body, more=more))
    return build_snapshots(load_project(folder.root).models, lambda name: None)[
        ModelName("m", "wet")
    ]


SHOWN = [
    READS,
    READS.replace("fetchdf(", "sql(query="),
    READS.replace("context.", "context.engine_adapter."),
    f"context.logger.info('x'); {READS}",
    'return context.spark.createDataFrame(context.fetchdf("SELECT month FROM m.rain"))',
    'frame = context.sql("SELECT r.* FROM (SELECT month, rain FROM m.rain) AS r"); return frame',
]
HIDDEN = [
    'return context.table("m.rain")',
    f"other = context; {READS}",
    f"print(context); {READS}",
    f"locals(); {READS}",
    f'context.resolve_table("m.rain"); {READS}',
    'return context.fetchdf("SELECT * FROM m.rain")',
    'return context.fetchdf("SELECT month FROM m.rain", True)',
    f"context.spark.sql('SELECT 1'); {READS}",
    f"def inner(context): return 1\n    {READS}",
    f'context.fetchdf("SELECT * FROM view_of_the_code"); {READS}',
    f'context.fetchdf("SELECT * FROM range(3)".lower()); {READS}',
]


@pytest.mark.parametrize("body", SHOWN)
def test_a_column_that_no_query_reads_leaves_the_version(tmp_path: Path, body: str) -> None:
    before = version(tmp_path, body)
    assert version(tmp_path, body, added=", c").version == before.version
    assert {read.column for read in before.reads} <= {"month", "rain"}
    assert version(tmp_path, body, where=" WHERE c > 0").version.rows != before.version.rows


@pytest.mark.parametrize("body", HIDDEN)
def test_code_that_may_read_more_depends_on_whole_parents(tmp_path: Path, body: str) -> None:
    more = ', depends_on=["m.rain"]'
    before = version(tmp_path, body, more=more)
    assert version(tmp_path, body, more=more, added=", c").version.rows != before.version.rows


def test_a_decorated_function_may_be_wrapped_by_one_that_reads_more() -> None:
    text = "@model('m.wet')\n{}def run(c):\n    return c.sql('SELECT 1 FROM s.t')"
    assert literal_queries(text.format(""), "run") == ("SELECT 1 FROM s.t",)
    assert literal_queries(text.format("@reads_more\n"), "run") is None
    assert literal_queries(text.format("@functools.wraps(other)\n"), "run") is None


def test_the_order_of_a_querys_columns_is_part_of_the_version(tmp_path: Path) -> None:
    body = 'return context.fetchdf("SELECT * EXCEPT (id) FROM m.rain")'
    folder = ProjectFolder(tmp_path, FILES)
    folder.write("models/wet.py", MODEL.format(body=body, more=""))
    before = build_snapshots(load_project(folder.root).models, lambda name: None)[
        ModelName("m", "wet")
    ]
    folder.edit("models/rain.sql", "a AS month, b AS rain", "b AS rain, a AS month")
    after = build_snapshots(load_project(folder.root).models, lambda name: None)[
        ModelName("m", "wet")
    ]
    assert after.version.rows != before.version.rows


@pytest.mark.parametrize(
    "text",
    [
        "async def run(context): ...",
        "run = print",
        "def run(): ...",
        "def run(c: ",
        "class run: ...",
        "def run(c): ...\ndef run(c): ...",
        "def run(c):\n    return [c for c in (1,)]",
    ],
)
def test_other_code_shows_no_queries(text: str) -> None:
    assert literal_queries(text, "run") is None
