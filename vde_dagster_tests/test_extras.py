"""Extras in environments that have nothing but the wheel: the hint of a command that lacks one
installs it, and then the command works.

The packages are those of the locks.
"""

from __future__ import annotations

import json
import re
import sys
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import psycopg
import pytest

from vde_dagster_tests.built_wheel import ROOT, Installed, build_wheel, empty_environment
from vde_dagster_tests.metrics.conftest import METRICS
from vde_dagster_tests.projects import SHOP, ProjectFolder
from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.sync.world import Shop

pytestmark = [pytest.mark.proof, pytest.mark.turns(14)]

READ_AIRLINES = """
from models.raw.nycflights import read_file
print(len(read_file("airlines.csv", {"carrier": "STRING", "name": "STRING"})))
"""
INITIALIZE = json.dumps(
    {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "initialize",
        "params": {"processId": None, "rootUri": None, "capabilities": {}},
    }
)


def _message(stream: IO[bytes]) -> dict[str, object]:
    header = stream.readline()
    assert header, "the language server ended"
    while stream.readline().strip():
        continue
    length = int(header.decode().removeprefix("Content-Length:"))
    message: dict[str, object] = json.loads(stream.read(length))
    return message


def answers_an_editor(installed: Installed) -> None:
    with installed.start("lsp") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"Content-Length: {len(INITIALIZE)}\r\n\r\n{INITIALIZE}".encode())
        process.stdin.flush()
        try:
            answer = _message(process.stdout)
        finally:
            process.kill()
    assert "capabilities" in answer["result"]  # type: ignore[operator]


def serves(installed: Installed) -> None:
    with installed.start("serve --port 0 --json") as process:
        assert process.stdout is not None
        printed = process.stdout.readline()
        while printed and not printed.rstrip().endswith(b"}"):
            line = process.stdout.readline()
            printed = line and printed + line
        assert printed, "the server ended"
        url = json.loads(printed)["url"]
        try:
            with urllib.request.urlopen(f"{url}/v1/config?warehouse=prod", timeout=60) as answer:
                found = json.load(answer)
        finally:
            process.kill()
    assert found.keys() >= {"defaults", "overrides"}


def makes_a_key(installed: Installed) -> None:
    installed.vde("keys make k")
    assert "PRIVATE KEY" in (installed.root / "k.pem").read_text()


def lists_metrics(installed: Installed) -> None:
    assert "revenue" in installed.vde("metrics list")


def notifies(installed: Installed) -> None:
    assert "team accepted the message" in installed.vde("notify test team")


def checks_policies(installed: Installed) -> None:
    assert json.loads(installed.vde("plan prod --json"))["models"]


def reads_a_notebook(installed: Installed) -> None:
    planned = json.loads(installed.vde("plan prod --json"))
    assert "marts.book" in {model["name"] for model in planned["models"]}


def keeps_its_state_in_postgresql(installed: Installed) -> None:
    installed.vde("plan prod")
    with psycopg.connect(installed.variables["VDE_STATE_URL"]) as database:
        assert database.execute("SELECT count(*) FROM vde_plans").fetchone() == (1,)


def records_in_postgresql(installed: Installed) -> None:
    installed.vde("sync")
    url = installed.variables["URL"].replace("+psycopg2", "")
    with psycopg.connect(url) as database:
        assert database.execute("SELECT count(*) FROM event_logs").fetchone() is not None


def exports_events(installed: Installed) -> None:
    installed.vde("export openlineage")


def sends_rows_by_dlt(installed: Installed) -> None:
    assert "5" in installed.vde("sync run prod latest")
    assert any((installed.root / "bucket" / "crm" / "daily").iterdir())


def compiles_by_dbt(installed: Installed) -> None:
    planned = json.loads(installed.vde("plan prod --json"))
    assert planned["models"]


def reads_the_example(installed: Installed) -> None:
    code, printed, errors = installed.run(["python", "-c", READ_AIRLINES], ROOT)
    assert (code, printed) == (0, "16\n"), errors


def parses_by_compiled_code(installed: Installed) -> None:
    where = "import sqlglot.parser as p; print(p.__file__)"
    _, printed, _ = installed.run(["python", "-c", where])
    assert printed.endswith(".so\n" if sys.version_info >= (3, 11) else ".py\n")
    installed.vde("plan prod")


CELL = {"cell_type": "raw", "source": "MODEL (name marts.book, kind FULL);", "metadata": {}}
QUERY = {
    "cell_type": "code",
    "source": "%%sql\nSELECT 1 AS n",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
}
NOTEBOOK = {"cells": [CELL, QUERY], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
STORAGE = """
storage:
  custom:
    module: vde_dagster.orchestration.postgres_storage
    class: BatchedPostgresStorage
    config: {postgres_url: {env: URL}}
"""
TO = {
    "destination": "filesystem",
    "options": {"bucket_url": "bucket"},
    "dataset": "crm",
    "table": "daily",
}
SYNC = {"name": "latest", "source": "marts.daily", "mode": "append", "sink": "dlt"}
PROFILE = """
shop:
  target: dev
  outputs: {dev: {type: spark, method: session, schema: shop, host: NA}}
"""
DBT = {
    "dbt_project.yml": "name: shop\nversion: '1.0.0'\nconfig-version: 2\nprofile: shop\n",
    "profiles.yml": PROFILE,
    "models/numbers.sql": "select 1 as n",
    "pyproject.toml": "[tool.vde]\nname = 'shop'\nstart = '2024-01-01'\n",
}


@dataclass(frozen=True)
class Case:
    """An extra in use.

    Args:
        check: Uses the extra.
        command: Command of `vde` that prints the hint; empty if no command needs the extra.
        files: Files of the project.
        settings: Its settings below `[tool.vde]`.
        database: Variable with the URL of a new database in PostgreSQL.
    """

    check: Callable[[Installed], None]
    command: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: str = ""
    database: str = ""


CASES = {
    "editor": Case(answers_an_editor, "lsp"),
    "serve": Case(serves, "serve --port 0"),
    "sign": Case(makes_a_key, "keys make k"),
    "metrics": Case(
        lists_metrics, "metrics list", {**SHOP, "metrics/shop.yaml": METRICS.read_text()}
    ),
    "notify": Case(
        notifies,
        "notify test team",
        settings="notify = { targets = { team = { url = 'console://vde', "
        "events = ['run_failed'] } } }",
    ),
    "policies": Case(
        checks_policies,
        "plan prod",
        {"policies.yaml": "- {name: r, require: 'true', message: never}"},
        "policies = { files = ['policies.yaml'] }",
    ),
    "notebook": Case(
        reads_a_notebook, "plan prod", {"models/marts/book.ipynb": json.dumps(NOTEBOOK)}
    ),
    "postgres": Case(keeps_its_state_in_postgresql, "fsck", database="VDE_STATE_URL"),
    "dagster-postgres": Case(
        records_in_postgresql, "sync", {"home/dagster.yaml": STORAGE}, database="URL"
    ),
    "openlineage": Case(
        exports_events,
        "export openlineage",
        settings="openlineage = { transport = { type = 'file', log_file_path = 'events.json', "
        "append = true } }",
    ),
    "dlt": Case(sends_rows_by_dlt, "sync run prod latest"),
    "dbt": Case(compiles_by_dbt, "plan prod", DBT),
    "example": Case(reads_the_example),
    "fast": Case(parses_by_compiled_code),
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def empty(wheel: Path, tmp_path: Path) -> Iterator[Installed]:
    """An environment with the wheel and the packages that it requires."""
    with empty_environment(wheel, tmp_path) as installed:
        installed.install(f"uv pip install --quiet --python {installed.home} {wheel}")
        yield installed


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    """A running PostgreSQL server."""
    server = PostgresServer()
    yield server
    server.stop()


def test_every_extra_for_users_is_tried() -> None:
    described = (ROOT / "pyproject.toml").read_text()
    extras = described.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    assert CASES.keys() == set(re.findall(r"^([\w-]+) = ", extras, re.MULTILINE)) - {"dev", "docs"}


@pytest.mark.parametrize("extra", CASES)
def test_the_hint_of_a_command_installs_its_extra(
    extra: str, empty: Installed, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    case, root = CASES[extra], tmp_path / "shop"
    if extra in ("dlt", "serve"):
        shop = Shop(root)
        shop.publish()
        shop.define(**SYNC, key=None, to={"prod": TO})
    else:
        settings = f"[tool.vde]\nname = 'shop'\n{case.settings}\n"
        files = case.files if extra == "dbt" else {**SHOP, **case.files}
        ProjectFolder(root, {"pyproject.toml": settings, **files})
    empty.root = root
    empty.variables["DAGSTER_HOME"] = str(root / "home")
    if case.database:
        server: PostgresServer = request.getfixturevalue("postgres")
        url = server.url(server.create_database())
        # dagster-postgres has psycopg2 only, and SQLAlchemy 2.1 prefers psycopg 3.
        driver = "postgresql+psycopg2:" if case.database == "URL" else "postgresql:"
        empty.variables[case.database] = f"{driver}{url.partition(':')[2]}"
    needed = f"'{empty.wheel}[{extra}]'"
    if extra == "openlineage":
        empty.vde("plan prod")
    if case.command:
        code, _, errors = empty.run(["vde", *case.command.split()])
        assert code == 2, errors
        hint = re.search(
            rf"^hint: .*run (uv pip install .*{re.escape(needed)})$", errors, re.MULTILINE
        )
        assert hint, errors
        empty.install(hint[1])
    else:
        empty.install(f"uv pip install --python {empty.home} {needed}")

    case.check(empty)
