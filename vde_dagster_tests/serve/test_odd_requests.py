"""Requests that no client sends on purpose: each is told what is wrong, and none is a failure."""

from __future__ import annotations

import base64
import http.client
import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from vde_dagster_tests.serve.served_process import Answer, Served

pytestmark = pytest.mark.server
NAMESPACES = "/v1/prod@3/namespaces"
LONG = "9" * 5_000


def sent(server: Served, path: str, method: str = "GET", **headers: str) -> Answer:
    """Send a request as it is; `Host` may be anything."""
    parts = urlsplit(server.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    answer = connection.getresponse()
    found = {name.lower(): value for name, value in answer.getheaders()}
    return Answer(answer.status, found, answer.read())


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/", 404, "NotFoundException"),
        ("/v1", 404, "NotFoundException"),
        ("/v1//namespaces", 404, "NotFoundException"),
        (f"{NAMESPACES}/", 404, "NotFoundException"),
        (f"{NAMESPACES}/raw/tables/orders/", 404, "NotFoundException"),
        (f"{NAMESPACES}/raw/functions", 404, "NotFoundException"),
        (f"{NAMESPACES}/raw/tables/orders/credentials", 404, "NotFoundException"),
        (f"{NAMESPACES}/raw/tables/orders/plan/1", 404, "NotFoundException"),
        (f"{NAMESPACES}/..%2F..%2Fetc/tables", 404, "NotFoundException"),
        (f"{NAMESPACES}/../../../etc/passwd", 404, "NotFoundException"),
        (f"{NAMESPACES}/..", 404, "NoSuchNamespaceException"),
        (f"{NAMESPACES}/raw/tables/..%2F..%2Forders", 404, "NotFoundException"),
        (f"{NAMESPACES}/raw/tables/..", 404, "NoSuchTableException"),
        (f"{NAMESPACES}/raw/tables/orders%00", 404, "NoSuchTableException"),
        (f"{NAMESPACES}/raw%1Fdeep/tables/orders", 404, "NoSuchTableException"),
        (f"{NAMESPACES}/%FF%FE/tables/orders", 404, "NoSuchTableException"),
        (f"{NAMESPACES}/vde__raw/tables/orders", 404, "NoSuchTableException"),
        (f"{NAMESPACES}?parent=%1F", 404, "NoSuchNamespaceException"),
        ("/v1/config", 400, "BadRequestException"),
        ("/v1/config?warehouse=", 400, "BadRequestException"),
        ("/v1/config?warehouse=..%2F..", 404, "NoSuchWarehouseException"),
        ("/v1/config?warehouse=prod%00", 404, "NoSuchWarehouseException"),
        ("/v1/config?warehouse=prod@-1", 404, "NoSuchWarehouseException"),
        (f"/v1/config?warehouse=prod@{LONG}", 404, "NoSuchWarehouseException"),
        (f"/v1/config?warehouse=prod@{2**63}", 404, "NoSuchWarehouseException"),
        (f"/v1/config?warehouse=prod@{2**31}", 404, "NoSuchWarehouseException"),
        ("/v1/config?warehouse=prod@%D9%A3", 404, "NoSuchWarehouseException"),
        ("/v1/config?warehouse=prod~", 400, "BadRequestException"),
        ("/v1/config?warehouse=prod~a%2Fb", 400, "BadRequestException"),
        (f"/v1/config?warehouse=prod~{'a' * 200}", 400, "BadRequestException"),
        (f"/v1/prod@{LONG}/namespaces", 404, "NoSuchWarehouseException"),
        (f"/data/prod@{LONG}/raw.orders", 404, "NoSuchWarehouseException"),
        ("/data/prod/..%2F..%2Fetc", 404, "NotFoundException"),
        ("/data/prod/a.b.c", 400, "BadRequestException"),
        ("/data/prod/%E2%82%AC.orders", 404, "NoSuchTableException"),
        ("/redoc", 404, "NotFoundException"),
    ],
)
def test_what_is_not_there_is_told_as_the_specification_has_it(
    server: Served, path: str, status: int, kind: str
) -> None:
    answer = sent(server, path)
    error = answer.json["error"]
    assert (answer.status, error["type"], error["code"]) == (status, kind, status)
    assert 0 < len(error["message"]) < 500
    assert "location" not in answer.headers


@pytest.mark.parametrize(
    "path",
    [
        f"{NAMESPACES}?pageToken={'x' * 20_000}&pageSize=1",
        f"{NAMESPACES}?pageToken=&pageSize=-1",
        f"{NAMESPACES}?parent=raw&parent=",
    ],
)
def test_whoever_asks_for_pages_is_given_all(server: Served, path: str) -> None:
    assert sent(server, path).json == {"namespaces": [["marts"], ["raw"]]}


@pytest.mark.parametrize(
    "keys",
    [
        [3, "x", [], 0],
        [2**70, "x", [], 0],
        [-1, "x", [], 0],
        [3, "x", [[]], 0],
        [3, "x", [None, 2**80], 2**80],
        {"a": 1},
        [3, "x", None, 0],
        [True, "x", [], 0],
        "[" * 15_000,
    ],
)
def test_a_cursor_that_somebody_made_up_is_refused(server: Served, keys: Any) -> None:
    text = keys if isinstance(keys, str) else json.dumps(keys)
    cursor = base64.urlsafe_b64encode(text.encode()).decode()
    answer = sent(server, f"/data/prod/raw.orders?cursor={cursor}")
    assert answer.status in (400, 404)
    assert "error" in answer.json


@pytest.mark.parametrize("sort", ["&sort=number", ""])
@pytest.mark.parametrize("keys", [[2**80], [None], ["a"], [], [[1]]])
def test_keys_of_a_cursor_that_are_none_are_refused(
    server: Served, keys: list[Any], sort: str
) -> None:
    path = f"/data/prod/raw.orders?limit=1{sort}"
    text = sent(server, path).json["next"]
    version, request, own, given = json.loads(
        base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    )
    for changed in ([version, request, keys, given], [version, request, own, 2**70]):
        cursor = base64.urlsafe_b64encode(json.dumps(changed).encode()).decode()
        answer = sent(server, f"{path}&cursor={cursor}")
        assert answer.status in (200, 400)
        assert answer.status == 400 or {r["number"] for r in answer.json["rows"]} <= {1, 2, 3, 4}


@pytest.mark.parametrize(
    "host",
    [
        *("evil.example", "evil_x.example", "localhost.evil.example", "127.0.0.1.evil.example"),
        *("127.0.0.1@evil.example", "evil.example#127.0.0.1", "evil.example/127.0.0.1"),
        *("2130706433", "127.1", "[::ffff:1.2.3.4]", "[", "", "evil.example:8181"),
    ],
)
def test_no_other_name_is_answered_without_a_token(server: Served, host: str) -> None:
    """A page on such a name, which a browser was led to this machine by, reads nothing."""
    for path in ("/v1/config?warehouse=prod", "/data/prod/raw.orders"):
        answer = sent(server, path, Host=host)
        assert (answer.status, answer.json["error"]["type"]) == (403, "ForbiddenException")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost:1", "LOCALHOST", "[::1]:8181"])
def test_this_machines_names_are_answered(server: Served, host: str) -> None:
    assert sent(server, "/v1/config?warehouse=prod", Host=host).status == 200


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/config?warehouse=prod", NAMESPACES, f"{NAMESPACES}/raw", f"{NAMESPACES}/raw/tables"),
        *(f"{NAMESPACES}/raw/tables/orders", f"{NAMESPACES}/marts/views"),
        *(f"{NAMESPACES}/marts/views/sums", "/data/prod", "/data/prod/raw.orders?limit=1", "/docs"),
    ],
)
def test_head_is_answered_everywhere_and_has_no_content(server: Served, path: str) -> None:
    head, get = sent(server, path, "HEAD"), sent(server, path)
    assert head.status in (200, 204)
    assert (get.status, head.body) == (200, b"")
    assert head.headers.get("etag") in (None, get.headers.get("etag"))


@pytest.mark.parametrize("path", ["/v1/config?warehouse=prod", NAMESPACES, "/data/prod"])
def test_other_methods_are_told_which_there_are(server: Served, path: str) -> None:
    answer = sent(server, path, "OPTIONS")
    assert (answer.status, answer.json["error"]["type"]) == (405, "UnsupportedOperationException")
    assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize("path", ["/data/prod", "/data/prod/raw.orders?format=csv"])
def test_a_page_elsewhere_embeds_nothing_of_a_server_without_tokens(
    server: Served, path: str
) -> None:
    for dest in ("script", "image", "empty", "iframe"):
        answer = sent(server, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest=dest)
        assert (answer.status, answer.json["error"]["type"]) == (403, "ForbiddenException")
    followed = sent(server, path, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")
    assert followed.status == 200
    assert followed.headers["x-content-type-options"] == "nosniff"


def test_a_path_with_any_sign_has_a_next_page(server: Served) -> None:
    """A name is read without blanks around it, of which there are more than one sort."""
    for path in ("/data/prod/raw%E2%80%83.orders", "/data/prod/raw.orders%0D%0A"):
        link = sent(server, f"{path}?limit=3&sort=number").headers["link"]
        assert link.isascii()
        rest = sent(server, link.partition("<")[2].partition(">")[0])
        assert [row["number"] for row in rest.json["rows"]] == [4]


@pytest.mark.parametrize("path", ["/data/prod/nope.nope", "/data/nope/raw.orders"])
def test_what_is_not_there_is_not_unchanged(server: Served, path: str) -> None:
    assert sent(server, path, If_None_Match="*").status == 404


def test_the_page_of_the_routes_runs_no_script(server: Served) -> None:
    answer = sent(server, "/docs")
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    text = answer.body.decode()
    assert "<code>GET /data/{version}/{model}</code>" in text
    assert "tenant = 7 AND day &gt;= &#x27;2026-01-01&#x27;" in text
    for outside in ("<script", "http://", "https://", "//"):
        assert outside not in text


def test_nobody_exchanges_a_secret_for_a_token(server: Served) -> None:
    answer = server.ask("/v1/oauth/tokens", "POST", b"grant_type=client_credentials&client_id=a")
    assert (answer.status, answer.json["error"]) == (400, "unsupported_grant_type")
    assert "vde token create" in answer.json["error_description"]


def test_a_large_write_is_refused_as_a_small_one(server: Served) -> None:
    answer = server.ask(NAMESPACES, "POST", b"x" * 3_000_000)
    assert answer.status == 406
