"""The document of a project: what it says of models, environments, publications, and of then."""

from pathlib import Path

import msgspec
import pytest

from vde_dagster.errors import ExecutionError
from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.overviews.documentation.values import Document, DocumentedModel
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake, publish_shop
from vde_dagster_tests.projects import SHOP, ProjectFolder

pytestmark = pytest.mark.long


def _changed_in_dev(root: Path) -> ProjectFolder:
    publish_shop(root)
    folder = ProjectFolder(root)
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    with open_fake(root) as workspace:
        workspace.apply(workspace.plan("dev"))
    return folder


def _models(document: Document) -> dict[str, DocumentedModel]:
    return {model.name: model for model in document.models}


def test_a_document_says_what_models_are_and_what_their_columns_are_made_of(tmp_path: Path) -> None:
    publish_shop(tmp_path)
    with open_fake(tmp_path) as workspace:
        models = _models(gather_document(workspace))
    customers, top = models["marts.customers"], models["marts.top"]
    assert (customers.kind, customers.description) == ("FULL", "One row per customer")
    assert "SELECT customer, sum(amount)" in customers.source
    assert customers.parents == ("staging.orders",)
    assert customers.readers == ("marts.top",)
    assert [audit.blocking for audit in customers.audits] == [True]
    flows = {(flow.column, flow.parent, flow.source, flow.how) for flow in customers.flows}
    assert ("revenue", "staging.orders", "amount", "aggregation") in flows
    assert (None, "staging.orders", "customer", "group") in flows
    told = {column.name: (column.description, column.inherited_from) for column in top.columns}
    assert told["customer"] == ("Who ordered", "marts.customers.customer")
    assert told["place"] == (None, None)
    assert list(models).index("raw.orders") < list(models).index("marts.top")


def test_a_document_says_what_environments_show_and_how_they_differ(tmp_path: Path) -> None:
    _changed_in_dev(tmp_path)
    with open_fake(tmp_path) as workspace:
        document = gather_document(workspace)
    prod, dev = document.environments
    assert (prod.name, dev.name) == ("prod", "dev")
    cells = {cell.model: cell for cell in dev.models}
    whose = {name: cell.whose for name, cell in cells.items()}
    assert whose == {
        "marts.customers": "own",
        "marts.daily": "shared",
        "marts.top": "own",
        "raw.orders": "shared",
        "staging.orders": "view",
    }
    assert (cells["marts.customers"].change, cells["marts.customers"].category) == (
        "modified",
        "breaking",
    )
    assert (cells["marts.daily"].change, cells["marts.daily"].category) == (None, None)
    assert cells["marts.customers"].view == "marts__dev.customers"
    assert cells["marts.daily"].filled
    assert cells["marts.daily"].missing == ()
    (forth, back) = document.differences
    assert {(forth.new, forth.old), (back.new, back.old)} == {("dev", "prod"), ("prod", "dev")}
    assert [one.model for one in forth.definitions] == ["marts.customers", "marts.top"]
    assert "upstream, in marts.customers" in " ".join(forth.definitions[1].reasons)
    assert forth.tables == ()
    tables = {table.id: table for table in document.tables}
    shown = tables[cells["marts.customers"].table or ""]
    assert [fill.skipped for fill in shown.fills] == [False]
    assert [(one.model, one.failed_rows) for one in shown.audits] == [("marts.customers", 0)]


def test_publications_say_what_each_changed(tmp_path: Path) -> None:
    folder = _changed_in_dev(tmp_path)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        document = gather_document(workspace)
        fewer = gather_document(workspace, publications=1)
    prod = [one for one in document.publications if one.environment == "prod"]
    assert [(one.version, one.what) for one in prod] == [(2, "both"), (1, "both")]
    newest, first = prod
    assert [one.model for one in newest.definitions] == ["marts.customers", "marts.top"]
    assert (newest.models_changed, first.models_added, first.definitions) == (2, 5, ())
    assert document.differences == ()
    assert [one.version for one in fewer.publications if one.environment == "prod"] == [2]


def test_versions_are_compared_with_the_environments_and_each_other(tmp_path: Path) -> None:
    folder = _changed_in_dev(tmp_path)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        document = gather_document(workspace, compare=["prod@1", "dev@1"])
        again = gather_document(workspace, compare=["prod@1", "dev@1"], as_of=document.as_of)
        past = gather_document(workspace, "prod@2", compare=["dev@1"])
    assert again == document
    found = {(one.new, one.old): one for one in document.differences}
    assert {new for new, _ in found} == {"prod", "dev", "prod@1", "dev@1"}
    # Prod shows what dev did: the two are alike, and what was asked for is told all the same.
    assert ("dev", "prod") not in found
    assert found["dev@1", "dev"].definitions == found["dev@1", "dev"].data == ()
    forth = found["dev@1", "prod@1"]
    assert [one.model for one in forth.definitions] == ["marts.customers", "marts.top"]
    assert {one.model for one in forth.data} == {"marts.customers", "marts.top"}
    assert [(one.before, one.after) for one in found["prod@1", "dev@1"].data] == [
        (one.after, one.before) for one in forth.data
    ]
    assert {(one.new, one.old) for one in past.differences} == {
        ("prod@2", "dev@1"),
        ("dev@1", "prod@2"),
    }


def test_an_earlier_version_is_documented_as_of_then(tmp_path: Path) -> None:
    folder = _changed_in_dev(tmp_path)
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        then = gather_document(workspace, "prod@1")
        now = gather_document(workspace, "prod")
    assert (then.of, now.of) == ("prod@1", "prod")
    assert "WHERE amount > 1" not in _models(then)["marts.customers"].source
    assert "WHERE amount > 1" in _models(now)["marts.customers"].source
    assert [one.version for one in then.publications] == [1]
    assert [one.version for one in then.environments] == [1]
    cells = {cell.model: cell for cell in then.environments[0].models}
    assert cells["marts.daily"].filled
    assert then.as_of == then.environments[0].published_at


def test_equal_input_gives_equal_bytes_that_read_back_as_the_same(tmp_path: Path) -> None:
    _changed_in_dev(tmp_path)
    made = []
    for _ in range(2):
        with open_fake(tmp_path) as workspace:
            at = workspace.store.database.clock.now().replace(hour=0, minute=0, second=0)
            made.append(gather_document(workspace, as_of=at.replace(microsecond=0)))
    one, other = map(msgspec.json.encode, made)
    assert one == other
    assert msgspec.json.decode(one, type=Document) == made[0]
    assert msgspec.json.schema(Document)["$ref"] == "#/$defs/Document"


def test_a_type_that_analysis_does_not_find_is_that_of_the_published_table(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path, SHOP)
    unknown = "from_json(max(customer), 'a INT') AS orders"
    folder.edit("models/marts/daily.sql", "count(*) AS orders", unknown)
    with open_fake(tmp_path) as workspace:
        before = _models(gather_document(workspace))["marts.daily"]
        workspace.apply(workspace.plan("prod"))
        after = _models(gather_document(workspace))["marts.daily"]
        then = _models(gather_document(workspace, "prod@1"))["marts.daily"]
    types = [{one.name: one.type for one in model.columns} for model in (before, after, then)]
    assert types[0]["orders"] is None
    assert types[1]["orders"] == types[2]["orders"] == "STRING"
    folder.edit("models/marts/daily.sql", "max(customer)", "min(customer)")
    with open_fake(tmp_path) as workspace:
        edited = _models(gather_document(workspace))["marts.daily"]
    assert {one.name: one.type for one in edited.columns}["orders"] is None, "it was not published"


def test_a_plan_that_failed_since_the_publication_is_listed(tmp_path: Path) -> None:
    folder = _changed_in_dev(tmp_path)
    with open_fake(folder.root, FakeSpark(failing_audits=["marts.customers"])) as workspace:
        plan = workspace.plan("prod", restate=("marts.customers",))
        with pytest.raises(ExecutionError):
            workspace.apply(plan)
        document = gather_document(workspace)
        assert gather_document(workspace, "prod@1").failures == ()
    (failed,) = document.failures
    assert (failed.environment, failed.plan) == ("prod", plan.id)
    assert "unique_values" in (failed.message or "")
    with open_fake(folder.root) as workspace:
        workspace.apply(workspace.plan("prod", restate=("marts.customers",)))
        assert gather_document(workspace).failures == ()
