"""Semantic models and metrics of dbt projects, as dbt 1.11 wrote them for MetricFlow."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake

pytestmark = pytest.mark.long

PROJECT = Path(__file__).parent.parent / "fixtures" / "metrics" / "dbt"
SEMANTIC = "target/semantic_manifest.json"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    pytest.importorskip("metricflow")
    return Path(shutil.copytree(PROJECT, tmp_path / "shop"))


def _edit(project: Path, old: str, new: str) -> None:
    path = project / SEMANTIC
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def _reads(project: Path) -> dict[str, set[str]]:
    found = load_project(project).exposures
    return {one.name: {f"{model}.{column}" for model, column, _ in one.reads} for one in found}


@pytest.mark.proof
def test_metrics_of_dbt_are_readers_and_are_asked_by_environment(project: Path, vde: Vde) -> None:
    own, orders = {"main.orders.day", "main.orders.amount"}, {"main.orders.customer"}
    big = {*orders, "main.customers.customer", "main.customers.revenue"}
    assert _reads(project) == {
        "revenue": own,
        "revenue_of_big": {*own, *big},
        "growth": {*own, "main.days.day"},
        "by_size": {"main.orders.amount", *big},
    }
    with open_fake(project) as workspace:
        plan = workspace.plan("dev")
        workspace.apply(plan)
    assert not [one for one in plan.warnings if "metric" in one]
    here = ("--env", "dev", "--sql", "--project", project, "--json")
    sql = vde("metrics", "query", "revenue", "--by", "is_big", *here).json["sql"]
    assert "`lakehouse`.`main__dev`.`orders`" in sql
    assert "`lakehouse`.`main__dev`.`customers`" in sql


def test_a_time_spine_in_its_earlier_form_is_read(project: Path) -> None:
    whole = json.loads((project / SEMANTIC).read_text())
    configuration = whole["project_configuration"]
    location = configuration["time_spines"][0]["node_relation"]["relation_name"]
    configuration["time_spines"] = []
    configuration["time_spine_table_configurations"] = [
        {"location": location, "column_name": "day", "grain": "day"}
    ]
    (project / SEMANTIC).write_text(json.dumps(whole))

    assert _reads(project)["growth"] == {"main.orders.day", "main.orders.amount", "main.days.day"}


def test_expressions_follow_the_dialect_of_the_adapter(project: Path, vde: Vde) -> None:
    _edit(
        project,
        '"expr": "amount"',
        '"expr": "regexp_replace(\\"amount\\"::VARCHAR, \'a\', \'b\')::INT"',
    )
    template = '"where_sql_template": "{{ Dimension(\'buyer__is_big\') }}'
    _edit(project, f'{template}"', f"{template} AND '0.5' ~ '[.]'\"")
    with open_fake(project) as workspace:
        workspace.apply(workspace.plan("dev"))
    here = ("--env", "dev", "--sql", "--project", project, "--json")
    sql = vde("metrics", "query", "revenue_of_big", *here).json["sql"]
    assert "REGEXP_REPLACE(CAST(" in sql
    assert "RLIKE" in sql
    assert "::" not in sql


def test_expression_of_another_dialect_that_is_not_verified_is_refused(project: Path) -> None:
    _edit(project, '"expr": "amount"', '"expr": "hash(amount)"')
    with pytest.raises(
        ProjectError, match=r"semantic_manifest\.json.*'hash\(amount\)' of 'revenue'"
    ):
        load_project(project)

    (project / "pyproject.toml").write_text('[tool.vde]\ndialect_trust = ["hash"]\n')
    assert _reads(project)["revenue"] == {"main.orders.day", "main.orders.amount"}


def test_operator_of_the_adapter_with_another_value_is_refused(project: Path) -> None:
    manifest = project / "target/manifest.json"
    manifest.write_text(manifest.read_text().replace('"duckdb"', '"postgres"'))
    _edit(project, '"expr": "amount"', '"expr": "id / 2"')
    with open_fake(project) as workspace, pytest.raises(ProjectError) as caught:
        workspace.plan("dev")
    assert "the metric 'revenue': on PostgreSQL, a division of integers drops the remainder" in str(
        caught.value
    )
    hints = [one.hint or "" for one in caught.value.mistakes]
    assert all('dialect_trust = ["/"] under [tool.vde]' in one for one in hints)

    (project / "pyproject.toml").write_text('[tool.vde]\ndialect_trust = ["/"]\n')
    with open_fake(project) as workspace:
        assert workspace.plan("dev").models


def test_expression_that_cannot_be_parsed_is_refused(project: Path) -> None:
    _edit(project, '"expr": "amount"', '"expr": "amount -> $1 [ ::"')
    with pytest.raises(ProjectError, match=r"semantic_manifest\.json: the expression 'amount ->"):
        load_project(project)


def test_what_is_no_spark_sql_reads_all_of_its_models(project: Path) -> None:
    manifest = project / "target/manifest.json"
    manifest.write_text(manifest.read_text().replace('"duckdb"', '"spark"'))
    _edit(project, '"expr": "amount"', '"expr": "amount -> $1 [ ::"')
    reads = _reads(project)
    assert reads["revenue"] == {"main.orders.None"}
    assert reads["revenue_of_big"] == {"main.orders.None", "main.customers.None"}


def test_what_is_wrong_is_told_with_the_file(project: Path) -> None:
    _edit(project, '"alias": "orders"', '"alias": "order"')
    with pytest.raises(ProjectError, match=r"semantic_manifest\.json.* reads main\.order, which"):
        load_project(project)
    (project / SEMANTIC).write_text("[1")
    with pytest.raises(ProjectError, match="this is not a semantic manifest of dbt") as raised:
        load_project(project)
    assert raised.value.hint == "run `dbt compile`"


def test_without_the_file_a_warning_counts_metrics_as_before(project: Path) -> None:
    (project / SEMANTIC).unlink()
    (warning, *_) = load_project(project).warnings
    assert "metrics (3); saved queries (1); semantic models (2)" in warning.message
