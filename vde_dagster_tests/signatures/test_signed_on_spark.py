"""Review, signature and deployment by the command line on real Spark, in two clones."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from vde_dagster.cli.commands.project import new_project
from vde_dagster.spark.engine import SparkEngine
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.spark

REVENUE = "SELECT sum(revenue) AS revenue FROM marts.daily_revenue"


def test_what_a_reviewer_read_and_a_job_signed_is_what_production_applies(
    tmp_path: Path, vde: Vde, spark_engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_project(tmp_path / "production")
    production = ProjectFolder(tmp_path / "production")
    made = vde("keys", "make", "deploy", "--to", tmp_path / "deploy.pem", "--json").json
    with (production.root / "pyproject.toml").open("a") as settings:
        settings.write(
            f'''
            [tool.vde.signatures]
            trusted = {{ deploy = "{made["public"]}" }}
            required = {{ prod = 1 }}
            '''
        )
    # The template's settings end with the table [tool.vde].
    monkeypatch.setenv("VDE_STATE_URL", f"sqlite:///{tmp_path}/state.db")
    monkeypatch.setenv("VDE_WAREHOUSE", f"{tmp_path}/warehouse")
    reviewer = ProjectFolder(tmp_path / "reviewer")
    shutil.copytree(production.root, reviewer.root, dirs_exist_ok=True)
    file = tmp_path / "plan.json"

    def deployed() -> str:
        planned = vde("plan", "prod", "--save", file, "--exit-code", "--project", reviewer.root)
        assert planned.code == 3, planned.err
        unsigned = vde("apply", "prod", "--plan", file, "--project", production.root)
        assert unsigned.code == 2
        assert "requires 1 signature" in unsigned.err
        signed = ("plan", "sign", file, "--key", tmp_path / "deploy.pem")
        assert vde(*signed, "--project", reviewer.root).code == 0
        done = vde("apply", "prod", "--plan", file, "--project", production.root)
        assert done.code == 0, done.err
        found = vde("query", "prod", REVENUE, "--project", production.root, "--json")
        return str(found.json["rows"][0][0])

    before = deployed()
    model = next((reviewer.root / "models/marts").glob("*.sql"))
    reviewer.edit(str(model.relative_to(reviewer.root)), "SUM(amount)", "2 * SUM(amount)")
    assert float(deployed()) == 2 * float(before)
    history = vde("history", "prod", "--project", production.root, "--json").json["versions"]
    assert [one["attached"] for one in history] == ["signed by deploy"] * 2
