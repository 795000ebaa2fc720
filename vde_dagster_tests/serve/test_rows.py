"""Rows over HTTP: columns, filters, order, pages of one version, and forms."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pytest

from vde_dagster_tests.projects import ProjectFolder, copied_project
from vde_dagster_tests.serve.served_process import Served, serving, serving_here
from vde_dagster_tests.serve.shops import publish, publish_twice, run

pytestmark = pytest.mark.server
ORDERS = "/data/prod@1/raw.orders"


def rows(server: Served, query: str = "", path: str = ORDERS) -> list[dict[str, Any]]:
    answer = server.ask(f"{path}?{quote(query, safe='=&')}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["rows"]
    return found


def test_rows_are_those_of_the_version_under_its_columns(server: Served) -> None:
    first = rows(server, "sort=id")
    assert first[0] == {"id": 1, "tenant": 7, "amount": "5.50", "word": "a"}
    third = rows(server, "sort=number", "/data/prod/raw.orders")
    assert list(third[0].items()) == [("tenant", 7), ("number", 1), ("amount", "5.50")]
    assert len(rows(server, path="/data/prod@1/marts.daily")) == 8
    assert len(rows(server, path="/data/prod@2/marts.daily")) == 12


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("filter=tenant = 7", [1, 2]),
        ("filter=tenant = 7 AND amount > 6", [2]),
        ("filter=word IS NULL OR word = 'ü'", [2, 3]),
        ("filter=id IN (1, 4) AND NOT word LIKE 'a%'", [4]),
        ("sort=-id", [4, 3, 2, 1]),
        ("sort=tenant,-id", [2, 1, 3, 4]),
        ("sort=-tenant,id", [3, 1, 2, 4]),
        ("sort=word", [1, 4, 3, 2]),
        ("sort=-amount&limit=2", [2, 1]),
        ("sort=ID&columns=Id", [1, 2, 3, 4]),
    ],
)
def test_rows_are_chosen_and_sorted(server: Served, query: str, ids: list[int]) -> None:
    found = [row["id"] for row in rows(server, query)]
    assert found == ids if "sort" in query else sorted(found) == ids


def test_a_filter_on_a_column_by_which_files_are_divided(server: Served) -> None:
    found = rows(server, "filter=day = '2024-01-02'&columns=day,id", "/data/prod@2/marts.daily")
    assert [set(row) for row in found] == [{"day", "id"}] * 4
    assert {row["day"] for row in found} == {"2024-01-02"}


@pytest.mark.parametrize("sort", ["", "&sort=day", "&sort=-day,id", "&sort=amount"])
def test_pages_are_of_one_version_whatever_is_published(
    tmp_path_factory: pytest.TempPathFactory, sort: str
) -> None:
    folder: ProjectFolder = publish_twice(tmp_path_factory.mktemp("pages") / "shop")
    with serving_here(folder.root) as server:
        whole = rows(server, f"limit=1000{sort}", "/data/prod/marts.daily")
        path, found = f"/data/prod/marts.daily?limit=5{sort}", []
        while path:
            answer = server.ask(path)
            found += answer.json["rows"]
            if answer.json["version"] == 3 and len(found) == 5:
                run(folder, 6)
            assert answer.json["version"] == 3
            path = answer.headers.get("link", "").partition("<")[2].partition(">")[0]
        assert found == whole
        assert len(found) == 12
        assert len(rows(server, path="/data/prod/marts.daily")) == 20


def test_forms_have_the_same_rows(server: Served) -> None:
    path = f"{ORDERS}?sort=id&columns=id,word"
    expected = [{"id": 1, "word": "a"}, {"id": 2, "word": None}]
    arrow = server.ask(f"{path}&limit=2", Accept="application/vnd.apache.arrow.stream")
    assert arrow.headers["content-type"] == "application/vnd.apache.arrow.stream"
    assert pa.ipc.open_stream(arrow.body).read_all().to_pylist() == expected
    text = server.ask(f"{path}&limit=2&format=csv")
    assert text.headers["content-type"].startswith("text/csv")
    assert list(csv.reader(io.StringIO(text.body.decode()))) == [
        ["id", "word"],
        ["1", "a"],
        ["2", ""],
    ]
    assert 'rel="next"' in text.headers["link"]
    assert server.ask(f"{path}&limit=2").json["rows"] == expected


def test_the_tag_is_the_publication(server: Served) -> None:
    first = server.ask("/data/prod/raw.orders")
    assert first.headers["etag"] == f'W/"{first.json["publication"]}"'
    again = server.ask("/data/prod/raw.orders", If_None_Match=first.headers["etag"])
    assert (again.status, again.body) == (304, b"")
    older = server.ask("/data/prod@1/raw.orders", If_None_Match=first.headers["etag"])
    assert older.status == 200


def test_a_name_without_a_schema_has_the_default_one(shop: ProjectFolder, tmp_path: Path) -> None:
    root = copied_project(shop.root, tmp_path / "shop")
    (root / "pyproject.toml").write_text("[tool.vde]\ndefault_namespace = 'raw'\n")
    with serving(root) as served:
        assert served.ask("/data/prod/orders?limit=1").json["model"] == "raw.orders"


def test_a_model_has_the_name_that_the_list_has(tmp_path: Path) -> None:
    names = ("`n.s`.t", "marts.`a.b`", 'marts.`a"b`')
    files = {
        f"models/{number}.sql": f"MODEL (name {name}, kind FULL); SELECT 1 AS a"
        for number, name in enumerate(names)
    }
    folder = ProjectFolder(tmp_path / "dots", files)
    publish(folder)
    with serving_here(folder.root) as served:
        models = served.ask("/data/prod").json["models"]
        assert models == ['marts.a"b', "marts.a.b", "n.s.t"]
        for model in models:
            assert rows(served, path=f"/data/prod/{quote(model)}") == [{"a": 1}]


def test_a_cursor_is_of_the_version_that_the_request_names(server: Served) -> None:
    cursor = server.ask("/data/prod@1/raw.orders?limit=2").json["next"]
    assert server.ask(f"/data/prod@1/raw.orders?limit=2&cursor={cursor}").status == 200
    answer = server.ask(f"/data/prod@2/raw.orders?limit=2&cursor={cursor}")
    assert answer.status == 400
    assert "the cursor belongs to another request" in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/data/prod/marts.sums", 400, "does not have a table, so only engines can read it"),
        ("/data/prod/marts.big", 404, "marts.big"),
        ("/data/prod/nope.nope", 404, "nope.nope"),
        ("/data/nope/raw.orders", 404, "nope"),
        ("/data/prod@99/raw.orders", 404, "99"),
        (f"{ORDERS}?columns=nope", 400, "nope"),
        (f"{ORDERS}?sort=nope", 400, "nope"),
        (f"{ORDERS}?filter=nope=1", 400, "the column 'nope' does not exist. Hint"),
        (f"{ORDERS}?filter=id=1%20OR%201=1", 400, "cannot be read: at '1'. Hint"),
        (f"{ORDERS}?filter=id='a'", 400, "filter"),
        (f"{ORDERS}?filter=id%20=", 400, "filter"),
        (f"{ORDERS}?filter={'(' * 900}", 400, "brackets is too deep"),
        (f"{ORDERS}?filter={'(' * 100}", 400, "cannot be read"),
        (f"{ORDERS}?filter={'a' * 3000}", 400, "too long"),
        (f"{ORDERS}?limit=0", 400, "limit"),
        (f"{ORDERS}?limit=10001", 400, "limit"),
        (f"{ORDERS}?format=xml", 400, "format"),
        (f"{ORDERS}?cursor=abc", 400, "cursor"),
    ],
)
def test_what_cannot_be_read_is_told(server: Served, path: str, status: int, says: str) -> None:
    answer = server.ask(path)
    assert answer.status == status, answer.body
    assert says in answer.json["error"]["message"]


def test_the_models_of_a_version_and_the_routes_are_described(server: Served) -> None:
    answer = server.ask("/data/prod@2").json
    assert (answer["version"], answer["views"]) == (2, ["marts.sums"])
    assert answer["models"] == ["marts.daily", "raw.orders"]
    assert "/data/{version}/{model}" in server.ask("/openapi.json").json["paths"]
    assert server.ask("/docs").status == 200
