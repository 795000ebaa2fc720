"""Descriptions in `docs.yml`: what they mean for models, and `vde docs write`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from vde_dagster.cli.app import call
from vde_dagster.errors import ProjectError
from vde_dagster.overviews.documentation.gather import gather_document
from vde_dagster.project.loading.loader import load_project
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder

DOCS = """
# By hand.
staging.orders:
  columns:
    AMOUNT: What was paid   # in euro
marts.customers:
  columns:
    revenue: Sum of orders
"""


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """The shop, without descriptions beside its models."""
    return ProjectFolder(tmp_path, SHOP)


def _write(root: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    assert call(["docs", "write", "--project", str(root), "--json"]) == 0
    found: dict[str, object] = json.loads(capsys.readouterr().out)
    return found


def _texts(root: Path) -> dict[str, str]:
    return {str(path.relative_to(root)): path.read_text() for path in root.rglob("docs.yml")}


def test_a_description_changes_metadata_alone_and_is_inherited_along_copies(
    shop: ProjectFolder,
) -> None:
    with open_fake(shop.root) as workspace:
        before = workspace.snapshots()
    shop.write("models/docs.yml", DOCS)
    with open_fake(shop.root) as workspace:
        after = workspace.snapshots()
        document = gather_document(workspace)
    changed = {str(name) for name in after if after[name].id != before[name].id}
    assert changed == {"staging.orders", "marts.customers"}
    for name, snapshot in after.items():
        assert snapshot.table_version == before[name].table_version
        assert snapshot.version == before[name].version
    said = {
        f"{model.name}.{column.name}": (column.description, column.inherited_from)
        for model in document.models
        for column in model.columns
        if column.description
    }
    assert said == {
        "staging.orders.amount": ("What was paid", None),
        "marts.customers.customer": ("Who ordered", None),
        "marts.customers.revenue": ("Sum of orders", None),
        "marts.top.customer": ("Who ordered", "marts.customers.customer"),
        "marts.top.revenue": ("Sum of orders", "marts.customers.revenue"),
    }


def test_places_are_added_and_no_letter_is_changed(
    shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    written = shop.write(
        "models/marts/docs.yml",
        """
        # Ours.
        marts.customers:   # the large ones
            columns:
                # is computed
                customer: |
                    Who ordered

                gone: >-
                    A text that
                    somebody wrote
            description: One row per customer

        marts.lost: {description: A model of before}
        """,
    )
    first = written.read_text()
    told = _write(shop.root, capsys)
    assert (
        told["added"]
        == {
            "models/marts/docs.yml": [
                *("marts.customers.revenue", "marts.daily", "marts.daily.day"),
                *("marts.daily.orders", "marts.daily.revenue"),
                *("marts.top", "marts.top.customer", "marts.top.revenue", "marts.top.place"),
            ],
            "models/raw/docs.yml": [
                "raw.orders",
                *(f"raw.orders.{name}" for name in ("id", "customer", "amount", "status", "day")),
            ],
            "models/staging/docs.yml": [
                f"staging.orders.{name}" for name in ("id", "customer", "amount", "day")
            ],
        }
        or sorted(told["added"]) == []
    )
    assert told["orphans"] == [
        {
            "name": "marts.customers.gone",
            "text": "A text that somebody wrote",
            "place": "models/marts/docs.yml:8",
        },
        {
            "name": "marts.lost",
            "text": "A model of before",
            "place": "models/marts/docs.yml:13",
        },
    ]
    second = written.read_text()
    kept = iter(second.splitlines())
    assert all(line in kept for line in first.splitlines())
    assert "        somebody wrote\n        revenue:\n    description: One row" in second
    assert second.endswith(
        "\n\nmarts.top:\n  description:\n  columns:\n    customer:\n    revenue:\n    place:\n"
    )
    texts = _texts(shop.root)
    assert _write(shop.root, capsys)["added"] == {}
    assert _texts(shop.root) == texts


def test_a_new_column_gets_a_place_and_texts_stay(
    shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    _write(shop.root, capsys)
    shop.edit("models/marts/docs.yml", "    place:", "    place: By revenue  # best is 1")
    shop.edit("models/marts/top.sql", "AS place", "AS place, 1 AS `on`, 2 AS two")
    assert _write(shop.root, capsys)["added"] == {
        "models/marts/docs.yml": ["marts.top.on", "marts.top.two"]
    }
    text = (shop.root / "models/marts/docs.yml").read_text()
    assert text.endswith("    place: By revenue  # best is 1\n    'on':\n    two:\n")


def test_endings_of_lines_and_of_the_file_stay(
    shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    path = shop.root / "models/marts/docs.yml"
    path.write_bytes(b"marts.customers:\r\n  description: Whoever")
    _write(shop.root, capsys)
    made = path.read_bytes()
    assert made.startswith(
        b"marts.customers:\r\n  description: Whoever\r\n  columns:\r\n    revenue:\r\n\r\n"
    )
    assert made.count(b"\n") == made.count(b"\r\n")


def test_a_form_without_lines_is_refused_and_nothing_is_written(
    shop: ProjectFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    shop.write("models/docs.yml", "marts.customers: {columns: {customer: x}}")
    texts = _texts(shop.root)
    assert call(["docs", "write", "--project", str(shop.root), "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert "no line can be added" in error["message"]
    assert error["hint"] == "write each column on a separate line"
    assert _texts(shop.root) == texts


def test_conflicts_and_what_is_gone_are_said_at_their_lines(shop: ProjectFolder) -> None:
    shop.write(
        "models/docs.yml",
        """
        marts.customers:
          description: Another text
          columns:
            customer: Someone else
            revenu: Sum
        marts.custmers:
          description: Misspelt
        """,
    )
    with open_fake(shop.root) as workspace:
        found: list[object] = []
        snapshots = workspace.snapshots_of(workspace.project.models, warnings=found)
        told = [*workspace.project.warnings, *found]
    said = {f"{one.location}: {one.message}": one.hint for one in told}
    assert said == {
        "models/docs.yml:1: marts.customers has a different description in its own file": (
            "keep one description; the one in models/marts/customers.sql:1:1 is used"
        ),
        "models/docs.yml:4: marts.customers.customer has a different description in its own file": (
            "keep one description; the one in models/marts/customers.sql:1:1 is used"
        ),
        "models/docs.yml:6: marts.custmers is described, but is not a model": (
            "did you mean 'marts.customers'? name a model, or remove it"
        ),
        "models/docs.yml:5: marts.customers has no column 'revenu', "
        "which models/docs.yml describes": "did you mean 'revenue'?",
    }
    customers = next(one for name, one in snapshots.items() if str(name) == "marts.customers")
    assert customers.model.description == "One row per customer"
    assert {one.name: one.description for one in customers.columns}["customer"] == "Who ordered"


BAD = {
    "- marts.customers": (1, "descriptions must be a table by model"),
    "customers:\n  description: x": (1, "'customers' is not a model name"),
    "marts.customers: A text": (1, "the entry of marts.customers has no 'description'"),
    "\nmarts.customers:\n  descripton: x": (3, "unknown key 'descripton' of marts.customers"),
    "marts.customers:\n  columns: [revenue]": (
        2,
        "columns of marts.customers must have the form 'name: text'",
    ),
    "marts.customers:\n  columns:\n    no: x": (
        2,
        "the name of a column of marts.customers, False, is not a text in YAML",
    ),
    "marts.customers:\n  columns:\n    a: x\n    A: y": (
        4,
        "column A of marts.customers is described twice",
    ),
    "marts.customers:\n  columns:\n    a: 12": (3, "the description 12 is not a text"),
    "marts.customers:\n  columns:\n    a: 'x": (3, "this is not valid YAML"),
    "marts.a:\n  description: x\nmarts.a:\n  description: y": (3, "'marts.a' is given twice"),
    "marts.a:\nmarts.A:\n": (2, "marts.a is described twice, first in models/docs.yml:1"),
}


@pytest.mark.parametrize(("text", "told"), BAD.items(), ids=range(len(BAD)))
def test_a_bad_file_is_one_message_at_its_line(
    shop: ProjectFolder, text: str, told: tuple[int, str]
) -> None:
    (shop.root / "models/docs.yml").write_text(text)
    with pytest.raises(ProjectError) as caught:
        load_project(shop.root)
    (mistake,) = caught.value.mistakes
    line, message = told
    assert str(mistake.location).startswith("models/docs.yml")
    assert mistake.location.line == line
    assert mistake.message.startswith(message)
