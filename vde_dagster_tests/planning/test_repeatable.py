"""Models that are computed at each slot because of a text that Spark may read as the present."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.planning.kinds.repeatable import DATES_OF_TEXTS, explain_not_repeatable
from vde_dagster.planning.reasons import Reason, ReasonCode
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

SOURCE = """MODEL (name m.source, kind FULL, columns (s STRING, d DATE, ts TIMESTAMP));
SELECT 'a' AS s, DATE '2024-01-01' AS d, TIMESTAMP '2024-01-01 00:00:00' AS ts"""

QUERIES: dict[str, str | None] = {
    "SELECT s FROM m.source WHERE s = 'now'": None,
    "SELECT s FROM m.source WHERE ('today') <> lower(s)": None,
    "SELECT s FROM m.source WHERE s <=> 'now' OR s IN ('yesterday', 'x')": None,
    "SELECT s FROM m.source WHERE s BETWEEN 'now' AND 'today'": None,
    "SELECT CASE WHEN s = 'now' THEN 1 END AS x FROM m.source": None,
    "SELECT count(*) FILTER (WHERE s = 'tomorrow') AS n FROM m.source": None,
    "WITH x AS (SELECT upper(s) AS u FROM m.source) SELECT u FROM x WHERE u = 'NOW'": None,
    "SELECT 'now' AS label FROM m.source": None,
    "SELECT s FROM m.source WHERE d = 'now'": "'now'",
    "SELECT s FROM m.source WHERE s = 'now' AND ts < 'today'": "'now'",
    "SELECT s FROM m.source WHERE d IN ('2024-01-01', 'now')": "'now'",
    "SELECT s FROM m.source WHERE d BETWEEN '2024-01-01' AND 'today'": "'today'",
    "SELECT s FROM m.source WHERE 'now' IN (SELECT d FROM m.source)": "'now'",
    "SELECT s FROM m.source WHERE coalesce(s, 'now') = d": "'now'",
    "SELECT s FROM m.source WHERE CAST('now' AS DATE) > d": "'now'",
    "SELECT 'now' AS x UNION ALL SELECT d FROM m.source": "'now'",
    "SELECT s FROM raw.of_unknown_types WHERE s = 'now'": "'now'",
    "SELECT s, current_date() AS d FROM m.source WHERE s = 'now'": "current_date()",
    "SELECT s FROM m.source WHERE s = 'now' AND d = 'to' || 'day'": DATES_OF_TEXTS,
}
DECLARED = "MODEL (name m.declared, kind FULL, columns (at DATE)); SELECT 'now' AS at"


def test_texts_compared_with_texts_are_no_clock(tmp_path: Path) -> None:
    files = {"models/source.sql": SOURCE, "models/declared.sql": DECLARED}
    for number, query in enumerate(QUERIES):
        files[f"models/q{number}.sql"] = f"MODEL (name m.q{number}, kind FULL); {query}"
    folder = ProjectFolder(tmp_path / "p", files)
    with open_fake(folder.root) as workspace:
        snapshots = {one.name: one for one in workspace.plan("prod").snapshots.values()}

    def expected(clock: str | None) -> Reason | None:
        if clock == DATES_OF_TEXTS:
            return Reason(ReasonCode.DATES_OF_TEXTS)
        return Reason(ReasonCode.READS_CLOCK, detail=clock) if clock else None

    def why(name: str) -> Reason | None:
        return explain_not_repeatable(snapshots[ModelName("m", name)], snapshots)

    assert {query: why(f"q{number}") for number, query in enumerate(QUERIES)} == {
        query: expected(clock) for query, clock in QUERIES.items()
    }
    assert why("declared") == Reason(ReasonCode.READS_CLOCK, detail="'now'")
