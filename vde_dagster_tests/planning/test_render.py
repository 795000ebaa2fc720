"""From a model's query to what Spark runs: names of tables change, and no other word."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.engine_tasks import AuditResult, AuditTask, FillResult, FillTask
from vde_dagster.planning.rendering.render import replace_tables
from vde_dagster.project.table_names import TableNames
from vde_dagster_tests.corpora import each_of
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.project.test_query_text import QUERIES
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.yaml_files import read_yaml

FIXTURES = Path(__file__).parents[1] / "fixtures" / "semantics"
TABLE = "SELECT * FROM `lake`.`p`.`t1`"
CASES = read_yaml(FIXTURES.parent / "rendering" / "queries.yaml")
QUERY = "SELECT `x` AS `a` FROM `lake`.`p`.`t1`"
PHYSICAL = "`lake`.`p`.`t1`"


def _queries() -> list[str]:
    found = list(QUERIES)
    for name in ("same.yaml", "spark_differs.yaml", "rows.yaml"):
        for cases in read_yaml(FIXTURES / name).values():
            found += [text for case in cases for text in case[:2]]
    return [text for text in dict.fromkeys(found) if "QUALIFY" not in text]


def _replaced(query: str, relation: str) -> str:
    known = ("d", "e", "main")
    return replace_tables(query, lambda name: relation if name.namespace in known else None)


@each_of("query", _queries())
def test_no_word_changes_where_no_table_is_replaced(query: str) -> None:
    assert replace_tables(query, lambda name: None) == query


@each_of("query, of_a_table, of_a_query", CASES["relations"])
def test_a_relation_takes_the_place_of_a_table(
    query: str, of_a_table: str | None, of_a_query: str | None
) -> None:
    for relation, expected in ((TABLE, of_a_table), (QUERY, of_a_query)):
        if expected is None:
            continue
        found = _replaced(query, relation).partition(" FROM ")[2]
        begin, _, cut = expected.format(PHYSICAL, QUERY).partition("…")
        assert found.startswith(begin)
        assert cut or "…" in expected or found == begin


@each_of("query, found", CASES["names"])
def test_names_mean_what_they_meant(query: str, found: str) -> None:
    assert _replaced(query, TABLE) == found.format(PHYSICAL)


def test_tables_of_other_catalogs_are_not_those_of_the_same_name() -> None:
    def views(name: ModelName) -> str | None:
        return f"SELECT * FROM `{name}`" if name.namespace in ("d", "crm__d") else None

    found = replace_tables(
        "SELECT * FROM lake.d.t AS a, crm.d.t AS b, other.d.t AS c, d.t.snapshots AS e",
        views,
        TableNames("lake", "default", {"crm": "CRM"}),
    )

    assert found == (
        "SELECT * FROM `d.t` AS a, `crm__d.t` AS b, other.d.t AS c, d.t.snapshots AS e"
    )


def test_a_model_has_no_earlier_versions() -> None:
    with pytest.raises(UsageError, match="as of an earlier version"):
        _replaced("SELECT a FROM d.t VERSION AS OF 3", QUERY)


@each_of("query, rewritten", CASES["qualify"])
def test_qualify_becomes_a_filter_over_a_subquery(query: str, rewritten: str) -> None:
    assert replace_tables(query, lambda name: None) == rewritten


def test_names_with_dots_and_quotes_are_found() -> None:
    seen: list[ModelName] = []
    replace_tables("SELECT a FROM `d`.`odd.name`, d.`o``clock`", lambda name: seen.append(name))

    assert [name.name for name in seen] == ["odd.name", "o`clock"]


RANGED = "start '2024-01-01', end '2024-01-01', kind INCREMENTAL_BY_TIME_RANGE (time_column day)"
READERS = {
    "query.sql": f"MODEL (name m.query, {RANGED}); SELECT day FROM m.part WHERE day <= @end_date",
    "jinja.sql": f"MODEL (name m.jinja, {RANGED}); JINJA_QUERY_BEGIN; SELECT day FROM m.part "
    "WHERE day <= '{{ end_ds }}' JINJA_END;",
    "view.sql": f"""MODEL (name m.view, {RANGED});
        CREATE TEMP VIEW some AS SELECT day FROM m.part;
        SELECT day FROM some WHERE day <= @end_date""",
    "audited.sql": f"""MODEL (name m.audited, {RANGED}, audits (all_known));
        SELECT DATE '2024-01-01' AS day, @start_date AS a, @end_date AS b;
        AUDIT (name all_known); SELECT * FROM @this_model EXCEPT SELECT day, a, b FROM m.part""",
    "code.py": """
        from vde_dagster import model
        @model("m.code", kind={"name": "INCREMENTAL_BY_TIME_RANGE", "time_column": "day"},
               start="2024-01-01", end="2024-01-01", columns={"day": "date"})
        def rows(context):
            return context.table("m.part")
        """,
}


@pytest.mark.parametrize("reader", READERS)
def test_a_query_that_is_taken_in_has_its_readers_interval(tmp_path: Path, reader: str) -> None:
    part = """
        MODEL (name m.part, kind EMBEDDED);
        SELECT d AS day, d AS a, d AS b FROM (SELECT @start_date AS d) WHERE d <= @execution_date
        """
    files = {"models/part.sql": part, f"models/{reader}": READERS[reader]}
    asked: list[str] = []

    class ServerOptions(FakeSpark):
        def fill(self, task: FillTask) -> FillResult:
            asked.extend([task.query or "", *task.before, *task.sources.values()])
            return super().fill(task)

        def audit(self, task: AuditTask) -> AuditResult:
            asked.append(task.query)
            return super().audit(task)

    with open_fake(ProjectFolder(tmp_path, files).root, ServerOptions()) as workspace:
        workspace.apply(workspace.plan("prod"))

    text = "\n".join(asked)
    assert "SELECT CAST('2024-01-01' AS DATE) AS d" in text
    assert "@" not in text
