"""Two people, two clones of a bare repository, one warehouse: from a pull request to production."""

from __future__ import annotations

import pytest

from vde_dagster_tests.ci.conftest import Team, git
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark_engine")]

CUSTOMERS = "models/marts/customers.sql"


def _rows(vde: Vde, sql: str, environment: str = "prod") -> list[list[object]]:
    done = vde("query", environment, sql, "--json")
    assert done.code == 0, done.err
    rows = done.json["rows"]
    assert isinstance(rows, list)
    return rows


def test_a_pull_request_goes_from_a_check_to_production(
    team: Team, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ProjectFolder(team.folder / "first")
    first.edit(CUSTOMERS, "kind FULL,", "kind FULL, grain customer,")
    team.commit(first, "main")
    monkeypatch.chdir(first.root)
    assert vde("apply", "prod", "--yes").code == 0
    before = _rows(vde, "SELECT customer, revenue FROM marts.customers ORDER BY 1")

    # Anna's check finds rows that an audit refuses; her next push is right.
    anna = team.clone("anna")
    monkeypatch.chdir(anna.root)
    anna.edit(CUSTOMERS, "GROUP BY customer", "GROUP BY customer, day")
    team.commit(anna, "doubled")
    failed = vde("ci", "check", "--pr", 7, "--json")
    assert failed.code == 1, failed.err
    (remark,) = failed.json["annotations"]
    assert (remark["file"], remark["message"]) == (CUSTOMERS, "1 row failed")
    anna.edit(CUSTOMERS, "GROUP BY customer, day", "GROUP BY customer")
    anna.edit(CUSTOMERS, "sum(amount) AS", "sum(amount * 2) AS")
    team.commit(anna, "doubled")
    checked = vde("ci", "check", "--pr", 7, "--json")
    assert checked.code == 0, checked.err
    comment = checked.json["comment"]
    assert "| `marts.customers` | customer | 3 (before 3) | 0 | 0 | 3 of 3 | revenue (3) |" in (
        comment
    )
    doubled = [[customer, 2 * revenue] for customer, revenue in before]  # type: ignore[operator]
    sql = "SELECT customer, revenue FROM marts.customers ORDER BY 1"
    assert _rows(vde, sql, "pr_7") == doubled
    assert _rows(vde, sql) == before

    # Bert merges it; what Anna's check computed is published.
    bert = team.merge("doubled")
    monkeypatch.chdir(bert.root)
    git(bert.root, "fetch", "-q", "origin", "refs/vde/*:refs/vde/*")
    assert git(bert.root, "show", "refs/vde/comments:pr_7.md") == comment.strip()
    deployed = vde("ci", "deploy", "--json")
    assert deployed.code == 0, deployed.err
    assert (deployed.json["outcome"], deployed.json["plan"]) == ("published", checked.json["plan"])
    assert _rows(vde, sql) == doubled
    newest, *_ = vde("history", "prod", "--json").json["versions"]
    assert newest["published_by"] == "pull request 7"
    closed = vde("ci", "close", "--pr", 7, "--json")
    assert closed.json["dropped"]
    assert vde("janitor", "--json").code == 0
    assert vde("query", "pr_7", "SELECT 1").code == 2
    assert _rows(vde, sql) == doubled

    # Somebody pushes without a pull request: production stays until a person has looked.
    bert.edit(CUSTOMERS, "sum(amount * 2)", "sum(amount * 3)")
    team.commit(bert, "main")
    waits = vde("ci", "deploy", "--json")
    assert waits.code == 3, waits.err
    assert _rows(vde, sql) == doubled
    assert vde("apply", "prod", "--plan", waits.json["plan"], "--yes").code == 0
    assert vde("ci", "deploy", "--json").json["outcome"] == "published"
    assert _rows(vde, sql) == [[one, 1.5 * two] for one, two in doubled]  # type: ignore[operator]
