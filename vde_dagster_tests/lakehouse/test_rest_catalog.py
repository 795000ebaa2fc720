"""Tables in a real REST catalog: what it makes of our changes, and who is refused."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests

from vde_dagster.errors import ProjectError, StoreError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.catalog import TABLE, PointerMovedError, Swap
from vde_dagster.lakehouse.catalogs.rest import CHANGE, RestCatalog
from vde_dagster.lakehouse.catalogs.rest_server import RestConflict, RestServer, for_spark
from vde_dagster.lakehouse.io.locations import next_file
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.metadata.changes import (
    Updates,
    append_columns,
    apply_updates,
    fast_forward,
    move_back,
    remove_branches,
    remove_snapshots,
    requirements,
    set_branch,
    superseded,
    widen_columns,
)
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.lakehouse.publishing.commit import change_table, read_table
from vde_dagster.lakehouse.publishing.new_table import NewTable, first_metadata
from vde_dagster.planning.tables.table import PhysicalTable, TableRef
from vde_dagster.project.settings import RestSettings
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.lakehouse.rest_process import new_part
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.state.builders import day, table

Metadata = dict[str, Any]
A = TableRef("db", "a")
OWN = ("metadata-log", "last-updated-ms", "snapshot-log", "properties")
"""What the server writes its own way."""


@pytest.fixture
def lakehouse(store: StateStore, tmp_path: Path, rest_server: str) -> Lakehouse:
    catalog = RestCatalog(new_part(rest_server), "lakehouse", str(tmp_path), store.database.effects)
    made = Lakehouse(store, "lakehouse", str(tmp_path / "warehouse"), catalog=catalog)
    made.catalog.create_namespaces({"vde_physical": {}, "db": {}})
    return made


@pytest.fixture
def filled(lakehouse: Lakehouse) -> PhysicalTable:
    """A table with two days on `main` and another on the branch of plan p1."""
    engine = FakeEngine(lakehouse)
    made = lakehouse.store.tables.ensure(table())
    engine.create_table(made)
    for number in (0, 1):
        engine.fill(made, day(number), "p0")
    engine.fill(made, day(2), "p1", "vde_p1")
    return made


def first_on_main(metadata: Metadata) -> int:
    return int(metadata["snapshot-log"][0]["snapshot-id"])


CHANGES: dict[str, Callable[[Metadata], Updates]] = {
    "forward": lambda one: fast_forward(one, "vde_p1", "t"),
    "back": lambda one: move_back(one, first_on_main(one), "t"),
    "back, and a branch ends": lambda one: move_back(
        one, first_on_main(one), "t", None, ["vde_p1"]
    ),
    "back to no rows": lambda one: move_back(one, None, "t"),
    "without a branch": lambda one: remove_branches(one, ["vde_p1"]),
    "with a branch": lambda one: set_branch(one, "b", head_of(one)),
    "columns": lambda one: append_columns(one, [("n", "STRING"), ("m", "INT")]),
    "types": lambda one: widen_columns(one, {"c0": "BIGINT"}),
    "expired": lambda one: remove_snapshots(one, superseded(one, 2**60)),
}


@pytest.mark.server
@pytest.mark.parametrize("change", CHANGES)
def test_the_server_makes_of_a_table_what_we_make_of_it(
    change: str, lakehouse: Lakehouse, filled: PhysicalTable
) -> None:
    state = read_table(lakehouse, filled.ref)
    now = int(state.metadata["last-updated-ms"])
    updates = CHANGES[change](state.metadata)
    wanted = apply_updates(state.metadata, state.location, updates, now)
    assert wanted != state.metadata
    change_table(lakehouse, state, filled.ref, updates, "fill.test")
    made = read_table(lakehouse, filled.ref)
    assert made.location != state.location
    assert _same(made.metadata) == _same(wanted)
    assert _theirs(made.metadata) == _theirs(wanted)
    assert made.metadata["metadata-log"][-1]["metadata-file"] == state.location
    assert [field.name for field in lakehouse.load_table(filled.ref).schema().fields]


def _same(metadata: Metadata) -> Metadata:
    found = {key: value for key, value in metadata.items() if key not in OWN and value != []}
    found["snapshots"] = {one["snapshot-id"]: one for one in metadata["snapshots"]}
    found["current-snapshot-id"] = found.get("current-snapshot-id") or -1
    return found


def _theirs(metadata: Metadata) -> Metadata:
    return {key: value for key, value in metadata["properties"].items() if key != CHANGE}


@pytest.mark.server
@pytest.mark.parametrize("change", CHANGES)
def test_whoever_was_slower_changes_nothing(
    change: str, lakehouse: Lakehouse, filled: PhysicalTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at the pointer and the change somebody moves all that it was made from."""
    state = read_table(lakehouse, filled.ref)
    updates = CHANGES[change](state.metadata)
    server = lakehouse.catalog.server  # type: ignore[attr-defined]
    commit = server.commit

    def meddle(*arguments: Any) -> None:
        monkeypatch.setattr(server, "commit", commit)
        engine = FakeEngine(lakehouse)
        engine.fill(filled, day(7), "p8")
        engine.fill(filled, day(8), "p9", "vde_p1")
        engine.fill(filled, day(9), "p9", "b")
        other = read_table(lakehouse, filled.ref)
        more = append_columns(other.metadata, [("theirs", "INT")])
        after = next_file(other.metadata["location"], other.location)
        lakehouse.catalog.swap([Swap(filled.ref, TABLE, other.location, after, updates=more)])
        commit(*arguments)

    monkeypatch.setattr(server, "commit", meddle)
    with pytest.raises(PointerMovedError):
        change_table(lakehouse, state, filled.ref, updates, "fill.test")
    now = read_table(lakehouse, filled.ref).metadata
    assert {"vde_p1", "b", "main"} == now["refs"].keys()
    assert len(now["snapshots"]) == 6
    assert "theirs" in [field["name"] for field in now["schemas"][-1]["fields"]]


def moved(lakehouse: Lakehouse, filled: PhysicalTable, requirement: Metadata) -> None:
    """Change a table so that one requirement, and no other, does not hold any more."""
    catalog = lakehouse.catalog
    state = read_table(lakehouse, filled.ref)
    if requirement["type"] == "assert-ref-snapshot-id":
        branch = requirement["ref"]
        FakeEngine(lakehouse).fill(filled, day(7), "p8", *([branch] if branch != "main" else []))
        return
    after = next_file(state.metadata["location"], state.location)
    if requirement["type"] == "assert-table-uuid":
        other = {**state.metadata, "table-uuid": str(uuid.uuid4())}
        lakehouse.files.write_all([(after, json.dumps(other).encode())], "test")
        catalog.swap([Swap(filled.ref, TABLE, state.location, None)])
        catalog.swap([Swap(filled.ref, TABLE, None, after)])
        return
    if requirement["type"] == "assert-current-schema-id":
        changed = widen_columns(state.metadata, {"c1": "BIGINT"})
    else:
        changed = append_columns(state.metadata, [("theirs", "INT")])[:1]
    catalog.swap([Swap(filled.ref, TABLE, state.location, after, updates=changed)])


@pytest.mark.server
@pytest.mark.parametrize("backend", ["sqlite"])
@pytest.mark.parametrize("change", CHANGES)
def test_each_requirement_alone_refuses_what_it_is_for(
    change: str, lakehouse: Lakehouse, filled: PhysicalTable
) -> None:
    """Without it, the server would make the change over what somebody else did."""
    server = lakehouse.catalog.server  # type: ignore[attr-defined]
    place = "tables", filled.ref
    first = read_table(lakehouse, filled.ref).location
    made_from = _read(lakehouse, filled)[0]
    changes = CHANGES[change](made_from)
    needed = requirements(made_from, changes)
    for one in needed:
        lakehouse.catalog.swap([Swap(filled.ref, TABLE, _read(lakehouse, filled)[1], None)])
        lakehouse.catalog.swap([Swap(filled.ref, TABLE, None, first)])
        moved(lakehouse, filled, one)
        theirs = _read(lakehouse, filled)[0]
        with pytest.raises(RestConflict):
            server.commit(*place, needed, changes)
        assert _read(lakehouse, filled)[0] == theirs
        server.commit(*place, [other for other in needed if other != one], changes)
        assert _read(lakehouse, filled)[0] != theirs


def _read(lakehouse: Lakehouse, filled: PhysicalTable) -> tuple[Metadata, str]:
    state = read_table(lakehouse, filled.ref)
    return state.metadata, state.location


@pytest.mark.server
def test_tables_are_made_moved_and_removed_by_compare_and_swap(lakehouse: Lakehouse) -> None:
    catalog = lakehouse.catalog
    base = f"{lakehouse.warehouse}/db/a-0"
    first = next_file(base, None)
    metadata = first_metadata(NewTable(A, (("a", "INT", None),), base, {}), 0)
    lakehouse.files.write_all([(first, json.dumps(metadata).encode())], "test")
    make = Swap(A, TABLE, None, first)
    catalog.swap([make])
    pointer = catalog.pointers([A, TableRef("no", "such")])[A]
    assert (pointer.location, pointer.kind) == (first, TABLE)
    for wrong in (
        make,
        Swap(A, TABLE, "file:///0", None),
        Swap(A, TABLE, "file:///0", first),
        Swap(TableRef("db", "b"), TABLE, first, None),
        Swap(TableRef("db", "b"), TABLE, first, first),
    ):
        with pytest.raises(PointerMovedError):
            catalog.swap([wrong])
    assert catalog.all_pointers() == {A: pointer}
    assert catalog.every_pointer() == [pointer]
    after = next_file(metadata["location"], first)
    move = Swap(A, TABLE, first, after, updates=append_columns(metadata, [("b", "INT")]))
    catalog.swap([move])
    moved = catalog.pointers([A])[A]
    assert moved.location not in (first, after)
    assert move.is_done(moved)
    assert not make.is_done(moved)
    state = read_table(lakehouse, A)
    more = append_columns(state.metadata, [("c", "INT")])
    change_table(lakehouse, state, A, more, "fill.test")
    assert not move.is_done(catalog.pointers([A])[A]), "another change of ours is the last one"
    gone = Swap(A, TABLE, catalog.pointers([A])[A].location, None)
    catalog.swap([gone])
    assert gone.is_done(catalog.pointers([A]).get(A))
    assert Path(first.removeprefix("file://")).exists(), "files are the janitor's"


@pytest.mark.server
def test_many_tables_are_found_in_few_requests(lakehouse: Lakehouse) -> None:
    engine = FakeEngine(lakehouse)
    tables = [lakehouse.store.tables.ensure(table(name=f"t{number}")) for number in range(9)]
    for made in tables:
        engine.create_table(made)
    missing = [TableRef("vde_physical", f"no{number}") for number in range(9)]
    refs = [made.ref for made in tables]
    found = lakehouse.catalog.pointers([*refs, *missing])
    assert found.keys() == set(refs)
    assert found == {ref: lakehouse.catalog.pointers([ref])[ref] for ref in refs}


@pytest.mark.server
def test_a_table_below_several_namespaces_is_reached(rest_server: str) -> None:
    server = new_part(rest_server)
    server.create_namespace(["a"], {})
    server.create_namespace(["a", "b"], {"k": "v"})
    assert list(server.namespaces()) == [("a",)]
    assert list(server.namespaces(["a"])) == [("a", "b")]
    assert server.client().namespace_exists(("a", "b"))
    assert list(server.names(["a", "b"], "tables")) == []
    assert list(server.names(["no"], "tables")) == []


def test_a_server_that_is_not_there_is_named() -> None:
    server = RestServer(RestSettings("http://127.0.0.1:9"))
    with pytest.raises(StoreError, match=r"127\.0\.0\.1:9 cannot be reached"):
        server.reach(lambda client: client.namespace_exists(("a",)))


def test_nessies_endpoint_of_this_protocol_is_refused_as_it_keeps_no_branches(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = RestServer(RestSettings("http://127.0.0.1:9/iceberg"))
    said = {"nessie.is-nessie-catalog": "true", "nessie.core-base-uri": "http://n:19120/api/"}
    answer = requests.Response()
    answer.status_code, answer._content = 200, json.dumps({"overrides": said}).encode()
    monkeypatch.setattr(requests.Session, "request", lambda *about, **more: answer)
    with pytest.raises(UsageError, match=r"does not store tables' branches.*http://n:19120/api/v2"):
        server.reach(lambda client: client.namespace_exists(("a",)))


@pytest.mark.server
@pytest.mark.parametrize("backend", ["sqlite"])
def test_a_server_that_does_not_keep_a_branch_that_it_took_is_told(
    lakehouse: Lakehouse, filled: PhysicalTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Nessie's endpoint answers: the change is made, and the table has `main` only."""
    server = lakehouse.catalog.server  # type: ignore[attr-defined]
    commit = server.commit

    def forgets(*said: Any) -> Any:
        made = commit(*said)
        made["metadata"]["refs"] = {"main": made["metadata"]["refs"]["main"]}
        return made

    monkeypatch.setattr(server, "commit", forgets)
    state = read_table(lakehouse, filled.ref)
    with pytest.raises(StoreError, match="accepted the branch 'b' of vde_physical"):
        change_table(
            lakehouse,
            state,
            filled.ref,
            set_branch(state.metadata, "b", head_of(state.metadata)),
            "fill.test",
        )


@pytest.mark.server
def test_a_request_that_is_refused_says_what_the_server_says(rest_server: str) -> None:
    server = new_part(rest_server)
    server.create_namespace(["db"], {})
    with pytest.raises(StoreError, match=r"refused the request: .*file"):
        server.post(
            ["db"],
            "register",
            {"name": "a", "metadata-location": "file:///no/such/file.metadata.json"},
        )


@pytest.fixture
def asked() -> Iterator[tuple[str, list[Message]]]:
    """A server that has nothing, and the headers of all that it is asked."""
    found: list[Message] = []

    class Nothing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.append(self.headers)
            known = self.path.startswith("/v1/config")
            self.send_response(200 if known else 404)
            self.end_headers()
            self.wfile.write(b"{}" if known else b"")

        def log_message(self, *said: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Nothing) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", found
        server.shutdown()


@pytest.mark.parametrize(
    ("properties", "begins"),
    [
        ({}, None),
        ({"rest.auth.type": "basic", "rest.auth.basic.username": "a"}, "Basic "),
        ({"rest.sigv4-enabled": "true"}, "AWS4-HMAC-SHA256 Credential=key/"),
        ({"rest.auth.type": "sigv4"}, "AWS4-HMAC-SHA256 Credential=key/"),
    ],
)
def test_requests_say_who_we_are(
    properties: dict[str, str], begins: str | None, asked: tuple[str, list[Message]]
) -> None:
    uri, headers = asked
    keys = {"client.access-key-id": "key", "client.secret-access-key": "s", "client.region": "x"}
    password = {"rest.auth.basic.password": "b"} if begins == "Basic " else {}
    access = RestSettings(uri, properties={**keys, **properties, **password, "header.team": "blue"})
    assert RestServer(access).load("tables", A) is None
    assert len(headers) == 2
    for found in headers:
        said = found["Authorization"]
        assert said is None if begins is None else said.startswith(begins)
        assert found["team"] == "blue"
        assert found["X-Iceberg-Access-Delegation"] is None


def test_a_package_that_a_catalog_asks_for_is_named() -> None:
    access = RestSettings("http://127.0.0.1:9", properties={"rest.auth.type": "google"})
    with pytest.raises(UsageError, match=r"a package that is not installed.*[Gg]oogle"):
        RestServer(access).load("tables", A)


@pytest.mark.server
def test_a_credential_is_given_for_a_token_once(
    rest_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[str, str | None]] = []
    send = requests.Session.send

    def noted(self: Any, request: Any, **said: Any) -> Any:
        asked.append((request.url, request.headers.get("Authorization")))
        return send(self, request, **said)

    monkeypatch.setattr(requests.Session, "send", noted)
    properties = {"header.x-team": "blue"}
    server = RestServer(RestSettings(rest_server, credential="me:secret", properties=properties))
    for name in ("a", "b"):
        assert not server.reach(lambda client, name=name: client.namespace_exists((name,)))  # type: ignore[misc]
    tokens = [url for url, _ in asked if url == f"{rest_server}/v1/oauth/tokens"]
    assert len(tokens) == 2, "for the configuration, and what follows it"
    others = [one for one in asked if one[0] not in tokens]
    assert len(others) == 3
    assert all(who is not None and who.startswith("Bearer ") for _, who in others)
    assert len({who for _, who in others}) == 1


def test_without_changes_nothing_but_the_table_is_required() -> None:
    metadata = first_metadata(NewTable(A, (("a", "INT", None),), "x", {}), 0)
    assert [one["type"] for one in requirements(metadata, ())] == ["assert-table-uuid"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('uri = "http://h:1/v1"', "not the base address of an Iceberg REST catalog"),
        ('uri = "h:1"', "not the base address of an Iceberg REST catalog"),
        ('token = "a"', "'rest.token' is given without 'rest.uri'"),
        ('uri = "http://h"\ntoken = "a"\ncredential = "b:c"', "cannot be combined"),
        ('uri = "http://h"\ncredential = "b"', "has no secret"),
        (
            'uri = "http://h"\n[tool.vde]\nchange_views = ["db.*"]',
            "'change_views' requires a catalog",
        ),
    ],
)
def test_settings_that_cannot_be_are_refused(tmp_path: Path, settings: str, message: str) -> None:
    folder = ProjectFolder(tmp_path, {"pyproject.toml": f"[tool.vde.rest]\n{settings}\n"})
    with pytest.raises(ProjectError, match=message):
        _ = Workspace.open(folder.root).settings


def test_secrets_are_read_when_they_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = 'uri = "http://h"\ncredential = "${REST_ID}:${REST_SECRET}"\nwarehouse = "w"\n'
    settings += 'properties = { "header.x" = "${REST_X}" }\n'
    folder = ProjectFolder(tmp_path, {"pyproject.toml": f"[tool.vde.rest]\n{settings}"})
    found = Workspace.open(folder.root).settings
    assert "REST_SECRET" in str(found.rest.credential)
    with pytest.raises(ProjectError, match="REST_ID"):
        found.rest.resolved()
    for name in ("REST_ID", "REST_SECRET", "REST_X"):
        monkeypatch.setenv(name, name.lower())
    rest = found.rest.resolved()
    assert (rest.credential, rest.properties) == ("rest_id:rest_secret", {"header.x": "rest_x"})
    assert "rest_secret" not in repr(rest)


def test_spark_is_told_who_we_are() -> None:
    properties = {"header.x": "y"}
    access = RestSettings("http://h", "w", None, "a:b", "http://o", "s", properties=properties)
    assert for_spark(access) == {
        "type": "rest",
        "uri": "http://h",
        "warehouse": "w",
        "credential": "a:b",
        "scope": "s",
        "oauth2-server-uri": "http://o",
        "header.x": "y",
    }
    assert "a:b" not in repr(access)
