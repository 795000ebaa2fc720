"""Commands that show the project: its graph, where columns come from, what environments have."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from vde_dagster.base.names import ModelName
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import VIEW, Swap
from vde_dagster.lakehouse.metadata.view_metadata import new_view_metadata
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.planning.tables.table import TableRef
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.projects import SHOP, Prepared, ProjectFolder
from vde_dagster_tests.state.builders import view


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """Five models, nothing published."""
    return ProjectFolder(tmp_path / "shop", SHOP)


@pytest.fixture
def published_shop(prepared: Prepared) -> ProjectFolder:
    """The same, published to production without Spark."""
    return prepared(publish_shop)


DAG = """\
raw.orders  SEED
└─ staging.orders  VIEW
   ├─ marts.customers  FULL
   │  └─ marts.top  FULL
   └─ marts.daily  INCREMENTAL_BY_TIME_RANGE
"""


def test_the_graph_is_a_tree_and_json_and_a_flowchart(shop: ProjectFolder, vde: Vde) -> None:
    assert vde("dag", "--project", shop.root).out == DAG
    models = {m["name"]: m for m in vde("dag", "--project", shop.root, "--json").json["models"]}
    assert models["staging.orders"]["parents"] == ["raw.orders"]
    assert models["staging.orders"]["children"] == ["marts.customers", "marts.daily"]
    part = vde("dag", "+marts.top", "--project", shop.root).out
    assert "marts.customers" in part
    assert "marts.daily" not in part
    flowchart = vde("dag", "--mermaid", "--project", shop.root).out
    assert flowchart.startswith("flowchart LR\n")
    assert flowchart.count(" --> ") == 4


def test_a_model_with_two_parents_has_its_readers_in_the_tree_once(
    shop: ProjectFolder, vde: Vde
) -> None:
    shop.write(
        "models/both.sql",
        "MODEL (name marts.both); SELECT 1 AS a FROM raw.orders, staging.orders",
    )
    shop.write("models/last.sql", "MODEL (name marts.last); SELECT a FROM marts.both")
    shown = vde("dag", "--project", shop.root).out
    assert shown.count("marts.last") == 1
    assert shown.count("marts.both  VIEW …") == 1


def test_lineage_against_an_environment_is_what_differs(
    published_shop: ProjectFolder, vde: Vde
) -> None:
    words = ("lineage", "marts.top", "--against", "prod", "--project", published_shop.root)
    assert vde(*words).out == "no differences from prod@1\n"
    published_shop.edit("models/marts/customers.sql", "sum(amount)", "max(amount + id)")
    found = vde(*words, "--json").json
    assert found["against"] == "prod@1"
    assert [(one["model"], one["from_column"], one["how"]) for one in found["new"]] == [
        ("marts.customers", "id", "aggregation"),
        ("staging.orders", "id", "identity"),
    ]
    assert found["gone"] == []
    changed = {(one["model"], one["column"]) for one in found["changed"]}
    assert {("marts.customers", "revenue"), ("marts.top", "revenue")} <= changed
    assert {model for model, _ in changed} == {"marts.customers", "marts.top"}
    assert ("marts.top", "customer") not in changed
    down = ("lineage", "staging.orders.id", "--down", "--against", "prod@1")
    lines = vde(*down, "--project", published_shop.root).out.splitlines()
    assert "new: marts.customers.revenue <- staging.orders.id  aggregation" in lines
    both = vde(*words, "--impact")
    assert (both.code, "cannot be combined" in both.err) == (2, True)


def test_lineage_of_an_environment_and_between_two_is_asked_without_the_files(
    published_shop: ProjectFolder, vde: Vde
) -> None:
    root = published_shop.root
    published_shop.edit("models/marts/customers.sql", "sum(amount)", "max(amount + id)")
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("dev"))
    of_files = vde("lineage", "marts.top", "--against", "prod", "--project", root, "--json").json
    published_shop.write("models/marts/customers.sql", "this is no model")
    words = ("lineage", "marts.top", "--env", "dev", "--project", root)
    between = vde(*words, "--against", "prod@1", "--json").json
    assert (of_files.pop("of"), between.pop("of")) == (None, "dev@1")
    assert between == of_files
    assert ("marts.customers", "id") in {
        (one["model"], one["from_column"]) for one in between["new"]
    }
    assert vde(*words, "--against", "dev").out == "no differences from dev@1\n"
    back = vde(*words[:2], "--env", "prod", "--against", "dev", "--project", root, "--json").json
    assert back["gone"] == between["new"]
    column = ("lineage", "marts.top.revenue", "--project", root)
    assert "staging.orders.id  aggregation" in vde(*column, "--env", "dev@1").out
    assert "staging.orders.id" not in vde(*column, "--env", "prod").out
    unknown = vde("lineage", "marts.tops", "--env", "dev", "--project", root)
    assert (unknown.code, "did you mean 'marts.top'?" in unknown.err) == (2, True)


def test_a_column_is_followed_to_where_it_comes_from(shop: ProjectFolder, vde: Vde) -> None:
    assert vde("lineage", "marts.top.revenue", "--project", shop.root).out == (
        "marts.top.revenue\n"
        "└─ marts.customers.revenue  identity\n"
        "   └─ staging.orders.amount  aggregation\n"
        "      └─ raw.orders.amount  identity\n"
    )
    found = vde("lineage", "marts.daily", "--project", shop.root, "--json").json
    assert {"model": "staging.orders", "column": "day", "from_model": "raw.orders"}.items() <= next(
        flow for flow in found["flows"] if flow["model"] == "staging.orders"
    ).items()
    rows = [flow for flow in found["flows"] if flow["column"] is None]
    assert {(flow["from_column"], flow["how"]) for flow in rows} == {
        ("day", "filter"),
        ("day", "group"),
    }


def test_what_is_made_of_a_column_is_followed_down(shop: ProjectFolder, vde: Vde) -> None:
    found = vde("lineage", "raw.orders.amount", "--down", "--project", shop.root, "--json").json
    assert {(flow["model"], flow["column"]) for flow in found["flows"]} == {
        ("staging.orders", "amount"),
        ("marts.daily", "revenue"),
        ("marts.customers", "revenue"),
        ("marts.top", "revenue"),
        ("marts.top", "place"),
    }


def test_what_would_follow_from_a_column_is_told_of_models_and_those_who_read_them(
    shop: ProjectFolder, vde: Vde
) -> None:
    shop.write("exposures.yaml", "- {name: Sales, reads: [marts.top]}")
    words = ("lineage", "raw.orders.amount", "--impact", "--project", shop.root)
    assert vde(*words).out == (
        "staging.orders (a view): amount\n"
        "marts.customers: revenue\n"
        "marts.daily: revenue\n"
        "marts.top: revenue, place\n"
        "Sales: reads changed values\n"
    )
    found = vde(*words, "--json").json
    assert found["exposures"] == ["Sales"]
    assert found["models"][0] == {
        "model": "staging.orders",
        "columns": ["amount"],
        "rows": False,
        "has_table": False,
    }
    said = vde("lineage", "raw.orders", "--impact", "--project", shop.root)
    assert said.code == 2
    assert "vde lineage raw.orders.id --impact" in said.err


@pytest.mark.parametrize(
    ("arguments", "said", "hint"),
    [
        (["lineage", "marts.dayly"], "model 'marts.dayly' does not exist", "marts.daily"),
        (["lineage", "marts.daily.revenu"], "has no column 'revenu'", "revenue"),
        (["dag", "marts.nothing"], "no model matches 'marts.nothing'", ""),
        (["lint", "marts.nothing", "--rule", "all"], "no model matches", ""),
        (["table-name", "marts.top"], "environment 'prod' does not exist", "vde apply prod"),
        (["check-intervals", "prod"], "environment 'prod' does not exist", "vde apply prod"),
        (["diff", "dev", "prod"], "environment 'dev' does not exist", "vde apply dev"),
    ],
)
def test_what_is_not_there_is_one_message_with_a_hint(
    arguments: list[str], said: str, hint: str, shop: ProjectFolder, vde: Vde
) -> None:
    ended = vde(*arguments, "--project", shop.root, "--json")
    assert ended.code == 2
    assert said in ended.json["error"]["message"]
    assert hint in ended.json["error"]["hint"]


def test_the_table_of_a_model_is_named_as_an_environment_shows_it(
    published_shop: ProjectFolder, vde: Vde
) -> None:
    found = vde("table-name", "marts.top", "--project", published_shop.root, "--json").json
    assert found["view"] == "`lakehouse`.`marts`.`top`"
    assert found["table"].startswith("`lakehouse`.`vde__marts`.`top__")
    assert vde("table-name", "marts.top", "--project", published_shop.root).out == (
        found["table"] + "\n"
    )
    view = vde("table-name", "staging.orders", "--project", published_shop.root, "--json").json
    assert (view["table"], view["view"]) == (None, "`lakehouse`.`staging`.`orders`")
    missing = vde("table-name", "marts.tip", "--project", published_shop.root, "--json")
    assert missing.code == 2
    assert "marts.top" in missing.json["error"]["hint"]


def test_one_environment_is_compared_with_another(published_shop: ProjectFolder, vde: Vde) -> None:
    shop = published_shop
    shop.edit("models/marts/top.sql", "revenue, rank()", "rank()")
    shop.write("models/new.sql", "MODEL (name marts.new, kind FULL); SELECT 1 AS one")
    shop.remove("models/marts/daily.sql")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
    found = vde("diff", "dev", "prod", "--project", shop.root, "--json").json
    assert {m["name"]: m["change"] for m in found["models"]} == {
        "marts.daily": "removed",
        "marts.new": "added",
        "marts.top": "modified",
    }
    top = next(m for m in found["models"] if m["name"] == "marts.top")
    assert top["columns"] == {"added": [], "removed": ["revenue"], "changed": []}
    assert any(line.startswith("-") and "revenue, rank()" in line for line in top["diff"])
    shown = vde("diff", "dev", "prod", "--project", shop.root).out
    assert shown.startswith("dev, compared with prod:\n")
    assert "columns removed: revenue" in shown
    same = vde("diff", "prod", "prod", "--project", shop.root)
    assert same.out == "prod equals prod\n"


def test_missing_intervals_are_listed_by_model(shop: ProjectFolder, vde: Vde) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod", skip_backfill=True))
    found = vde("check-intervals", "prod", "marts.daily", "--project", shop.root, "--json").json
    assert found["models"] == [
        {
            "name": "marts.daily",
            "filled_by": "prod",
            "count": 5,
            "intervals": [{"start": "2024-01-01T00:00:00Z", "end": "2024-01-06T00:00:00Z"}],
        }
    ]
    assert "2024-01-06 00:00" in vde("check-intervals", "prod", "--project", shop.root).out


def test_caches_are_deleted_and_nothing_else(published_shop: ProjectFolder, vde: Vde) -> None:
    root = published_shop.root
    vde("dag", "--project", root)
    assert any((root / ".vde/cache").iterdir())
    cleaned = vde("clean", "--project", root, "--json").json
    assert cleaned["bytes"] > 0
    assert all(path.startswith(".vde/cache/") for path in cleaned["files"])
    assert not (root / ".vde/cache").exists()
    assert vde("diff", "prod", "--project", root, "--json").json["models"] == []
    assert vde("clean", "--project", root).code == 0


EXTERNAL = "MODEL (name marts.reader); SELECT * FROM crm.people, crm.gone"


def _make_people(shop: ProjectFolder, as_view: bool = False) -> None:
    columns = (("id", "BIGINT", None), ("name", "STRING", None))
    with Workspace.open(shop.root) as workspace:
        location = f"{workspace.lakehouse.warehouse}/crm/people"
        if as_view:
            theirs = view("people", "SELECT * FROM sap.p", namespace="crm", columns=columns)
            made = new_view_metadata(theirs, None, location, 1)
            file = shop.write("people.metadata.json", json.dumps(made))
            workspace.lakehouse.catalog.create_namespaces({"crm": {}})
            swap = Swap(TableRef("crm", "people"), VIEW, None, str(file))
            workspace.lakehouse.catalog.swap([swap])
            return
        workspace.lakehouse.create_table(NewTable(TableRef("crm", "people"), columns, location, {}))


@pytest.mark.parametrize("as_view", [False, True], ids=["table", "view"])
def test_tables_and_views_of_others_are_declared_from_the_catalog_and_have_their_columns(
    shop: ProjectFolder, vde: Vde, as_view: bool
) -> None:
    shop.write("models/reader.sql", EXTERNAL)
    shop.write("models/all.sql", "MODEL (name marts.all, kind VIEW); SELECT * FROM crm.people")
    shop.write("external_models.yaml", "# ours\n- name: crm.known\n  columns: {id: INT}")
    _make_people(shop, as_view)
    with Workspace.open(shop.root) as workspace:
        read = workspace.snapshots()[ModelName("marts", "all")]
    assert [(c.name, c.type) for c in read.columns] == [("id", "BIGINT"), ("name", "STRING")]
    shown = vde("create-external-models", "--dry-run", "--project", shop.root)
    assert shown.out == "would declare crm.people with 2 columns\n"
    assert "crm.gone is not in the project's catalog" in shown.err
    assert "people" not in (shop.root / "external_models.yaml").read_text()
    done = vde("create-external-models", "--project", shop.root, "--json").json
    assert done["absent"] == ["crm.gone"]
    text = (shop.root / "external_models.yaml").read_text()
    assert text.startswith("# ours\n- name: crm.known\n")
    assert yaml.safe_load(text)[1] == {
        "name": "crm.people",
        "columns": {"id": "BIGINT", "name": "STRING"},
    }
    again = vde("create-external-models", "--project", shop.root, "--json").json
    assert again["added"] == []
    with Workspace.open(shop.root) as workspace:
        assert workspace.project.models[ModelName("crm", "people")].columns


def test_a_file_that_cannot_be_added_to_stays_as_it_is(shop: ProjectFolder, vde: Vde) -> None:
    shop.write("models/reader.sql", EXTERNAL)
    file = shop.write("external_models.yaml", "[{name: crm.known}]")
    _make_people(shop)
    ended = vde("create-external-models", "--project", shop.root, "--json")
    assert ended.code == 2
    assert ended.json["error"]["file"] == "external_models.yaml"
    assert file.read_text() == "[{name: crm.known}]\n"


@pytest.mark.proof
def test_nothing_heavy_is_imported_for_a_project_as_it_was(
    published_shop: ProjectFolder, vde: Vde
) -> None:
    shop = published_shop
    shop.write("pyproject.toml", '[tool.vde.linter]\nrules = ["noselectstar"]')
    commands = [
        [*command.split(), "--project", str(shop.root), "--json"]
        for command in (
            *("dag", "lineage marts.top.revenue", "lint", "plan prod", "diff prod"),
            *("table-name marts.top", "check-intervals prod marts.top", "history prod"),
            *("info", "environments", "diff prod prod", "run prod", "apply prod"),
        )
    ]
    for command in commands:
        assert vde(*command).code == 0
    code = (
        "import sys; from vde_dagster.cli.app import call\n"
        "for command in " + repr(commands) + ":\n"
        "    code = call(command)\n"
        "    heavy = {'dagster', 'pyspark', 'sqlglot', 'pyiceberg', 'pandas'} & set(sys.modules)\n"
        "    if code or heavy:\n"
        "        sys.exit(f'{command}: {code} {heavy}')\n"
    )
    again = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
