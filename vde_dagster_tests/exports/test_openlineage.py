"""OpenLineage: what a receiver hears of fills and publications, judged by the published schemas."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime, timezone
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource

from vde_dagster.errors import ExecutionError, UsageError, VdeError
from vde_dagster.execution.environments.audit_environment import audit_environment
from vde_dagster.planning.engine_tasks import FillResult, FillTask
from vde_dagster_tests.execution.fake_workspace import FakeSpark, open_fake
from vde_dagster_tests.faults import Fault, FaultInjector, ProcessKilled
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.builders import FakeClock

pytestmark = pytest.mark.long

SCHEMAS = {
    path.stem: json.loads(path.read_text())
    for path in (Path(__file__).parent.parent / "fixtures" / "openlineage").glob("*.json")
}
REGISTRY = Registry().with_resources(
    (one["$id"], Resource.from_contents(one)) for one in SCHEMAS.values()
)


def judge(event: dict[str, Any]) -> None:
    """Validate an event and every facet of it."""
    EVENTS.validate(event)
    for facet in facets_of(event):
        _facets_by(facet["_schemaURL"]).validate(facet)


EVENTS = Draft202012Validator(SCHEMAS["OpenLineage"], registry=REGISTRY)


@cache
def _facets_by(address: str) -> Draft202012Validator:
    return Draft202012Validator({"$ref": address}, registry=REGISTRY)


def facets_of(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        if "_schemaURL" in value:
            yield value
        for one in value.values():
            yield from facets_of(one)
    elif isinstance(value, list):
        for one in value:
            yield from facets_of(one)


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ProjectFolder:
    monkeypatch.chdir(tmp_path)
    for name in ("OPENLINEAGE_URL", "OPENLINEAGE_CONFIG", "OPENLINEAGE_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    folder = ProjectFolder(tmp_path / "shop", SHOP)
    to_file(folder)
    return folder


def to_file(folder: ProjectFolder) -> None:
    place = folder.root.parent / "events.jsonl"
    transport = f"{{ type = 'file', log_file_path = '{place}', append = true }}"
    settings = f"[tool.vde]\nname = 'shop'\n[tool.vde.openlineage]\ntransport = {transport}\n"
    folder.write("pyproject.toml", settings)


def heard(folder: ProjectFolder) -> list[dict[str, Any]]:
    text = (folder.root.parent / "events.jsonl").read_text()
    events = [json.loads(line) for line in text.splitlines() if line]
    for event in events:
        judge(event)
    return events


def states(events: list[dict[str, Any]], job: str) -> list[str]:
    return [
        one["eventType"] for one in events if one.get("job", {}).get("name") == job and "run" in one
    ]


def test_a_receiver_hears_of_fills_audits_and_publications(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
        events = heard(shop)
    assert states(events, "marts.customers") == ["START", "RUNNING", "COMPLETE"]
    assert states(events, "marts.customers.audits") == ["START", "COMPLETE"]
    assert states(events, "apply.prod") == ["START", "COMPLETE"]
    done = next(
        one
        for one in events
        if one.get("eventType") == "COMPLETE" and one["job"]["name"] == "marts.customers"
    )
    (output,) = done["outputs"]
    assert output["facets"]["symlinks"]["identifiers"][0]["name"] == "marts.customers"
    assert output["facets"]["version"]["datasetVersion"].isdigit()
    lineage = output["facets"]["columnLineage"]
    (revenue,) = lineage["fields"]["revenue"]["inputFields"]
    assert (revenue["name"], revenue["field"]) == ("staging.orders", "amount")
    assert revenue["transformations"][0]["subtype"] == "AGGREGATION"
    kinds = {t["type"] for one in lineage["dataset"] for t in one["transformations"]}
    assert kinds == {"INDIRECT"}
    assert [one["name"] for one in done["inputs"]] == ["staging.orders"]
    assert "SELECT" in done["job"]["facets"]["sql"]["query"].upper()
    assert done["job"]["facets"]["sourceCodeLocation"]["path"] == "models/marts/customers.sql"
    shown = [one for one in events if "dataset" in one]
    assert {
        one["dataset"]["facets"]["lifecycleStateChange"]["lifecycleStateChange"] for one in shown
    } == {"CREATE"}
    top = next(
        one
        for one in events
        if one.get("eventType") == "COMPLETE" and one["job"]["name"] == "marts.top"
    )
    (read,) = top["inputs"]
    assert read["name"] == output["name"], "tables are joined by one name"
    assert read["facets"]["version"] == output["facets"]["version"], "the snapshot that was read"
    for event in events:
        # OpenMetadata finds the columns of an input by the name that the input has.
        inputs = {(one["namespace"], one["name"]) for one in event.get("inputs", ())}
        for made in event.get("outputs", ()):
            fields = made["facets"].get("columnLineage", {}).get("fields", {}).values()
            read_of = {(f["namespace"], f["name"]) for one in fields for f in one["inputFields"]}
            assert read_of <= inputs


@pytest.mark.proof
def test_audits_alone_and_tables_that_are_gone_are_heard(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
        workspace.maintenance.export("openlineage")
        before = heard(shop)
        audit_environment(workspace, "dev", (), None)
        workspace.maintenance.export("openlineage")
        audited = heard(shop)[len(before) :]
    assert states(audited, "marts.customers.audits") == ["START", "COMPLETE"]
    looked = next(one for one in audited if one["job"]["name"] == "marts.customers.audits")
    (dataset,) = looked["inputs"]
    (assertion,) = dataset["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert (assertion["assertion"], assertion["success"]) == ("unique_values", True)
    names = {one["dataset"]["name"] for one in before if "dataset" in one}
    assert dataset["name"] in names, "the dataset that the publication told of"
    clock = FakeClock(datetime.now(timezone.utc))
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.environments.drop("dev")
        for _ in range(3):  # Versions are forgotten, tables given up, and then dropped.
            clock.advance(days=90)
            workspace.maintenance.janitor()
        workspace.maintenance.export("openlineage")
    gone = [one["dataset"]["name"] for one in heard(shop) if "dataset" in one]
    assert dataset["name"] in gone


@pytest.mark.proof
def test_what_fails_and_what_is_dropped_is_heard(shop: ProjectFolder) -> None:
    with open_fake(shop.root, FakeSpark(["marts.customers"])) as workspace:
        with pytest.raises(VdeError):
            workspace.apply(workspace.plan("dev"))
        workspace.maintenance.export("openlineage")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
        workspace.environments.drop("dev")
        workspace.maintenance.janitor()
        workspace.maintenance.export("openlineage")
    events = heard(shop)
    assert states(events, "marts.customers")[:3] == ["START", "RUNNING", "FAIL"]
    assert states(events, "marts.customers")[-1] == "COMPLETE"
    ids = [
        one["run"]["runId"] for one in events if one.get("job", {}).get("name") == "marts.customers"
    ]
    assert len(set(ids)) == 2, "another attempt is another run"
    ended = [one["dataset"] for one in events if "dataset" in one][-1]
    assert ended["facets"]["lifecycleStateChange"]["lifecycleStateChange"] == "DROP"
    assert "__dev." in ended["name"]


class Server(ThreadingHTTPServer):
    """A server that also accepts a client that opens many connections at once."""

    request_queue_size = 128


class Receiver:
    """A receiver over HTTP that answers as a test wants.

    Args:
        answers: Returns the status for an event.
    """

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.taken: list[dict[str, Any]] = []
        self.answers: Callable[[dict[str, Any]], int] = lambda event: 200
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                receiver.got.append(event)
                status = receiver.answers(event)
                if status == 200:
                    receiver.taken.append(event)
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True)

    def listen(self, folder: ProjectFolder, kind: str = "http", login: str = "") -> None:
        url = f"http://{login}127.0.0.1:{self.server.server_port}"
        transport = f"{{ type = '{kind}', url = '{url}', timeout = 2, retry = {{ total = 0 }} }}"
        settings = f"[tool.vde]\nname = 'shop'\n[tool.vde.openlineage]\ntransport = {transport}\n"
        folder.write("pyproject.toml", settings)
        if not self.thread.is_alive():
            self.thread.start()


@pytest.fixture
def receiver(shop: ProjectFolder) -> Iterator[Receiver]:
    found = Receiver()
    found.listen(shop)
    yield found
    found.server.shutdown()
    found.server.server_close()
    for event in found.got:
        judge(event)


def test_a_receiver_that_is_down_gets_the_rest_later_and_the_same_ids(
    shop: ProjectFolder, receiver: Receiver
) -> None:
    receiver.answers = lambda event: 503 if len(receiver.got) > 5 else 200
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(ExecutionError, match="exporter 'openlineage' failed at record"):
            workspace.maintenance.export("openlineage")
        taken = list(receiver.taken)
        assert len(taken) == 5
        moved = workspace.store.outbox.cursor("openlineage")
        assert moved > 0, "what was acknowledged counts"
        with pytest.raises(ExecutionError, match="exporter 'openlineage' failed at record"):
            workspace.maintenance.export("openlineage")
        assert workspace.store.outbox.cursor("openlineage") == moved
        receiver.answers = lambda event: 200
        receiver.taken.clear()
        workspace.maintenance.export("openlineage")
        again = [one for one in receiver.taken if one in taken]
        assert len(again) < 3, "only events of the record at which it stopped come again"
        assert workspace.maintenance.export("openlineage").records == 0
    runs = [one["eventType"] for one in (*taken, *receiver.taken) if "run" in one]
    assert runs.count("COMPLETE") >= 6


@pytest.mark.parametrize("status", [422, 500])
def test_an_event_that_the_receiver_refuses_is_reported_and_does_not_block(
    shop: ProjectFolder, receiver: Receiver, status: int
) -> None:
    def answers(event: dict[str, Any]) -> int:
        poison = event.get("job", {}).get("name") == "marts.daily"
        return status if poison and event.get("eventType") == "START" else 200

    receiver.answers = answers
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        said = r"1 OpenLineage event could not be exported: START of marts\.daily"
        with pytest.raises(ExecutionError, match=said) as told:
            workspace.maintenance.export("openlineage")
        assert "openlineage_refused.jsonl" in (told.value.hint or "")
        assert workspace.maintenance.export("openlineage").records == 0, (
            "it continues behind the event"
        )
        kept = (shop.root / ".vde" / "openlineage_refused.jsonl").read_text().splitlines()
    (one,) = map(json.loads, kept)
    assert one["event"]["job"]["name"] == "marts.daily"
    assert str(status) in one["why"]
    assert states(receiver.taken, "marts.daily") == ["RUNNING", "COMPLETE"]
    assert states(receiver.taken, "apply.prod") == ["START", "COMPLETE"]
    assert [one for one in receiver.taken if "dataset" in one]


def test_events_that_a_transport_only_logs_as_lost_are_sent_again(
    shop: ProjectFolder, receiver: Receiver
) -> None:
    receiver.listen(shop, "async_http")
    receiver.answers = lambda event: 503
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(ExecutionError, match=r"at records 2 to .* status code: 503"):
            workspace.maintenance.export("openlineage")
        assert workspace.store.outbox.cursor("openlineage") == 0
        receiver.answers = lambda event: 200
        workspace.maintenance.export("openlineage")
        assert workspace.maintenance.export("openlineage").records == 0
    assert sorted(states(receiver.taken, "apply.prod")) == ["COMPLETE", "START"]


def test_the_reason_of_a_refused_event_has_no_password(
    shop: ProjectFolder, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LINEAGE_PASSWORD", "hush-hush")
    receiver.listen(shop, login="vde:${LINEAGE_PASSWORD}@")
    receiver.answers = lambda event: 422
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(ExecutionError, match="could not be exported"):
            workspace.maintenance.export("openlineage")
    kept = (shop.root / ".vde" / "openlineage_refused.jsonl").read_text()
    assert "422 Client Error" in kept
    assert "hush-hush" not in kept


@pytest.mark.parametrize(
    ("transport", "message"),
    [
        (
            "type = 'http', url = 'http://x', timout = 1",
            "transport.timout' is not a key of .*timeout",
        ),
        ("type = 'http', urI = 'http://x'", "refuses its transport: RuntimeError: `url` key not"),
        ("type = 'htpp', url = 'http://x'", "refuses its transport: ImportError: .*htpp"),
        ("type = 'noop'", "because it is disabled"),
    ],
)
def test_a_transport_that_cannot_send_is_one_message_and_skips_no_record(
    shop: ProjectFolder, transport: str, message: str
) -> None:
    settings = f"[tool.vde]\nname = 'shop'\n[tool.vde.openlineage]\ntransport = {{ {transport} }}\n"
    shop.write("pyproject.toml", settings)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(UsageError) as raised:
            workspace.maintenance.export("openlineage")
        assert re.search(message, str(raised.value))
        assert workspace.store.outbox.cursor("openlineage") == 0


def test_keys_in_the_spellings_of_openlineages_client_are_taken(
    shop: ProjectFolder, receiver: Receiver
) -> None:
    shop.edit("pyproject.toml", "timeout = 2", "timeout = 2, name = 'team', sslContext = {}")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        assert workspace.maintenance.export("openlineage").records
    assert receiver.taken


def test_a_key_that_openlineages_client_requires_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    from openlineage.client.transport.amazon_datazone import AmazonDataZoneTransport

    from vde_dagster.plugins.exports.openlineage.deliver import _open_client

    # It needs boto3.
    monkeypatch.setattr(AmazonDataZoneTransport, "_setup_datazone", lambda *_: None)
    given = {"type": "amazon_datazone_api", "domainId": "dzd_1", "region": "eu-west-1"}
    assert _open_client(given).transport.kind == "amazon_datazone_api"


def test_a_transport_that_cannot_be_closed_fails_once_and_leaves_no_log_handler(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    from openlineage.client import OpenLineageClient

    def close(client: OpenLineageClient) -> None:
        raise OSError("disk full")

    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with monkeypatch.context() as patched:
            patched.setattr(OpenLineageClient, "close", close)
            with pytest.raises(ExecutionError, match="disk full"):
                workspace.maintenance.export("openlineage")
        assert logging.getLogger("openlineage.client.transport").handlers == []
        assert workspace.maintenance.export("openlineage").records


@pytest.mark.parametrize(
    ("location", "namespace", "name"),
    [
        ("s3a://shop/lake/t1", "s3://shop", "lake/t1"),
        ("abfss://c@a.dfs.core.windows.net/t1/", "abfss://c@a.dfs.core.windows.net", "t1"),
        ("file:///data/t1", "file", "/data/t1"),
        ("file:/data/t1", "file", "/data/t1"),
        ("/data/c#/why?/t1", "file", "/data/c#/why?/t1"),
    ],
)
def test_a_dataset_has_the_name_of_openlineages_specification(
    location: str, namespace: str, name: str
) -> None:
    from vde_dagster.plugins.exports.openlineage.datasets import DatasetName

    assert DatasetName.from_location(location) == DatasetName(namespace, name)


def test_the_place_of_a_file_is_a_uri(shop: ProjectFolder) -> None:
    shop.write("models/my marts/ü.sql", "MODEL (name marts.other, kind FULL); SELECT 1 AS x")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    (made,) = [
        one["job"]["facets"]["sourceCodeLocation"]
        for one in heard(shop)
        if one.get("job", {}).get("name") == "marts.other" and one["eventType"] == "START"
    ]
    assert made["path"] == "models/my marts/ü.sql"
    assert made["url"] == "file:models/my%20marts/%C3%BC.sql"


def test_a_receiver_that_takes_nothing_stops_the_delivery(
    shop: ProjectFolder, receiver: Receiver
) -> None:
    statuses = iter([401, 404, 429])
    receiver.answers = lambda event: next(statuses)
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        for count in (1, 2, 3):
            with pytest.raises(ExecutionError, match="failed at record"):
                workspace.maintenance.export("openlineage")
            assert len(receiver.got) == count
        assert not (shop.root / ".vde" / "openlineage_refused.jsonl").exists()


def test_a_plan_starts_before_the_runs_that_it_is_the_parent_of(shop: ProjectFolder) -> None:
    failing = FakeSpark(["marts.customers"])
    with open_fake(shop.root, failing) as workspace, pytest.raises(VdeError):
        workspace.apply(workspace.plan("prod"))
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    runs = [one for one in heard(shop) if "run" in one]
    assert states(runs, "apply.prod") == ["START", "FAIL", "START", "COMPLETE"]
    started: dict[str, str] = {}
    for one in runs:
        parent = one["run"]["facets"].get("parent", {}).get("run", {}).get("runId")
        if parent is not None:
            assert started[parent] <= one["eventTime"], one["job"]["name"]
        if one["eventType"] == "START":
            assert one["run"]["runId"] not in started, "a run starts once"
            started[one["run"]["runId"]] = one["eventTime"]
        else:
            assert one["run"]["runId"] in started
    assert len(started) > 6


@pytest.mark.proof
@pytest.mark.parametrize(
    ("audit", "expected"),
    [
        ("not_null(columns := (revenue))", ["START", "COMPLETE"]),
        ("not_null(columns := (revenue), blocking := false)", ["START", "COMPLETE"]),
        ("accepted_range(column := revenue, min_v := 1000)", ["START", "FAIL"]),
        ("accepted_range(column := revenue, min_v := 1000, blocking := false)",
         ["START", "COMPLETE"]),
    ],
)  # fmt: skip
def test_an_audit_that_is_added_to_existing_rows_is_a_run(
    shop: ProjectFolder, audit: str, expected: list[str]
) -> None:
    model = "models/marts/customers.sql"
    shop.edit(model, "audits (unique_values(columns := (customer)))", "tags (people)")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    before = len(heard(shop))
    shop.edit(model, "tags (people)", f"tags (people), audits ({audit})")
    spark = FakeSpark(["marts.customers"] if "range" in audit else ())
    with open_fake(shop.root, spark) as workspace:
        with suppress(VdeError):
            workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    added = heard(shop)[before:]
    assert states(added, "marts.customers.audits") == expected
    assert states(added, "marts.customers") == [], "nothing was filled"
    assert states(added, "apply.prod") == ["START", expected[-1]]
    run = next(one for one in added if one.get("job", {}).get("name") == "marts.customers.audits")
    plan = next(one for one in added if one.get("job", {}).get("name") == "apply.prod")
    assert run["run"]["facets"]["parent"]["run"]["runId"] == plan["run"]["runId"]
    assertions = run["inputs"][0]["inputFacets"]["dataQualityAssertions"]["assertions"]
    assert audit.partition("(")[0] in [one["assertion"] for one in assertions]


@pytest.mark.proof
def test_views_over_reused_tables_are_created_and_a_drop_names_just_these(
    shop: ProjectFolder,
) -> None:
    shop.write(
        "models/hidden.sql",
        "MODEL (name marts.hidden, kind EMBEDDED); SELECT customer FROM staging.orders",
    )
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    first = len(heard(shop))
    assert lifecycles(heard(shop), "CREATE") >= {"marts.customers", "staging.orders"}
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("dev"))
        workspace.maintenance.export("openlineage")
    second = len(heard(shop))
    created = lifecycles(heard(shop)[first:], "CREATE")
    assert created == {
        *("marts__dev.customers", "marts__dev.daily", "marts__dev.top"),
        *("raw__dev.orders", "staging__dev.orders"),
    }, "views alone: the tables are there"
    with open_fake(shop.root) as workspace:
        workspace.environments.drop("dev")
        workspace.maintenance.janitor()
        workspace.maintenance.export("openlineage")
    assert lifecycles(heard(shop)[second:], "DROP") == created


def lifecycles(events: list[dict[str, Any]], change: str) -> set[str]:
    return {
        one["dataset"]["name"]
        for one in events
        if "dataset" in one
        and one["dataset"]["facets"].get("lifecycleStateChange", {}).get("lifecycleStateChange")
        == change
    }


def test_without_a_receiver_it_is_one_message(shop: ProjectFolder) -> None:
    shop.write("pyproject.toml", "[tool.vde]\nname = 'shop'\n")
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        with pytest.raises(UsageError, match="no transport for OpenLineage"):
            workspace.maintenance.export("openlineage")


class Interrupted(FakeSpark):
    """An engine during whose work on one model somebody presses Ctrl-C."""

    def fill(self, task: FillTask) -> FillResult:
        if "customers" in str(task.table.ref):
            raise KeyboardInterrupt
        return super().fill(task)


@pytest.mark.proof
def test_a_fill_that_is_stopped_is_an_aborted_run(shop: ProjectFolder) -> None:
    with open_fake(shop.root, Interrupted()) as workspace:
        with pytest.raises(KeyboardInterrupt):
            workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    events = heard(shop)
    assert states(events, "marts.customers") == ["START", "ABORT"]
    assert states(events, "apply.prod") == ["START", "FAIL"]
    assert not [one for one in events if "dataset" in one], "nothing was published"


def test_a_fill_whose_process_died_is_aborted_once(shop: ProjectFolder) -> None:
    clock = FakeClock()
    dying = FaultInjector(Fault("state.note_fill.commit", "kill_after"), clock, in_process=True)
    with open_fake(shop.root, effects=dying, clock=clock) as workspace:
        plan = workspace.plan("prod")
        with pytest.raises(ProcessKilled):
            workspace.apply(plan)
    clock.advance(hours=1)
    failing = FakeSpark(["marts.customers"])
    with open_fake(shop.root, failing, clock=clock) as workspace, pytest.raises(VdeError):
        workspace.apply(plan)
    clock.advance(hours=1)
    with open_fake(shop.root, clock=clock) as workspace:
        workspace.apply(plan)
        workspace.maintenance.export("openlineage")
    ends: dict[str, int] = {}
    for one in heard(shop):
        if one.get("eventType") in ("COMPLETE", "ABORT", "FAIL"):
            ends[one["run"]["runId"]] = ends.get(one["run"]["runId"], 0) + 1
    assert states(heard(shop), "apply.prod") == ["START", "FAIL", "START", "COMPLETE"]
    assert set(ends.values()) == {1}


@pytest.mark.proof
def test_a_rollback_is_heard_as_the_datasets_of_before(shop: ProjectFolder) -> None:
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
    first = shown(heard(shop))
    shop.edit("models/marts/customers.sql", "GROUP BY customer", "WHERE amount > 1 GROUP BY 1")
    (shop.root / "models/marts/top.sql").unlink()
    with open_fake(shop.root) as workspace:
        workspace.apply(workspace.plan("prod"))
        workspace.maintenance.export("openlineage")
        before = heard(shop)
        workspace.environments.rollback("prod")
        workspace.maintenance.export("openlineage")
    again = shown(heard(shop)[len(before) :])
    changed = {name.partition("__marts/")[2].partition("__")[0]: one for name, one in again.items()}
    assert {name: change for name, (change, _) in changed.items() if name} == {
        "customers": "ALTER",
        "top": "ALTER",
    }
    views = {name: change for name, (change, _) in again.items() if "__marts/" not in name}
    assert views == {"marts.customers": "ALTER", "marts.top": "CREATE"}
    for name, (_, version) in again.items():
        assert version == first[name][1], "the table of before, at its Iceberg snapshot of before"


def shown(events: list[dict[str, Any]]) -> dict[str, tuple[str, str | None]]:
    """Return the change and the version of each dataset that publications tell of."""
    facets = {
        one["dataset"]["name"]: one["dataset"]["facets"] for one in events if "dataset" in one
    }
    return {
        name: (
            one["lifecycleStateChange"]["lifecycleStateChange"],
            one.get("version", {}).get("datasetVersion"),
        )
        for name, one in facets.items()
    }
