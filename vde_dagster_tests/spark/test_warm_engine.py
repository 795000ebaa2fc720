"""A Spark that stays in the background: shared, kept to its user, ended, replaced."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.execution.workspace import Workspace
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster.spark.session.warm import (
    WarmEngine,
    exercise_folder,
    find_engine,
    join_engine,
    stop_engines,
)
from vde_dagster_tests.processes import is_running, until
from vde_dagster_tests.projects import ProjectFolder

pytestmark = [pytest.mark.spark, pytest.mark.server, pytest.mark.turns(9, "warm engines")]

FILES = {
    "models/base.sql": "MODEL (name m.base, kind FULL); SELECT id, id * 2 AS n FROM range(4)",
    "models/sums.sql": "MODEL (name m.sums, kind FULL); SELECT sum(n) AS total FROM m.base",
    "models/counted.py": """
        from pyspark.sql.functions import count, lit

        from vde_dagster import model


        @model("m.counted", kind="FULL", columns={"n": "BIGINT"}, depends_on=["m.base"])
        def counted(context, **kwargs):
            return context.table("m.base").agg(count(lit(1)).alias("n"))
    """,
    "tests/test_sums.yaml": """
        test_sums:
          model: m.sums
          inputs:
            m.base: [{id: 1, n: 3}, {id: 2, n: 4}]
          outputs:
            query: [{total: 7}]
    """,
}
CONFIG = """
    [tool.vde.spark]
    master = "local[2]"
    {more}

    [tool.vde.spark.config]
    "spark.driver.memory" = "{memory}"
"""
LONG = "SELECT count(*) FROM range(0, 1000000000000, 1, 1) WHERE sqrt(id) * rand() < 0"


def _project(root: Path, memory: str = "1g", more: str = "") -> ProjectFolder:
    return ProjectFolder(root, {**FILES, "pyproject.toml": CONFIG.format(memory=memory, more=more)})


def _command(folder: ProjectFolder, *words: str) -> list[str]:
    return [sys.executable, "-m", "vde_dagster.cli", *words, "--project", str(folder.root)]


def _begun(folder: ProjectFolder, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        _command(folder, *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_with_ctrl_c,
    )


def _vde(folder: ProjectFolder, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ended = subprocess.run(
        _command(folder, *words), capture_output=True, text=True, check=False, timeout=600
    )
    assert ended.returncode == code, ended.stdout + ended.stderr
    return ended


def _engine(folder: ProjectFolder) -> WarmEngine:
    found = find_engine(folder.root / ".vde" / "engine")
    assert found is not None
    return found


def _rows(folder: ProjectFolder, query: str, environment: str = "prod") -> list[Any]:
    found = json.loads(_vde(folder, "query", environment, query, "--json").stdout)
    return [list(row.values()) if isinstance(row, dict) else row for row in found["rows"]]


def _pids(engine: WarmEngine) -> tuple[int, int]:
    return engine.pid, engine.jvm_pid


def _with_ctrl_c() -> None:
    # A shell that starts the tests in the background lets them ignore it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _until_it_computes(engine: WarmEngine) -> None:
    """Wait until its JVM has had eight seconds of processors, more than a small statement takes."""
    before = _ticks(engine.jvm_pid)
    until(lambda: _ticks(engine.jvm_pid) - before > 8 * os.sysconf("SC_CLK_TCK"))


def _ticks(pid: int) -> int:
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(words[11]) + int(words[12])


@pytest.fixture(scope="module", autouse=True)
def _as_users_have_it() -> Iterator[None]:
    """Let settings decide, as no other test does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VDE_SPARK__WARM")
        yield


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectFolder]:
    folder = _project(tmp_path_factory.mktemp("warm"))
    try:
        _vde(folder, "apply", "prod", "--yes")
        yield folder
    finally:
        stop_engines(folder.root / ".vde" / "engine")


def test_commands_share_one_engine_and_see_what_each_other_wrote(shop: ProjectFolder) -> None:
    first = _engine(shop)
    assert _rows(shop, "SELECT total, n FROM m.sums CROSS JOIN m.counted") == [[12, 4]]
    shop.edit("models/base.sql", "id * 2 AS n", "id * 3 AS n")
    _vde(shop, "apply", "dev", "--yes")
    assert _rows(shop, "SELECT total FROM m.sums", "dev") == [[18]]
    assert _rows(shop, "SELECT total FROM m.sums") == [[12]]
    assert "1 test, 0 failed" in _vde(shop, "test").stdout
    assert _engine(shop) == first
    said = json.loads(_vde(shop, "engine", "status", "--json").stdout)
    assert (said["running"], said["pid"]) == (True, first.pid)
    assert said["bytes"] > 100_000_000


def test_several_at_once_and_one_of_them_cancelled(shop: ProjectFolder) -> None:
    long = _begun(shop, "query", "prod", LONG)
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(_rows(shop, "SELECT total FROM m.sums")))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[12]], [[12]]]
    assert long.poll() is None
    long.send_signal(signal.SIGINT)
    _, told = long.communicate(timeout=60)
    assert "Traceback" not in told
    assert long.returncode != 0
    assert _rows(shop, "SELECT total FROM m.sums") == [[12]]


def test_nobody_else_can_use_it(shop: ProjectFolder) -> None:
    engine, folder = _engine(shop), shop.root / ".vde" / "engine"
    assert folder.stat().st_mode & 0o077 == 0
    assert all(file.stat().st_mode & 0o077 == 0 for file in folder.glob("engine*.json"))
    for pid in (engine.pid, engine.jvm_pid):
        assert engine.token not in Path(f"/proc/{pid}/cmdline").read_text()
    listening = subprocess.run(
        [sys.executable, "-c", _SOCKETS, str(engine.port)], capture_output=True, text=True
    )
    assert set(listening.stdout.split()) == {"127.0.0.1"}, listening.stdout + listening.stderr
    probe = [sys.executable, "-c", _WITHOUT_TOKEN, f"sc://127.0.0.1:{engine.port}"]
    refused = subprocess.run(probe, capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0
    assert "UNAUTHENTICATED" in refused.stderr or "Invalid token" in refused.stderr
    wrong = f"sc://localhost:{engine.port}/;token=wrong"
    refused = subprocess.run([*probe[:-1], wrong], capture_output=True, text=True, timeout=120)
    assert refused.returncode != 0


_WITHOUT_TOKEN = (
    "import sys; from pyspark.sql import SparkSession\n"
    "print(SparkSession.builder.remote(sys.argv[1]).create().range(3).count())"
)
_SOCKETS = """
import socket, struct, sys
for name in ("tcp", "tcp6"):
    for line in open(f"/proc/net/{name}").readlines()[1:]:
        _, local, _, state = line.split()[:4]
        address, port = local.split(":")
        if state == "0A" and int(port, 16) == int(sys.argv[1]):
            words = [address[i : i + 8] for i in range(0, len(address), 8)]
            print(socket.inet_ntoa(struct.pack("<I", int(words[-1], 16))))
"""


def test_one_that_dies_is_said_once_and_the_query_asked_of_another(shop: ProjectFolder) -> None:
    first = _engine(shop)
    long = _begun(shop, "query", "prod", LONG)
    _until_it_computes(first)
    os.kill(first.jvm_pid, signal.SIGKILL)
    folder = shop.root / ".vde" / "engine"
    until(lambda: find_engine(folder) not in (None, first))
    second = _engine(shop)
    assert _rows(shop, "SELECT total FROM m.sums") == [[12]]
    assert long.poll() is None
    long.send_signal(signal.SIGINT)
    _, told = long.communicate(timeout=120)
    assert long.returncode != 0
    assert told.count("Spark was killed (SIGKILL)") == 1
    assert "The query runs once more" in told
    assert not is_running(first.pid)
    assert _engine(shop) == second


def test_an_apply_whose_engine_dies_goes_on_with_another(shop: ProjectFolder) -> None:
    first = _engine(shop)
    slow = shop.write(
        "models/slow.sql",
        "MODEL (name m.slow, kind FULL); SELECT count(*) AS n FROM range(0, 1500000000, 1, 2) "
        "WHERE sqrt(id) * rand() < 0",
    )
    cut = _begun(shop, "apply", "cut", "--yes")
    _until_it_computes(first)
    assert cut.poll() is None
    os.kill(first.jvm_pid, signal.SIGKILL)
    _, told = cut.communicate(timeout=300)
    assert cut.returncode == 0, told
    assert told.count("Spark was killed (SIGKILL)") == 1
    assert _rows(shop, "SELECT n FROM m.slow", "cut") == [[0]]
    slow.unlink()


def test_other_settings_get_another_one_and_the_first_ends(shop: ProjectFolder) -> None:
    first = _engine(shop)
    text = (shop.root / "pyproject.toml").read_text()
    shop.edit("pyproject.toml", '"1g"', '"1100m"')
    with Workspace.open(shop.root) as workspace:
        settings = SessionSettings.from_settings(workspace.settings)
        assert settings.warm is not None
        assert join_engine(settings, settings.warm, start=False) is None
    assert _rows(shop, "SELECT total FROM m.sums") == [[12]]
    second = _engine(shop)
    assert second.pid != first.pid
    assert first.is_alive(shop.root / ".vde" / "engine"), "its last users are waited for"
    said = json.loads(_vde(shop, "engine", "status", "--json").stdout)
    assert (said["pid"], said["ending"][0]["pid"]) == (second.pid, first.pid)
    (shop.root / "pyproject.toml").write_text(text)
    assert "stopped" in _vde(shop, "engine", "stop").stdout
    until(lambda: not any(map(is_running, (*_pids(first), *_pids(second)))))
    _vde(shop, "engine", "start")


def test_other_credentials_in_the_environment_are_other_settings(
    shop: ProjectFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Workspace.open(shop.root) as workspace:
        settings = SessionSettings.from_settings(workspace.settings)
    assert settings.warm is not None
    assert join_engine(settings, settings.warm, start=False) == _engine(shop)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "another")
    assert join_engine(settings, settings.warm, start=False) is None


def test_the_jvm_ends_with_whoever_watches_it(shop: ProjectFolder) -> None:
    first = _engine(shop)
    os.kill(first.pid, signal.SIGKILL)
    until(lambda: not is_running(first.jvm_pid))
    assert json.loads(_vde(shop, "engine", "status", "--json").stdout) == {"running": False}


def test_it_ends_by_itself_when_nobody_asks_anything(tmp_path: Path) -> None:
    folder = _project(tmp_path, more="warm_minutes = 0.05")
    _vde(folder, "engine", "start")
    engine = _engine(folder)
    until(lambda: not is_running(engine.pid) and not is_running(engine.jvm_pid))
    assert find_engine(folder.root / ".vde" / "engine") is None
    assert "no engine was running" in _vde(folder, "engine", "stop").stdout


def test_it_waits_for_a_model_that_computes_without_it(tmp_path: Path) -> None:
    folder = _project(tmp_path, more="warm_minutes = 0.05")
    folder.edit("models/counted.py", "return context", "time.sleep(12); return context")
    folder.edit(
        "models/counted.py", "from vde_dagster import", "import time; from vde_dagster import"
    )
    _vde(folder, "apply", "prod", "--yes")
    first = _engine(folder)
    assert _rows(folder, "SELECT n FROM m.counted") == [[4]]
    until(lambda: not any(map(is_running, _pids(first))))


def test_functions_in_workers_are_of_the_code_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "library"
    library.mkdir()
    (library / "of_others.py").write_text("def times(x):\n    return x * 2\n")
    monkeypatch.setenv("PYTHONPATH", f"{library}:{os.environ.get('PYTHONPATH', '')}")
    folder = _project(tmp_path / "project")
    folder.write(
        "models/counted.py",
        """
        from of_others import times
        from pyspark.sql.functions import udf

        from vde_dagster import model


        @model("m.counted", kind="FULL", columns={"n": "BIGINT"}, depends_on=["m.base"])
        def counted(context, **kwargs):
            twice = udf(lambda x: times(x), "bigint")
            return context.table("m.base").select(twice("id").alias("n"))
        """,
    )
    try:
        _vde(folder, "apply", "prod", "--yes")
        assert _rows(folder, "SELECT sum(n) FROM m.counted") == [[12]]
        (library / "of_others.py").write_text("def times(x):\n    return x * 100\n")
        _vde(folder, "apply", "prod", "--yes", "--restate", "m.counted")
        assert _rows(folder, "SELECT sum(n) FROM m.counted") == [[600]]
    finally:
        stop_engines(folder.root / ".vde" / "engine")


def test_a_model_that_needs_the_jvm_is_told_how_to_get_one(shop: ProjectFolder) -> None:
    text = (shop.root / "models/counted.py").read_text()
    more = text.replace("return context", "context.spark.sparkContext; return context")
    shop.write("models/needing.py", more.replace("counted", "needing"))
    told = _vde(shop, "apply", "needing", "--yes", code=1).stderr
    assert "set warm = false under [tool.vde.spark]" in told
    shop.remove("models/needing.py")


def test_where_it_cannot_be_started_spark_is_the_commands_own(tmp_path: Path) -> None:
    folder = _project(tmp_path)
    folder.write(".vde/engine", "a file where its folder would be")
    told = _vde(folder, "apply", "prod", "--yes").stderr
    assert told.count("Spark is started for this command alone: ") == 1
    assert (folder.root / ".vde" / "spark.log").exists()


def test_one_that_was_started_by_hand_is_joined_and_ends_with_stop(tmp_path: Path) -> None:
    folder = _project(tmp_path, more="")
    folder.edit("pyproject.toml", '"local[2]"', '"local[2]"\nwarm = false')
    _vde(folder, "engine", "start")
    engine = _engine(folder)
    _vde(folder, "apply", "prod", "--yes")
    assert _rows(folder, "SELECT total FROM m.sums") == [[12]]
    assert not (folder.root / ".vde" / "spark.log").exists(), "no other JVM was started"
    assert "stopped" in _vde(folder, "engine", "stop").stdout
    assert not is_running(engine.jvm_pid)
    until(lambda: not is_running(engine.pid))


def test_a_master_elsewhere_has_none(tmp_path: Path) -> None:
    folder = _project(tmp_path)
    folder.edit("pyproject.toml", "local[2]", "spark://127.0.0.1:1")
    told = _vde(folder, "engine", "start", code=2).stderr
    assert "the project cannot have an engine" in told


def _made_by_spark(warehouse: Path) -> set[tuple[str, int]]:
    """Return ending and mode of the data files, with any checksums beside them."""
    files = [file for file in warehouse.rglob("*") if file.is_file() and "data" in file.parts]
    assert files
    return {(file.suffix, file.stat().st_mode & 0o7777) for file in files}


def test_an_idle_one_exercises_itself_and_answers_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VDE_SPARK__WARM_UP", "true")
    folder = _project(tmp_path)
    _vde(folder, "engine", "start")
    engine = _engine(folder)
    place = folder.root / ".vde" / "engine"
    tables = exercise_folder(place, engine.pid)
    try:
        until(tables.is_dir)
        _vde(folder, "apply", "prod", "--yes")
        assert _rows(folder, "SELECT total FROM m.sums") == [[12]]
        assert _made_by_spark(folder.root / ".vde" / "warehouse") == {(".parquet", 0o644)}
        until(tables.is_dir)  # It began again.
        until(lambda: not tables.exists(), seconds=300)
        assert _engine(folder) == engine
        assert (place / "engine.log").read_text() == ""
    finally:
        _vde(folder, "engine", "stop")
    until(lambda: not any(map(is_running, _pids(engine))))
    assert not list(place.glob("exercise.*"))


def test_fills_on_a_warm_engine_say_what_its_tasks_took_and_read(tmp_path: Path) -> None:
    folder = _project(tmp_path / "shop")
    try:
        assert _begun(folder, "apply", "prod", "--yes").wait(300) == 0
        with Workspace.open(folder.root) as workspace:
            shown = workspace.store.environments.get("prod")
            assert shown is not None
            fills = {
                str(name): workspace.store.fills.log(entry.table_id or "")[0]
                for name, entry in shown.entries.items()
            }
    finally:
        stop_engines(folder.root / ".vde" / "engine")
    assert all(fill.task_seconds for fill in fills.values())
    # A range has no file, and Iceberg's metadata has the number of rows of a whole table. A fill
    # whose digests Spark did not observe, as may happen under load, reads its own rows again.
    assert not [*folder.root.rglob("*.crc")], "its local files are plain"
    inputs = {"m.base": 0, "m.counted": 0, "m.sums": fills["m.base"].bytes}
    for name, size in inputs.items():
        assert fills[name].bytes_read in (size, size + fills[name].bytes), name
