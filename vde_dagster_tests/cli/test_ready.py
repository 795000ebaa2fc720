"""Commands in copies of a process that has everything imported: as processes of their own are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.spark.ready.client import COMMANDS
from vde_dagster.spark.ready.protocol import SOCKET
from vde_dagster.spark.session.warm import WarmEngine
from vde_dagster_tests.processes import is_running, until
from vde_dagster_tests.projects import ProjectFolder

pytestmark = pytest.mark.server

PROBE = """
    import json, os, sys, time
    from pathlib import Path

    from vde_dagster import macro


    @macro()
    def probe(evaluator):
        told = {
            "parent": os.getppid(),
            "folder": os.getcwd(),
            "name": os.environ.get("NAME"),
            "stdin": sys.stdin.read(),
            "encoding": sys.stdout.encoding,
            "mask": os.umask(0o77),
            "arguments": sys.argv[1:],
        }
        Path(os.environ["PROBE"]).write_text(json.dumps(told))
        if "ENDS" in os.environ:
            os._exit(9)
        time.sleep(float(os.environ.get("SLEEP", 0)))
        return "1"
"""
FILES = {
    "models/a.sql": "MODEL (name m.a, kind FULL); SELECT id FROM range(4)",
    "models/b.sql": "MODEL (name m.b, kind FULL); SELECT nothing FROM m.a",
    "models/probed.sql": "MODEL (name m.probed, kind FULL); SELECT @probe() AS x",
    "macros/__init__.py": "",
    "macros/probe.py": PROBE,
}


class Ready:
    """A project with a ready process, of which an engine's record says that it may live."""

    def __init__(self, root: Path) -> None:
        self.project = ProjectFolder(root, FILES)
        self.probed = root / "probed.json"
        self.environment = {**os.environ, "PROBE": str(self.probed), "OPENBLAS_NUM_THREADS": "1"}
        self.folder = root / ".vde" / "engine"
        self.folder.mkdir(parents=True, mode=0o700)
        self.module = root / "beside" / "of_the_user.py"
        self.module.parent.mkdir()
        self.module.touch()
        self.environment["PYTHONPATH"] = str(self.module.parent)
        self._numbers = count()
        self._engine = WarmEngine(os.getpid(), os.getpid(), 1, "", "", 0.0)
        self._record = self._engine.write(self.folder)
        self.start()

    def start(self) -> None:
        """Start the process and wait until it takes commands."""
        words = [sys.executable, "-m", "vde_dagster.spark.ready.process", str(self.folder)]
        self.process = subprocess.Popen(words, stdin=subprocess.PIPE, env=self.environment)
        assert self.process.stdin is not None
        modules = [
            "pandas",
            "pyspark.sql.connect.session",
            "of_the_user",
            "there_is_none",
            f"{COMMANDS}:prepare",
        ]
        with self.process.stdin as file:
            file.write(json.dumps([*modules, f"{COMMANDS}:prepare"]).encode())
        until(lambda: (self.folder / SOCKET).exists())

    def end_engine(self) -> None:
        """Let the engine end."""
        self._record.close()
        self._engine.forget(self.folder)

    def begin(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """Begin a command."""
        self.probed.unlink(missing_ok=True)
        probed = FILES["models/probed.sql"].replace(" x", f" x{next(self._numbers)}")
        self.project.write("models/probed.sql", probed)  # What is known is not asked again.
        return subprocess.Popen(
            [sys.executable, "-m", "vde_dagster.cli", *words],
            cwd=self.project.root,
            env=self.environment | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
        )

    def run(self, *words: str, given: str = "", **variables: str) -> tuple[int, str, str]:
        """Run a command; return its code and what it printed."""
        process = self.begin(*words, **variables)
        out, err = process.communicate(given, timeout=60)
        return process.returncode, out, err

    @property
    def told(self) -> dict[str, Any]:
        """What the probe saw."""
        told: dict[str, Any] = json.loads(self.probed.read_text())
        return told

    @property
    def was_used(self) -> bool:
        """Whether the last command ran in a copy."""
        return self.told["parent"] == self.process.pid


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ready]:
    ready = Ready(tmp_path_factory.mktemp("ready"))
    yield ready
    ready.end_engine()
    assert ready.process.wait(60) == 0
    assert not (ready.folder / SOCKET).exists()


@pytest.mark.parametrize(
    "words",
    [
        ("render", "m.a"),
        ("render", "m.gone", "--json"),
        ("info", "--nonsense"),
        ("info", "--project", "nowhere"),
    ],
    ids=" ".join,
)
def test_a_copy_prints_and_ends_as_the_command_would(ready: Ready, words: tuple[str, ...]) -> None:
    by_itself = ready.run(*words, PYTHONHASHSEED="1")
    assert ready.run(*words) == by_itself


def test_a_copy_has_the_commands_streams_folder_variables_and_mask(ready: Ready) -> None:
    mask = os.umask(0o27)
    try:
        assert ready.run("render", "m.probed", given="é\n", NAME="x")[0] == 0
    finally:
        os.umask(mask)
    told = ready.told
    assert told.pop("parent") == ready.process.pid
    assert told.pop("encoding").lower() == "utf-8"
    assert told == {
        "folder": str(ready.project.root),
        "name": "x",
        "stdin": "é\n",
        "mask": 0o27,
        "arguments": ["render", "m.probed"],
    }


def test_where_python_would_begin_otherwise_a_command_runs_itself(ready: Ready) -> None:
    assert ready.run("render", "m.probed", PYTHONIOENCODING="iso8859-1")[0] == 0
    assert not ready.was_used
    assert ready.told["encoding"] == "iso8859-1"


def test_copies_run_at_once_and_see_files_as_they_are_now(ready: Ready) -> None:
    first = ready.begin("render", "m.probed", SLEEP="3")
    assert first.stdin is not None
    first.stdin.close()
    until(ready.probed.exists)
    ready.project.write("models/a.sql", FILES["models/a.sql"].replace("range(4)", "range(5)"))
    assert "5" in ready.run("render", "m.a")[1]
    assert first.poll() is None
    assert first.wait(60) == 0


def test_ctrl_c_reaches_the_copy(ready: Ready) -> None:
    command = ready.begin("render", "m.probed", SLEEP="60")
    assert command.stdin is not None
    command.stdin.close()
    until(ready.probed.exists)
    command.send_signal(signal.SIGINT)
    assert command.wait(60) == 130
    children = Path(f"/proc/{ready.process.pid}/task/{ready.process.pid}/children")
    until(lambda: not children.read_text().split())


def test_to_kill_a_command_is_to_kill_its_copy(ready: Ready) -> None:
    command = ready.begin("render", "m.probed", SLEEP="60")
    assert command.stdin is not None
    command.stdin.close()
    until(ready.probed.exists)
    children = Path(f"/proc/{ready.process.pid}/task/{ready.process.pid}/children")
    [copy] = map(int, children.read_text().split())
    command.kill()
    until(lambda: not is_running(copy))
    assert ready.run("render", "m.a")[0] == 0


def test_a_copy_that_dies_is_said(ready: Ready) -> None:
    code, _, err = ready.run("render", "m.probed", ENDS="1")
    assert (code, err) == (1, "error: the process that ran the command was ended\n")


def test_nothing_runs_in_the_ready_process_that_a_copy_would_lack(ready: Ready) -> None:
    tasks = Path(f"/proc/{ready.process.pid}/task").iterdir()
    names = sorted((task / "comm").read_text().strip() for task in tasks)
    names.remove("jemalloc_bg_thd")  # Arrow's allocator does without it after a fork.
    assert len(names) == 1


def test_a_module_that_changed_ends_it(ready: Ready) -> None:
    ready.module.write_text("changed = True")
    assert ready.run("render", "m.probed")[0] == 0
    assert not ready.was_used
    assert ready.process.wait(60) == 0
    ready.start()
    assert ready.run("render", "m.probed")[0] == 0
    assert ready.was_used


def test_no_two_of_them(ready: Ready) -> None:
    words = [sys.executable, "-m", "vde_dagster.spark.ready.process", str(ready.folder)]
    assert subprocess.run(words, input=b"[]", env=ready.environment, timeout=60).returncode == 0
    assert ready.run("render", "m.probed")[0] == 0
    assert ready.was_used
