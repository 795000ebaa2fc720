"""Secrets of settings leave the process by no text: every command is searched for every secret."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.base import secrets
from vde_dagster.base.secrets import MASK, mask, mask_logs, names_secret, remember_secret
from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.state.db.database import without_password
from vde_dagster_tests.cli.conftest import Vde
from vde_dagster_tests.cli.test_every_command import (
    COMMANDS,
    SLOW,
    _examples,
    _is_bounded,
)
from vde_dagster_tests.execution.fake_workspace import open_fake
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.secret_search import search

VALUES = {
    "PGPASS": "pg-pässword/1",
    "PGSSL": "ssl+pass=word2",
    "AWS_SECRET": "awssecretkey0003",
    "AWS_TOKEN": "session%token04",
    "HOOK": "hooktoken000005",
    "SYNC": "syncpass000006",
    "HEADER": "headertoken0007",
    "LINEAGE": "lineagekey0008",
    "SPARK": "sparkkey000009",
    "SHORT": "pw10",
    "WORD": "two words 0011",
}
LITERAL = ("literalkey0012", "literalsas0013", "literalpass014", "literalquery15")
SETTINGS = """
[tool.vde]
id = "shop"
state_url = "{state}"

[tool.vde.io]
"s3.access-key-id" = "me"
"s3.secret-access-key" = "${{AWS_SECRET}}"
"s3.session-token" = "${{AWS_TOKEN}}"
"adls.account-key" = "literalkey0012"
"adls.sas-token" = "literalsas0013"

[tool.vde.spark.config]
"spark.hadoop.fs.s3a.secret.key" = "${{SPARK}}"

[tool.vde.openlineage]
transport = {{ type = "http", url = "http://127.0.0.1:1/x?key=${{LINEAGE}}" }}
"""
UNREACHABLE = (
    "postgresql://anna:literalpass014@127.0.0.1:1/state?password=${PGPASS}&sslpassword=${PGSSL}"
    "&sslkey=literalquery15&application_name=${WORD}&connect_timeout=1&options=${SHORT}"
)


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put secrets into the environment, and forget them again afterwards."""
    for name, value in VALUES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("DAGSTER_HOME", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", "/nowhere")
    known, patterns = set(secrets._known), list(secrets._patterns)
    yield
    secrets._known.clear()
    secrets._known.update(known)
    secrets._patterns[:] = patterns


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    made = ProjectFolder(tmp_path_factory.mktemp("secrets") / "shop", SHOP)
    with open_fake(made.root) as workspace:
        workspace.apply(workspace.plan("prod"))
    made.edit("models/marts/top.sql", "revenue DESC", "revenue")
    return made


def _found(texts: str) -> list[str]:
    return [value for value in (*VALUES.values(), *LITERAL) if value in texts]


def _written(root: Path) -> str:
    """Return what was written to files of logs and reports."""
    logs = [path for path in (root / ".vde").rglob("*.log") if path.is_file()]
    return "".join(path.read_text("utf-8", errors="replace") for path in logs)


@pytest.mark.proof
@pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, marks=SLOW.get(command, ()))
        for command in COMMANDS
        if _is_bounded(command)
    ],
)
@pytest.mark.parametrize("state", ["reachable", "unreachable"])
def test_no_command_shows_a_secret(
    command: str, state: str, shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Workspace) -> None:
        raise ExecutionError(f"Spark failed with {VALUES['SPARK']} at {UNREACHABLE}")

    monkeypatch.setattr(Workspace, "engine", broken)
    url = f"sqlite:///{shop.root}/.vde/vde.db" if state == "reachable" else UNREACHABLE
    shop.write("pyproject.toml", SETTINGS.format(state=url))
    monkeypatch.chdir(shop.root)
    for words in _examples(command):
        for more in ([], ["--json"], ["--debug"]):
            ended = vde(*words, *more)
            assert not _found(ended.out), (words, more)
            assert not _found(ended.err), (words, more)
    assert not _found(_written(shop.root))


def test_info_shows_where_the_state_is_without_its_secrets(
    shop: ProjectFolder, vde: Vde, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASS", "first0001")
    shop.write("pyproject.toml", SETTINGS.format(state=UNREACHABLE))
    ended = vde("plan", "prod", "--project", shop.root)
    assert "anna:***@127.0.0.1:1/state?application_name=***&connect_timeout=1" in ended.err
    assert "&password=***&sslkey=***&sslpassword=***" in ended.err
    shown = without_password("postgresql:///db?password=first0001&sslmode=require&user=a")
    assert shown == "postgresql:///db?password=***&sslmode=require&user=a"


URLS = {
    "postgresql://u:secret00@h:1/d?sslmode=require": "postgresql://u:***@h:1/d?sslmode=require",
    "postgresql:///d?host=h&password=secret00": "postgresql:///d?host=h&password=***",
    "postgresql+psycopg://h/d?passfile=/x&sslpassword=s": (
        "postgresql+psycopg://h/d?passfile=***&sslpassword=***"
    ),
    "jdbc:postgresql://h/d?user=a&password=secret00": "jdbc:postgresql://h/d?user=a&password=***",
    "jdbc:sqlserver://h;user=a;password=secret00;x=1": (
        "jdbc:sqlserver://h;user=a;password=***;x=***"
    ),
    "https://a.blob.core.windows.net/c?sv=1&sig=secret00": (
        "https://a.blob.core.windows.net/c?sv=***&sig=***"
    ),
    "https://hooks.example/x?code=secret00#top": "https://hooks.example/x?code=***#top",
    "see (https://u:secret00@h/x?Token=secret00), then": "see (https://u:***@h/x?Token=***), then",
    "http://dagster/assets/a/b?view=partitions&partition=c": (
        "http://dagster/assets/a/b?view=partitions&partition=c"
    ),
    "postgresql://u:a/b?c#d:e@h/d": "postgresql://u:***@h/d",
    "redis://:secret00@h:6379/0": "redis://:***@h:6379/0",
    "http://127.0.0.1:3000/site/prod@41/": "http://127.0.0.1:3000/site/prod@41/",
    "s3://key:secret00@bucket/a": "s3://key:***@bucket/a",
    "host=h password=secret00 dbname=d": "host=h password=*** dbname=d",
    "host=h password='secret 00' dbname=d": "host=h password=*** dbname=d",
    "SELECT a = b, 'password' FROM t WHERE x >= 1": "SELECT a = b, 'password' FROM t WHERE x >= 1",
}


@pytest.mark.parametrize("text", URLS)
def test_urls_are_shown_without_logins_and_values_that_may_be_secrets(text: str) -> None:
    assert mask(text) == URLS[text]
    assert str(UsageError(text)) == URLS[text]


@pytest.mark.parametrize(
    ("name", "is_secret"),
    [
        ("password", True), ("db_password", True), ("sslpassword", True), ("token", True),
        ("s3.secret-access-key", True), ("s3.session-token", True), ("adls.sas-token", True),
        ("adls.account-key", True), ("credential", True), ("api_key", True), ("api-key", True),
        ("Authorization", True), ("spark.hadoop.fs.s3a.secret.key", True), ("sig", True),
        ("passphrase", True), ("client_secret", True), ("private_key", True), ("pwd", True),
        ("s3.access-key-id", False), ("s3.endpoint", False), ("s3.region", False),
        ("oauth2-server-uri", False), ("spark.sql.shuffle.partitions", False), ("monkey", False),
    ],
)  # fmt: skip
def test_settings_are_secrets_by_their_names(name: str, *, is_secret: bool) -> None:
    assert names_secret(name) == is_secret


@pytest.mark.parametrize("value", [*VALUES.values(), "päß\nword", 'quo"te\\d0001'])
def test_a_known_value_is_shown_in_none_of_its_spellings(value: str) -> None:
    import json
    from urllib.parse import quote, quote_plus

    remember_secret(value)
    texts = {value, quote(value), quote(value, safe=""), quote_plus(value), repr(value)}
    for text in texts:
        assert value not in mask(f"x {text} y")
        assert MASK in mask(f"x {text} y")
    data = mask({"a": [value, {"b": f"see {value}"}], "n": 1})
    assert value not in json.dumps(data, ensure_ascii=False)
    assert data["n"] == 1


def test_short_values_are_no_parts_of_words() -> None:
    remember_secret("prod")
    remember_secret("ab")
    assert mask("prod, production and ab") == f"{MASK}, production and ab"


def test_logs_of_this_process_have_no_secrets(caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogRecordFactory()
    try:
        mask_logs()
        remember_secret("logged-secret-1")
        log = logging.getLogger("some.library")
        with caplog.at_level(logging.DEBUG):
            log.warning("connecting to %s", "postgresql://u:pw12@h/d with logged-secret-1")
            try:
                raise ValueError("wrong logged-secret-1")
            except ValueError:
                log.exception("failed")
            log.info({"key": "logged-secret-1"})
    finally:
        logging.setLogRecordFactory(before)
    assert "logged-secret-1" not in caplog.text
    assert "u:***@h/d with ***" in caplog.text
    assert "wrong ***" in caplog.text


def test_no_text_shows_a_random_secret_in_any_form() -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    found = search(random.Random(seed), 60)
    assert found.texts > 500
    assert not found.shown


def test_dagsters_events_have_no_secrets() -> None:
    import dagster as dg

    from vde_dagster.orchestration.events.secrets import without_secrets

    remember_secret("metadata-secret-1")
    text = "see metadata-secret-1 at postgresql://u:pw12@h/d?password=x"
    metadata: dict[str, Any] = {
        "text": text,
        "md": dg.MetadataValue.md(text),
        "url": dg.MetadataValue.url(f"https://h/x?key={text}"),
        "json": dg.MetadataValue.json({"a": [text]}),
        "number": 1,
    }
    key = dg.AssetKey(["a"])
    for event in (
        dg.AssetMaterialization(asset_key=key, description=text, metadata=metadata),
        dg.AssetObservation(asset_key=key, description=text, metadata=metadata),
        dg.AssetCheckEvaluation(
            asset_key=key, check_name="c", passed=True, description=text, metadata=metadata
        ),
    ):
        made = without_secrets(event)
        assert "metadata-secret-1" not in repr(made)
        assert "pw12" not in repr(made)
        assert MASK in repr(made)
        assert made.metadata["number"] == event.metadata["number"]
    plain = dg.AssetObservation(asset_key=key, metadata={"text": "nothing"})
    assert without_secrets(plain) is plain


def test_events_of_openlineage_have_no_secrets() -> None:
    from openlineage.client.event_v2 import Job, JobEvent
    from openlineage.client.facet_v2 import sql_job
    from openlineage.client.serde import Serde

    from vde_dagster.plugins.exports.openlineage.deliver import _mask_secrets

    remember_secret("lineage-secret-1")
    facet = sql_job.SQLJobFacet(query="SELECT 'lineage-secret-1'")
    job = Job(namespace="postgresql://u:pw12@h/d", name="a", facets={"sql": facet})
    event = JobEvent(eventTime="2024-01-01T00:00:00Z", job=job, producer="https://x", inputs=[])
    text = Serde.to_json(_mask_secrets(event))
    assert "lineage-secret-1" not in text
    assert "pw12" not in text
    assert '"name": "a"' in text


def test_a_sync_names_its_place_without_secrets_and_keeps_it() -> None:
    from vde_dagster.plugins.sync.postgresql import PostgresqlSink

    def place(query: str) -> str:
        url = f"postgresql://anna:pw12@sync-host-1/d{query}"
        return PostgresqlSink(url=url, table="a.t").place

    before = place("?sslmode=require")
    remember_secret("sync-host-1")
    assert place("?sslmode=require") == before, "rows of another place would be sent again"
    assert "sync-host-1/d?sslmode=require" in before
    assert "pw12" not in before
    assert "query-pw-1" not in place("?password=query-pw-1&sslpassword=query-pw-1")


def test_a_configuration_of_sqlmesh_has_secrets_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vde_dagster.project.yaml_text import load_rendered_yaml

    monkeypatch.setenv("WAREHOUSE_PASSWORD", "yaml-secret-1")
    monkeypatch.setenv("WAREHOUSE_REGION", "europe-west")
    text = "a: \"{{ env_var('WAREHOUSE_PASSWORD') }} {{ env_var('WAREHOUSE_REGION') }}\""
    found = load_rendered_yaml(Path("config.yaml"), text, lambda name: None, set(), "")
    assert found.value == {"a": "yaml-secret-1 europe-west"}
    assert mask("yaml-secret-1 europe-west") == f"{MASK} europe-west"
