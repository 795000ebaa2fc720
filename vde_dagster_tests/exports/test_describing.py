"""`vde describe`: a project's document for other programs, judged by schemas that are published."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from vde_dagster.plugins.exports.json_document import document_schema
from vde_dagster_tests.cli.conftest import Vde, vde
from vde_dagster_tests.execution.fake_workspace import open_fake, publish_shop
from vde_dagster_tests.projects import ProjectFolder

__all__ = ["vde"]

PUBLISHED = Path(__file__).parents[2] / "docs" / "document.schema.json"
AT = ("--at", "2030-01-01")


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    publish_shop(tmp_path)
    folder = ProjectFolder(tmp_path)
    folder.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    with open_fake(tmp_path) as workspace:
        workspace.apply(workspace.plan("dev"))
    return folder


def test_the_published_schema_is_that_of_the_code(vde: Vde) -> None:
    published = json.loads(PUBLISHED.read_text())
    assert published == document_schema() == vde("describe", "json", "--schema").json, (
        "vde describe json --schema > docs/document.schema.json"
    )


def test_a_project_is_one_json_document_of_its_schema(shop: ProjectFolder, vde: Vde) -> None:
    judge = Draft202012Validator(json.loads(PUBLISHED.read_text()))
    at = ("--project", shop.root, *AT)
    files, dev, first = (vde("describe", "json", *of, *at) for of in ((), ("dev",), ("prod@1",)))
    for called in (files, dev, first):
        judge.validate(called.json)
    assert files.json["document_version"] == 1
    assert (files.json["of"], dev.json["of"], first.json["of"]) == ("files", "dev", "prod@1")
    assert [one["name"] for one in files.json["environments"]] == ["prod", "dev"]
    assert files.out == vde("describe", "json", *at).out, "equal input gives equal bytes"
    wrong = {**files.json, "document_version": 2}
    assert [one.validator for one in judge.iter_errors(wrong)] == ["const"]


def test_a_document_goes_into_a_file(shop: ProjectFolder, vde: Vde, tmp_path: Path) -> None:
    target = tmp_path / "shop.json"
    called = vde("describe", "json", "--to", target, "--json", "--project", shop.root, *AT)
    assert called.json == {"files": [str(target)], "of": "files", "models": 5}
    assert target.read_text() == vde("describe", "json", "--project", shop.root, *AT).out


MISTAKES = [
    (("xml",), "there is no form 'xml'"),
    (("json", "nosuch"), "nosuch"),
    (("json", "prod@99"), "99"),
    (("json", "--at", "yesterdayish"), "--at"),
    (("json", "--to", "no/such/folder.json"), "there is no folder"),
    (("json", "--to", "models"), "cannot write models"),
]


def test_a_mistaken_call_is_told_and_writes_nothing(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(shop.root)
    before = sorted(shop.root.iterdir())
    for arguments, told in MISTAKES:
        called = vde("describe", *arguments)
        assert (called.code, told in called.err, called.out) == (2, True, ""), arguments
    assert sorted(shop.root.iterdir()) == before
