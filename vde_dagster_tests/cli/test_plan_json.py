"""The documented JSON of plans: others rely on these names."""

from __future__ import annotations

from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.project.loading.loader import project_hash
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import ProjectFolder

PLAN_KEYS = {"id", "environment", "kind", "base_version", "created_at", "models", "views", "empty"}
MODEL_KEYS = {
    "name",
    "change",
    "category",
    "reasons",
    "snapshot",
    "previous_snapshot",
    "table",
    "builds",
    "audits",
    "restate",
    "intervals",
}


def test_a_plan_is_one_object_with_the_documented_names(template: ProjectFolder, vde: Vde) -> None:
    plan = vde("plan", "prod", "--project", template.root, "--json").json
    assert set(plan) >= PLAN_KEYS
    assert plan["environment"] == "prod"
    assert plan["id"].startswith("prod-")
    assert plan["stored"] is True
    models = {model["name"]: model for model in plan["models"]}
    assert list(models) == ["raw.orders", "staging.orders", "marts.daily_revenue"]
    for model in models.values():
        assert set(model) >= MODEL_KEYS
        assert model["change"] == "added"
    daily = models["marts.daily_revenue"]
    assert daily["builds"] is True
    assert daily["intervals"] == [{"start": "2024-01-01T00:00:00Z", "end": "2024-01-08T00:00:00Z"}]
    assert models["staging.orders"]["builds"] is False
    assert models["staging.orders"]["table"] is None
    assert plan["views"] == {
        "created": ["marts.daily_revenue", "raw.orders", "staging.orders"],
        "replaced": [],
        "dropped": [],
    }


def test_a_plan_waits_for_an_approval_only_where_it_is_proposed(
    template: ProjectFolder, vde: Vde
) -> None:
    made = {
        said: vde("plan", "prod", *said, "--project", template.root, "--json").json["id"]
        for said in ((), ("--propose",))
    }
    with Workspace.open(template.root) as workspace:
        plans = {said: workspace.store.plans.load(id_) for said, id_ in made.items()}
    assert plans[()].proposal is None
    proposal = plans[("--propose",)].proposal
    assert proposal is not None
    assert proposal.matches_files(project_hash(template.root))


def test_a_range_limits_the_intervals(template: ProjectFolder, vde: Vde) -> None:
    plan = vde(
        "plan", "prod", "--start", "2024-01-02", "--end", "2024-01-03",
        "--project", template.root, "--json",
    ).json  # fmt: skip
    daily = next(model for model in plan["models"] if model["name"] == "marts.daily_revenue")
    assert daily["intervals"] == [{"start": "2024-01-02T00:00:00Z", "end": "2024-01-04T00:00:00Z"}]


def test_skip_backfill_plans_no_work(template: ProjectFolder, vde: Vde) -> None:
    plan = vde("plan", "prod", "--skip-backfill", "--project", template.root, "--json").json
    assert not any(model["builds"] for model in plan["models"])


def test_progress_and_messages_stay_off_stdout(template: ProjectFolder, vde: Vde) -> None:
    ended = vde("plan", "prod", "--project", template.root, "--json")
    assert ended.out.startswith("{")
    assert ended.out.endswith("}\n")


def test_a_diff_says_what_differs_and_stores_nothing(template: ProjectFolder, vde: Vde) -> None:
    found = vde("diff", "prod", "--project", template.root, "--json").json
    assert found["environment"] == "prod"
    assert {model["change"] for model in found["models"]} == {"added"}
    assert "+MODEL (" in found["models"][0]["diff"]


def test_render_shows_the_query_with_its_times_and_tables(
    template: ProjectFolder, vde: Vde
) -> None:
    shown = vde(
        "render", "marts.daily_revenue", "--start", "2024-01-02", "--end", "2024-01-03",
        "--environment", "Prod", "--project", template.root, "--json",
    ).json  # fmt: skip
    assert (shown["model"], shown["environment"]) == ("marts.daily_revenue", "prod")
    assert "'2024-01-02'" in shown["sql"]
    assert "@" not in shown["sql"]
    assert "vde__raw" in shown["sql"]


def test_render_names_a_model_with_its_default_schema(tmp_path: Path, vde: Vde) -> None:
    folder = ProjectFolder(tmp_path / "shop")
    folder.write("models/orders.sql", "MODEL (name orders, kind FULL); SELECT 1 AS n")
    for how in ((), ("--refresh",)):
        shown = vde("render", "Orders", *how, "--project", folder.root, "--json").json
        assert shown["model"] == "default.orders"


def test_lists_are_empty_before_anything_is_published(template: ProjectFolder, vde: Vde) -> None:
    listed = vde("environments", "--project", template.root, "--json")
    assert listed.json == {"environments": []}
    assert "no environment" in vde("environments", "--project", template.root).out


def test_the_janitor_of_a_new_project_has_nothing_to_do(template: ProjectFolder, vde: Vde) -> None:
    report = vde("janitor", "--dry-run", "--project", template.root, "--json")
    assert report.code == 0
    assert report.json["dry_run"] is True
    assert report.json["failures"] == 0


def test_without_a_name_the_plan_is_for_the_default_environment(
    template: ProjectFolder, vde: Vde
) -> None:
    assert vde("plan", "--project", template.root, "--json").json["environment"] == "prod"
    template.write("pyproject.toml", '[tool.vde.dagster]\ndefault_environment = "dev"\n')
    plan = vde("plan", "--project", template.root, "--json").json
    assert plan["environment"] == "dev"
    rejected = vde("plan", "reject", plan["id"], "--project", template.root, "--json").json
    assert rejected["status"] == "rejected"


def test_a_plan_has_the_texts_that_changed_and_an_exit_code_for_other_programs(
    tmp_path: Path, vde: Vde
) -> None:
    folder = ProjectFolder(
        tmp_path / "shop", {"models/m.sql": "MODEL (name db.m, kind FULL);\nSELECT 1 AS n"}
    )
    asked = ("plan", "prod", "--exit-code", "--project", folder.root)
    assert vde(*asked).code == 3
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    assert vde(*asked).code == 0
    folder.edit("models/m.sql", "1 AS n", "2 AS n")
    plan = vde(*asked, "--format", "json")
    assert plan.code == 3
    (model,) = plan.json["models"]
    changed = [line for line in model["diff"] if line[0] in "+-"]
    assert changed == ["-SELECT 1 AS n", "+SELECT 2 AS n"]
    (model,) = vde(*asked, "--json", "--no-diff").json["models"]
    assert model["diff"] == []
    comment = vde(*asked, "--format", "markdown")
    assert comment.code == 3
    assert "```diff" in comment.out
    assert "+SELECT 2 AS n" in comment.out
    folder.edit("models/m.sql", "SELECT", "SELEC")
    assert vde(*asked).code == 2
    assert vde(*asked, "--format", "json").json["error"]["file"] == "models/m.sql"


def test_two_forms_of_a_plan_at_once_are_a_mistake(template: ProjectFolder, vde: Vde) -> None:
    ended = vde("plan", "prod", "--json", "--format", "markdown", "--project", template.root)
    assert ended.code == 2
    assert ended.json["error"]["message"] == "--json and --format markdown cannot be combined"


def test_a_plan_that_cannot_be_saved_is_one_object(template: ProjectFolder, vde: Vde) -> None:
    path = template.root / "nowhere" / "plan.json"
    ended = vde("plan", "prod", "--project", template.root, "--json", "--save", path)
    assert ended.code == 2
    assert "cannot write" in ended.json["error"]["message"]


def test_an_empty_backfill_computes_nothing(template: ProjectFolder, vde: Vde) -> None:
    out = vde("plan", "prod", "--empty-backfill", "--project", template.root).out
    assert "3 added, nothing to compute, 2 to record as filled" in out
    assert "records as filled 2 models, 8 intervals" in out
    assert "computes" not in out
