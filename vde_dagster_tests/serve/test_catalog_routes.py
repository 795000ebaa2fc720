"""What the catalog answers to plain requests."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from vde_dagster.programs.serve.catalog_routes import ENDPOINTS
from vde_dagster_tests.serve.served_process import Served

pytestmark = pytest.mark.server


@pytest.mark.parametrize(
    ("warehouse", "prefix"),
    [
        ("prod", "prod@3"),
        ("prod@1", "prod@1"),
        ("PROD", "prod@3"),
        ("prod%2Blive", "prod+live"),
        ("prod+live", "prod+live"),
        ("prod~lake", "prod@3~lake"),
        ("prod@2~lake", "prod@2~lake"),
    ],
)
def test_a_session_reads_one_publication_unless_it_is_live(
    server: Served, warehouse: str, prefix: str
) -> None:
    answer = server.ask(f"/v1/config?warehouse={warehouse}")
    assert answer.json["overrides"] == {"prefix": prefix}
    assert answer.json["endpoints"] == list(ENDPOINTS)
    path = f"/v1/{prefix}/namespaces"
    assert server.ask(path).json == {"namespaces": [["marts"], ["raw"]]}


def test_a_time_means_the_version_that_was_current_then(server: Served) -> None:
    now = datetime.now(timezone.utc)
    answer = server.ask(f"/v1/config?warehouse=prod@{now:%Y-%m-%dT%H:%M:%S}")
    assert answer.json["overrides"] == {"prefix": "prod@3"}


@pytest.mark.parametrize(
    "warehouse",
    ["nope", "prod@99", "prod@2001-01-01", "prod@2100-01-01T06:00", "prod@x", "a/b", "@"],
)
def test_a_warehouse_that_is_none_is_refused(server: Served, warehouse: str) -> None:
    answer = server.ask(f"/v1/config?warehouse={warehouse}")
    assert (answer.status, answer.json["error"]["type"]) == (404, "NoSuchWarehouseException")


def test_every_endpoint_that_is_named_answers(server: Served) -> None:
    names = {"prefix": "prod@3", "namespace": "marts", "table": "daily", "view": "sums"}
    for endpoint in ENDPOINTS:
        method, path = endpoint.split(" ")
        answer = server.ask(path.format(**names), method)
        assert answer.status == (200 if method == "GET" else 204), endpoint
        assert bool(answer.body) == (method == "GET")
        for name in ("namespace", "table", "view"):
            if f"{{{name}}}" in path:
                missing = server.ask(path.format(**{**names, name: "nope"}), method)
                assert missing.status == 404, endpoint
                if method == "GET":
                    kind = f"NoSuch{name.title()}Exception"
                    listing = name == "namespace" or path.endswith(f"{{{name}}}")
                    assert missing.json["error"]["code"] == 404
                    if listing and "tables/" not in path and "views/" not in path:
                        assert missing.json["error"]["type"] == kind


def test_namespaces_have_one_level(server: Served) -> None:
    path = "/v1/prod@3/namespaces"
    assert server.ask(f"{path}?parent=").json == {"namespaces": [["marts"], ["raw"]]}
    assert server.ask(f"{path}?parent=raw").json == {"namespaces": []}
    below = server.ask(f"{path}?parent=raw%1Fdeep")
    assert (below.status, below.json["error"]["type"]) == (404, "NoSuchNamespaceException")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/namespaces"),
        ("DELETE", "/namespaces/raw"),
        ("POST", "/namespaces/raw/properties"),
        ("POST", "/namespaces/raw/tables"),
        ("POST", "/namespaces/raw/tables/orders"),
        ("DELETE", "/namespaces/raw/tables/orders"),
        ("POST", "/namespaces/raw/register"),
        ("POST", "/namespaces/raw/tables/orders/metrics"),
        ("POST", "/namespaces/raw/tables/orders/plan"),
        ("DELETE", "/namespaces/raw/tables/orders/plan/1"),
        ("POST", "/namespaces/raw/tables/orders/tasks"),
        ("POST", "/namespaces/raw/tables/orders/sign"),
        ("POST", "/namespaces/raw/tables/orders/unregister"),
        ("POST", "/namespaces/raw/register-view"),
        ("POST", "/tables/rename"),
        ("POST", "/transactions/commit"),
        ("POST", "/namespaces/marts/views"),
        ("POST", "/namespaces/marts/views/sums"),
        ("DELETE", "/namespaces/marts/views/sums"),
        ("POST", "/views/rename"),
    ],
)
def test_writes_are_refused_as_the_specification_says(
    server: Served, method: str, path: str
) -> None:
    answer = server.ask(f"/v1/prod@3{path}", method, b"{}")
    assert (answer.status, answer.json["error"]["type"]) == (406, "UnsupportedOperationException")


def test_a_table_has_one_snapshot_one_schema_and_no_way_to_purge_it(server: Served) -> None:
    found = [
        server.ask(f"/v1/prod@{version}/namespaces/raw/tables/orders").json for version in (1, 3)
    ]
    columns = []
    for answer in found:
        metadata = answer["metadata"]
        (schema,) = metadata["schemas"]
        (snapshot,) = metadata["snapshots"]
        assert snapshot["snapshot-id"] == metadata["current-snapshot-id"]
        assert snapshot["schema-id"] == schema["schema-id"] == metadata["current-schema-id"]
        assert metadata["refs"] == {
            "main": {"type": "branch", "snapshot-id": snapshot["snapshot-id"]}
        }
        assert metadata["properties"]["gc.enabled"] == "false"
        assert answer["config"] == {}
        columns.append([(field["name"], field["id"]) for field in schema["fields"]])
    assert columns == [
        [("id", 1), ("tenant", 2), ("amount", 3), ("word", 4)],
        [("tenant", 2), ("number", 1), ("amount", 3)],
    ]
    assert found[0]["metadata-location"] != found[1]["metadata-location"]


def test_a_view_names_tables_of_the_same_catalog_by_two_parts(server: Served) -> None:
    path = "/v1/prod@3{}/namespaces/marts/views/sums"
    (version,) = server.ask(path.format("")).json["metadata"]["versions"]
    queries = {one["dialect"]: one["sql"] for one in version["representations"]}
    assert "FROM `raw`.`orders`" in queries["spark"]
    assert 'FROM "raw"."orders"' in queries["trino"]
    assert "default-catalog" not in version
    assert version["default-namespace"] == ["marts"]
    (named,) = server.ask(path.format("~lake")).json["metadata"]["versions"]
    assert named["default-catalog"] == "lake"


def test_a_table_that_a_client_has_is_not_sent_again(server: Served) -> None:
    paths = [f"/v1/prod@{version}/namespaces/raw/tables/orders" for version in (1, 2, 3)]
    tags = [server.ask(path).headers["etag"] for path in paths]
    assert len(set(tags)) == 3, "each version's answer is another one"
    for path, tag in zip(paths, tags, strict=True):
        assert tag.startswith('"'), "strong: of the very bytes"
        assert server.ask(path).headers["etag"] == tag
        for sent in (tag, f"W/{tag}", f'"other", {tag}', "*"):
            again = server.ask(path, If_None_Match=sent)
            assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
        others = ", ".join(one for one in tags if one != tag)
        for sent in (others, tag.strip('"'), "", '""'):
            assert server.ask(path, If_None_Match=sent).status == 200
    missing = server.ask("/v1/prod@1/namespaces/raw/tables/nope", If_None_Match="*")
    assert missing.status == 404
