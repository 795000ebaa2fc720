"""Masters that nobody answers at are named in time, without a JVM."""

from __future__ import annotations

import os
import pty
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import StoreError
from vde_dagster.spark.session.connect import check_master
from vde_dagster_tests.projects import ProjectFolder


@pytest.fixture
def closed_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def open_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


def test_a_master_that_nobody_listens_at_is_named(closed_port: int) -> None:
    master = f"spark://127.0.0.1:{closed_port}"
    with pytest.raises(StoreError, match=rf"{master} cannot be reached: .* refuses connections"):
        check_master(master)


def test_one_of_several_that_answers_is_enough(closed_port: int, open_port: int) -> None:
    check_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{open_port}")
    check_master("local[2]")
    check_master("yarn")


@pytest.mark.parametrize(
    "master", ["spark://nowhere.invalid:7077", "spark://192.0.2.1:7077", "k8s://https://192.0.2.1"]
)
def test_an_address_without_an_answer_is_named_in_time(master: str) -> None:
    began = time.monotonic()
    with pytest.raises(StoreError) as found:
        check_master(master, seconds=2)
    assert f"the Spark master {master} cannot be reached: " in found.value.message
    assert time.monotonic() - began < 5


def test_a_server_of_spark_connect_that_nobody_runs_is_named(closed_port: int) -> None:
    master = f"sc://127.0.0.1:{closed_port}/;token=abc"
    with pytest.raises(StoreError, match=r"cannot be reached: .* refuses connections") as found:
        check_master(master)
    assert "abc" not in found.value.message


@pytest.mark.proof
def test_an_apply_names_the_master_and_only_a_terminal_hears_of_starting(
    tmp_path: Path, closed_port: int
) -> None:
    master = f"spark://127.0.0.1:{closed_port}"
    folder = ProjectFolder(
        tmp_path / "shop",
        {
            f"models/m{number}.sql": f"MODEL (name db.m{number}, kind FULL); SELECT 1 AS a"
            for number in range(8)
        },
    )
    folder.write("pyproject.toml", f'[tool.vde.spark]\nmaster = "{master}"')
    command = [sys.executable, "-m", "vde_dagster.cli", "apply", "prod", "--yes"]
    command += ["--project", str(folder.root)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 2
    address = master.removeprefix("spark://")
    said = f"the Spark master {master} cannot be reached: {address} refuses connections"
    assert f"error: {said}" in ended.stderr
    assert "hint: check `master` under" in ended.stderr
    assert "starting Spark" not in ended.stderr

    looking = [*command[:3], "plan", "prod", "--check", "--project", str(folder.root)]
    shown = _on_a_terminal(looking)
    assert f"starting Spark ({master}) with Spark's default memory" in shown
    assert said in shown


def _on_a_terminal(command: list[str]) -> str:
    """Run a command whose streams are a terminal, and return what that showed."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "300"}
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment, close_fds=True
    )
    os.close(theirs)
    shown, until = b"", time.monotonic() + 60
    while time.monotonic() < until:
        ready, _, _ = select.select([ours], [], [], 1)
        try:
            part = os.read(ours, 65536) if ready else b""
        except OSError:  # Linux: the other end is closed.
            break
        shown += part
        if not part and process.poll() is not None:
            break
    process.wait(timeout=10)
    os.close(ours)
    return shown.decode("utf-8", "replace").replace("\r", "")
