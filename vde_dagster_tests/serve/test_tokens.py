"""Who may read what: tokens of environments, their ends, their filters, and the access log."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import ForbiddenError, UnauthorizedError

from vde_dagster.cli.app import call
from vde_dagster.programs.serve.catalog_routes import ENDPOINTS
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, refused, serving_here, vde
from vde_dagster_tests.serve.shops import FILES, publish

pytestmark = pytest.mark.server


@dataclass
class Guarded:
    """A server on a project with `prod` and `dev`, and tokens.

    Args:
        root: The project's folder.
        server: The server.
        prod: A token of production.
        dev: One of `dev`.
        some: One of production that reads tenant 7 only.
    """

    root: Path
    server: Served
    prod: str
    dev: str
    some: str

    def token(self, *arguments: str) -> dict[str, str]:
        made: dict[str, str] = vde("token", *arguments, root=self.root)
        return made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = ProjectFolder(tmp_path_factory.mktemp("guarded") / "shop", FILES)
    publish(folder)
    publish(folder, environment="dev")
    with serving_here(folder.root, log=folder.root / "access.log") as server:
        made = Guarded(folder.root, server, "", "", "")
        assert server.ask("/v1/config?warehouse=prod").status == 200, "open while there is no token"
        made.prod = made.token("create", "prod")["token"]
        made.dev = made.token("create", "dev", "--expires", "1h")["token"]
        made.some = made.token("create", "prod", "--filter", "tenant = 7")["token"]
        yield made


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


PATHS = (
    "/v1/config?warehouse=prod",
    "/v1/prod@1/namespaces",
    "/data/prod",
    "/data/prod/raw.orders",
)


@pytest.mark.parametrize("path", PATHS)
def test_once_a_token_was_made_nobody_reads_without_one(guarded: Guarded, path: str) -> None:
    last = "x" if not guarded.prod.endswith("x") else "y"
    for sent in ({}, bearer("vde_1_2"), bearer(guarded.prod[:-1] + last), bearer("é")):
        answer = guarded.server.ask(path, **sent)
        assert (answer.status, answer.json["error"]["type"]) == (401, "NotAuthorizedException")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert guarded.server.ask(path, **bearer(guarded.prod)).status == 200
    assert guarded.server.ask(path, Authorization=f"Basic {guarded.prod}").status == 401


@pytest.mark.parametrize("path", PATHS)
def test_a_token_reads_its_own_environment_and_its_versions(guarded: Guarded, path: str) -> None:
    assert guarded.server.ask(path, **bearer(guarded.dev)).status == 403
    assert guarded.server.ask(path.replace("prod", "dev"), **bearer(guarded.dev)).status == 200
    sign = "&" if "?" in path else "?"
    twice = guarded.server.ask(f"{path}{sign}warehouse=dev", **bearer(guarded.dev))
    assert twice.status == 403 or b"dev@1" in twice.body


@pytest.mark.parametrize(
    "path", ["/data/prod%2Fx/raw.orders?warehouse=dev", "/v1/prod@1%7Edev/namespaces?warehouse=dev"]
)
def test_no_second_name_leads_elsewhere(guarded: Guarded, path: str) -> None:
    assert guarded.server.ask(path, **bearer(guarded.dev)).status in (403, 404)


def test_pyiceberg_sends_a_token(guarded: Guarded) -> None:
    options = {"type": "rest", "uri": guarded.server.url, "warehouse": "prod"}
    catalog = load_catalog("c", **options, token=guarded.prod)
    assert catalog.load_table("raw.orders").scan().to_arrow().num_rows == 4
    with pytest.raises(UnauthorizedError):
        load_catalog("c", **options, token="vde_no_no")
    with pytest.raises(ForbiddenError):
        load_catalog("c", **options, token=guarded.some)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?filter=tenant = 8",
        "?filter=tenant = 8 OR tenant = 7",
        "?filter=tenant = 7 OR true",
        "?filter=NOT (tenant = 7)",
        "?filter=tenant IS NULL",
        "?filter=id > 0) OR (id > 0",
        "?columns=id&sort=-id",
        "?sort=tenant&limit=1",
        "?filter=tenant IS NOT NULL&filter=true",
        "?row_filter=true&allowed=true",
    ],
)
def test_no_request_widens_a_tokens_filter(guarded: Guarded, query: str) -> None:
    path = f"/data/prod/raw.orders{query.replace(' ', '%20')}"
    while path:
        answer = guarded.server.ask(path, **bearer(guarded.some))
        assert answer.status in (200, 400)
        path = ""
        if answer.status == 200:
            assert {row["id"] for row in answer.json["rows"]} <= {1, 2}
            if answer.json["next"]:
                path = answer.headers["link"].partition("<")[2].partition(">")[0]


def test_a_filtered_token_is_told_of_no_file(guarded: Guarded) -> None:
    names = {"prefix": "prod@1", "namespace": "raw", "table": "orders", "view": "sums"}
    paths = [(method, path.format(**names)) for method, path in map(str.split, ENDPOINTS)]
    paths.append(("GET", "/v1/config?warehouse=prod"))
    tag = guarded.server.ask(
        "/v1/prod@1/namespaces/raw/tables/orders", **bearer(guarded.prod)
    ).headers["etag"]
    for method, path in (*paths, *(("HEAD", path) for _, path in paths)):
        for more in ({}, {"If_None_Match": tag}, {"If_None_Match": "*"}):
            answer = guarded.server.ask(path, method, **bearer(guarded.some), **more)
            assert answer.status == 403, (method, path)
            assert "etag" not in answer.headers
            assert b"parquet" not in answer.body
            assert b"metadata" not in answer.body


def test_a_name_with_any_sign_stays_on_its_line_of_the_log(guarded: Guarded) -> None:
    odd = quote("a\nb\u2028c\x1b[31m", safe="")
    path = f"/v1/prod@1/namespaces/{odd}"
    assert guarded.server.ask(path, **bearer(guarded.prod)).status == 404
    lines: list[str] = []
    deadline = time.monotonic() + 20
    while not lines and time.monotonic() < deadline:
        text = (guarded.root / "access.log").read_text()
        lines = [line for line in text.split("\n") if "%1B" in line]
    (line,) = lines
    assert f"GET {path} 404 " in line
    assert "\x1b" not in text


def test_a_cursor_of_another_token_leads_nowhere(guarded: Guarded) -> None:
    path = "/data/prod/raw.orders?sort=-id&limit=1"
    cursor = guarded.server.ask(path, **bearer(guarded.prod)).json["next"]
    answer = guarded.server.ask(f"{path}&cursor={cursor}", **bearer(guarded.some))
    assert (answer.status, answer.json["error"]["code"]) == (400, 400)


def test_a_filter_that_does_not_fit_a_model_lets_nothing_through(guarded: Guarded) -> None:
    assert guarded.server.ask("/data/prod/marts.daily", **bearer(guarded.prod)).status == 200
    answer = guarded.server.ask("/data/prod/marts.daily", **bearer(guarded.some))
    assert answer.status == 403
    assert "tenant" in answer.json["error"]["message"]
    assert "amount" not in answer.json["error"]["message"], "what the model has is not told"


def test_what_one_token_has_is_not_what_another_is_told_to_keep(guarded: Guarded) -> None:
    path = "/data/prod/raw.orders"
    tags = {}
    for token in (guarded.prod, guarded.some):
        tags[token] = guarded.server.ask(path, **bearer(token)).headers["etag"]
        again = guarded.server.ask(path, **bearer(token), If_None_Match=tags[token])
        assert (again.status, again.body) == (304, b"")
    some = guarded.server.ask(path, **bearer(guarded.some), If_None_Match=tags[guarded.prod])
    assert {row["id"] for row in some.json["rows"]} == {1, 2}
    every = guarded.server.ask(path, **bearer(guarded.prod), If_None_Match=tags[guarded.some])
    assert len(every.json["rows"]) == 4


@pytest.mark.parametrize(
    ("allowed", "ids"),
    [
        ("tenant NOT IN (8, 9)", {1, 2}),
        ("NOT (tenant IN (8, 9) OR id > 3)", {1, 2}),
        ("NOT (tenant = 8)", {1, 2}),
        ("word NOT LIKE 'a%'", {3, 4}),
        ("tenant IS NULL OR tenant NOT IN (7, 8)", {4}),
    ],
)
def test_a_filter_lets_null_through_only_where_it_says_so(
    guarded: Guarded, allowed: str, ids: set[int]
) -> None:
    made = guarded.token("create", "prod", "--filter", allowed)["token"]
    for token, asked in ((made, ""), (guarded.prod, f"?filter={quote(allowed)}")):
        answer = guarded.server.ask(f"/data/prod/raw.orders{asked}", **bearer(token))
        assert {row["id"] for row in answer.json["rows"]} == ids


def test_a_filter_is_about_a_models_columns_whatever_its_table_calls_them(tmp_path: Path) -> None:
    folder = ProjectFolder(tmp_path / "shop", FILES)
    publish(folder)
    # What was `id` is `tenant` from here on, in the same table.
    folder.edit(
        "models/orders.sql",
        "SELECT CAST(v.id AS INT) AS id, CAST(v.tenant AS BIGINT) AS tenant",
        "SELECT CAST(v.id AS INT) AS tenant, CAST(v.tenant AS BIGINT) AS id",
    )
    publish(folder, 4)
    token = vde("token", "create", "prod", "--filter", "tenant = 3", root=folder.root)["token"]
    with serving_here(folder.root) as server:
        for version, found in ((1, []), (2, [{"tenant": 3, "id": 8}])):
            path = f"/data/prod@{version}/raw.orders?columns=tenant,id&sort=-id"
            assert server.ask(path, **bearer(token)).json["rows"] == found
        for path in ("raw.orders?columns=id&filter=id%20=%207", "raw.orders?sort=id&filter=id>8"):
            assert server.ask(f"/data/prod@2/{path}", **bearer(token)).json["rows"] == []


def test_of_two_warehouses_in_a_query_the_one_that_is_read_is_checked(guarded: Guarded) -> None:
    for first, last in (("prod", "dev"), ("dev", "prod")):
        path = f"/v1/config?warehouse={first}&warehouse={last}"
        answer = guarded.server.ask(path, **bearer(guarded.dev))
        assert (answer.status == 200) == (last == "dev")
        assert answer.status == 403 or answer.json["overrides"]["prefix"] == "dev@1"


def test_who_claims_to_be_a_proxy_makes_no_line_of_the_log(guarded: Guarded) -> None:
    told = "6.6.6.6 somebody GET /forged 200 1B 1ms"
    guarded.server.ask("/data/prod?by=proxy", **bearer(guarded.prod), X_Forwarded_For=told)
    line, deadline = "", time.monotonic() + 20
    while not line and time.monotonic() < deadline:
        text = (guarded.root / "access.log").read_text()
        line = next((one for one in text.splitlines() if "by=proxy" in one), "")
    _, client, who, method, path, *_ = line.split(" ")
    assert client.startswith("6.6.6.6%20somebody")
    assert (who, method, path) == (guarded.prod.split("_")[1], "GET", "/data/prod?by=proxy")


def test_tokens_end_by_time_and_by_revocation(guarded: Guarded) -> None:
    made = guarded.token("create", "prod")
    path = "/data/prod/raw.orders?limit=1"
    assert guarded.server.ask(path, **bearer(made["token"])).status == 200
    guarded.token("revoke", made["id"])
    assert guarded.server.ask(path, **bearer(made["token"])).status == 401
    listed = {one["id"]: one for one in guarded.token("list")["tokens"]}  # type: ignore[index]
    assert listed[made["id"]]["revoked_at"] is not None
    secret = made["token"].rpartition("_")[2]
    assert secret not in str(listed)
    database = next(guarded.root.rglob("vde.db"))
    assert secret.encode() not in b"".join(p.read_bytes() for p in database.parent.glob("vde.db*"))


def test_the_log_says_who_read_what_and_no_secret(guarded: Guarded) -> None:
    guarded.server.ask("/data/prod/raw.orders?limit=2", **bearer(guarded.prod))
    line, deadline = "", time.monotonic() + 20
    while "limit=2" not in line and time.monotonic() < deadline:
        text = (guarded.root / "access.log").read_text()
        line = next((one for one in text.splitlines() if "limit=2" in one), "")
    who = guarded.prod.split("_")[1]
    assert f" {who} GET /data/prod/raw.orders?limit=2 200 " in line
    assert guarded.prod.split("_", 2)[2] not in text


def test_without_tokens_other_names_of_this_machine_are_refused(server: Served) -> None:
    answer = server.ask("/v1/config?warehouse=prod", Host="evil.example:80")
    assert answer.status == 403


def test_others_are_served_only_once_there_is_a_token(shop: ProjectFolder) -> None:
    told = refused("serve", "--host", "0.0.0.0", "--port", "0", root=shop.root)
    assert "vde token create" in told


@pytest.mark.parametrize(
    "arguments",
    [
        ("create", "nope"),
        ("create", "prod", "--expires", "soon"),
        ("create", "prod", "--expires", "0d"),
        ("create", "prod", "--filter", "tenant ="),
        ("create", "prod", "--filter", "tenant"),
        ("revoke", "nope"),
    ],
)
def test_mistakes_make_no_token(
    shop: ProjectFolder, arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["token", *arguments, "--project", str(shop.root)]) == 2
    assert capsys.readouterr().err
    assert vde("token", "list", root=shop.root) == {"tokens": []}
