"""How Spark starts: by its scripts once, then as it is known to start, with archived classes."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from vde_dagster.spark.jvm.class_data import archive_options, archive_path
from vde_dagster.spark.jvm.class_list import ClassList, make_archive
from vde_dagster.spark.jvm.known_start import StartCommand, start_path
from vde_dagster.spark.session.settings import SessionSettings, command_line_config, context_config
from vde_dagster_tests.conftest import SMALL_SPARK
from vde_dagster_tests.projects import ProjectFolder

SETTINGS = SessionSettings(
    catalog="vde", state_url="sqlite:///state.db", warehouse="file:///warehouse", master="local[2]"
)
SCRIPT = """
import json, sys
from pathlib import Path
from pyspark import SparkContext
from pyspark.errors.exceptions.captured import install_exception_handler
from vde_dagster.spark.session.session import start_session, stop_session
from vde_dagster.spark.session.settings import SessionSettings

install_exception_handler()  # As in a process that had a session before.
folder = Path(sys.argv[1])
session = start_session(SessionSettings(
    catalog="vde", state_url=f"sqlite:///{folder}/state.db", warehouse=f"file://{folder}/wh",
    master="local[2]", config=json.loads(sys.argv[2]), log_file=folder / "spark.log",
))
session.sql("CREATE NAMESPACE IF NOT EXISTS vde.n")
session.sql("CREATE OR REPLACE TABLE vde.n.t USING iceberg AS SELECT id FROM range(4)")
rows = session.table("vde.n.t").rdd.map(lambda row: row.id * 2).sum()
process = SparkContext._gateway.proc
command = Path(f"/proc/{process.pid}/cmdline").read_text().split(chr(0))
maps = Path(f"/proc/{process.pid}/maps").read_text()
stop_session(session)
process.stdin.close()
process.wait()
print(json.dumps({"sum": rows, "scripts": "org.apache.spark.deploy.SparkSubmit" in command,
                  "archive": "/vde-dagster/" in maps}))
"""


LISTED = """
import json, sys
from pathlib import Path
from pyspark.java_gateway import launch_gateway
from vde_dagster.spark.jvm.class_list import ClassList, make_archive
from vde_dagster.spark.jvm.known_start import StartCommand

known = StartCommand.find(Path(sys.argv[1]))
listed = ClassList.begin(known)
with open(sys.argv[1] + ".log", "wb") as log:
    begun = known.start(log, *listed.options)
with begun.offer_to_pyspark():
    gateway = launch_gateway()
gateway.shutdown()
begun.process.stdin.close()
begun.process.wait()
made = make_archive(known, listed.path)
listed.remove()
print(json.dumps(made))
"""
"""Of the few classes of a JVM in which Spark has not begun."""


def _in_process(script: str, path: Path, cache: Path) -> Any:
    """Run a script in a process of its own, and return what it says at the end."""
    return json.loads(
        _run("-c", script, str(path), json.dumps(SMALL_SPARK), cache=cache).splitlines()[-1]
    )


def _run(*words: str, cache: Path) -> str:
    ended = subprocess.run(
        [sys.executable, *words],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("VDE_JAR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def _place(**config: str) -> Path | None:
    given = {**context_config(SETTINGS), **{key.replace("_", "."): v for key, v in config.items()}}
    return start_path(command_line_config(given))


def test_starts_with_other_jars_memory_or_java_options_are_others(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = _place()
    assert first is not None
    assert first.is_relative_to(cache)
    assert _place(spark_app_name="other", spark_master="local[4]") == first
    others = [_place(spark_jars_packages="a:b:1"), _place(spark_driver_memory="3g")]
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-Xint")
    assert len({first, *others, _place()}) == 4


@pytest.mark.parametrize(
    "variable", ["PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "HADOOP_CONF_DIR", "SPARK_HOME"]
)
def test_where_a_variable_says_more_to_sparks_scripts_they_start_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "/elsewhere")
    assert _place() is None


@pytest.mark.parametrize(
    "config",
    [
        {"spark_master": "yarn"},
        {"spark_master": "spark://one:7077"},
        {"spark_files": "/a"},
        {"spark_submit_pyFiles": "/a.py"},
    ],
)
def test_where_a_property_says_more_to_sparks_scripts_they_start_it(
    cache: Path, config: dict[str, str]
) -> None:
    assert _place(**config) is None


@pytest.mark.parametrize("damage", ["", "{}", "[1]", '{"java": 1}', "\x00"])
def test_a_damaged_record_is_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / "start.json").write_text(damage)
    assert StartCommand.find(tmp_path / "start.json") is None
    assert StartCommand.find(tmp_path / "none.json") is None


def test_a_start_whose_jars_are_gone_is_none_and_one_that_ends_early_is_no_gateway(
    tmp_path: Path,
) -> None:
    place, jar = tmp_path / "start.json", tmp_path / "a.jar"
    jar.write_bytes(b"")
    record = {"java": "/bin/false", "options": [], "class_path": [str(jar)], "spark_home": "/"}
    place.write_text(json.dumps(record))
    found = StartCommand.find(place)
    assert found is not None
    with (tmp_path / "log").open("wb") as log:
        assert found.start(log, *archive_options(found)) is None
    jar.unlink()
    assert StartCommand.find(place) is None


def test_an_archive_is_that_of_the_jars_as_they_are_and_of_the_options_whatever_the_memory(
    cache: Path, tmp_path: Path
) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"1")
    small, large, other = (
        StartCommand("/bin/false", options, (str(jar),), "/")
        for options in (("-Xmx1g", "-ea"), ("-Xmx9g", "-ea"), ("-Xmx1g",))
    )
    first = archive_path(small)
    assert first == archive_path(large) != archive_path(other)
    assert archive_options(small) == ()
    first.parent.mkdir(parents=True)
    first.touch()
    assert f"-XX:SharedArchiveFile={first}" in archive_options(large)
    jar.write_bytes(b"22")
    assert archive_options(large) == ()


@pytest.mark.parametrize(
    "option", ["-Xshare:off", "-XX:SharedArchiveFile=/own.jsa", "-XX:ArchiveClassesAtExit=/own.jsa"]
)
def test_options_of_users_that_choose_an_archive_stay_alone(
    cache: Path, tmp_path: Path, option: str
) -> None:
    known = StartCommand("/bin/false", ("-Xmx1g", option), (), "/")
    archive_path(known).parent.mkdir(parents=True)
    archive_path(known).touch()
    assert archive_options(known) == ()
    archive_path(known).unlink()
    assert ClassList.begin(known) is None


def test_heaps_with_wide_references_have_another_archive(cache: Path) -> None:
    def path(*options: str) -> Path:
        return archive_path(StartCommand("/bin/false", options, (), "/"))

    assert path("-Xmx1g") == path("-Xmx31g") == path()
    assert path("-Xmx32g") == path("-Xmx40000m") != path("-Xmx1g")
    assert path("-Xmx40g", "-Xmx2g") == path("-Xmx2g")


def test_classes_are_listed_until_an_archive_exists_or_has_failed(cache: Path) -> None:
    known = StartCommand("/bin/false", ("-Xmx1g",), (), "/")
    archive_path(known).parent.mkdir(parents=True)
    listed = ClassList.begin(known)
    assert listed is not None
    assert listed.path.parent == archive_path(known).parent
    assert not make_archive(known, listed.path), "this Java fails"
    assert ClassList.begin(known) is None
    assert not archive_path(known).exists()
    assert not list(archive_path(known).parent.glob("*.part"))


def test_a_process_that_survives_the_command_archives_the_classes_and_removes_the_list(
    cache: Path,
) -> None:
    known = StartCommand("/bin/false", (), (), "/")
    archive = archive_path(known)
    archive.parent.mkdir(parents=True)
    listed = ClassList.begin(known)
    assert listed is not None
    listed.path.write_text("org/apache/iceberg/spark/source/SparkWrite\n")
    listed.archive_in_background()
    until = time.monotonic() + 120
    while listed.path.exists():
        assert time.monotonic() < until
        time.sleep(0.02)
    assert archive.with_suffix(".failed").exists(), "this Java refuses"
    assert not archive.exists()


def test_only_one_process_makes_an_archive(cache: Path) -> None:
    known = StartCommand("/bin/false", (), (), "/")
    archive = archive_path(known)
    archive.parent.mkdir(parents=True)
    with archive.with_suffix(".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert not make_archive(known, archive.with_suffix(".classes"))
    assert ClassList.begin(known) is not None, "it was not tried, so it has not failed"


def test_classes_of_a_command_that_fills_no_table_are_not_archived(cache: Path) -> None:
    known = StartCommand("/bin/false", (), (), "/")
    archive_path(known).parent.mkdir(parents=True)
    listed = ClassList.begin(known)
    assert listed is not None
    listed.path.write_text("java/lang/Object\n")
    listed.archive_in_background()
    assert not list(archive_path(known).parent.iterdir())


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_scripts_start_spark_once_and_it_goes_on_without_what_was_kept_of_that(
    tmp_path: Path,
) -> None:
    cache = tmp_path / "cache"
    scripts, known = ({"sum": 12, "scripts": by, "archive": False} for by in (True, False))
    folders = tmp_path / "a", tmp_path / "b"
    with ThreadPoolExecutor() as two:  # Ivy damages jars that two processes download at once.
        began = [two.submit(_in_process, SCRIPT, folder, cache) for folder in folders]
        found = [start.result() for start in began]
    assert sorted(found, key=lambda start: start["scripts"]) == [known, scripts]
    (place,) = (cache / "vde-dagster").glob("*.json")
    assert place.stat().st_mode & 0o077 == 0
    assert _in_process(LISTED, place, cache) is True
    assert not list(place.parent.glob("*.classes")) + list(place.parent.glob("*.part"))
    (archive,) = place.parent.glob("*.jsa")

    assert _in_process(SCRIPT, tmp_path, cache) == {**known, "archive": True}
    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.write(b"damaged" * 100)
    assert _in_process(SCRIPT, tmp_path, cache) == known
    place.write_text(place.read_text().replace('"java": "', '"java": "/bin/false", "was": "'))
    assert _in_process(SCRIPT, tmp_path, cache) == scripts


@pytest.mark.turns(16, "Spark elsewhere")
@pytest.mark.spark
@pytest.mark.server
def test_starts_are_prepared_once_whatever_the_memory(tmp_path: Path) -> None:
    """HotSpot takes minutes for the archive of all classes that Spark loads."""
    cache = tmp_path / "cache"
    assert _prepared(tmp_path, cache)
    assert not _prepared(tmp_path, cache)
    assert _in_process(SCRIPT, tmp_path, cache)["scripts"], "another memory is another start"
    assert _in_process(SCRIPT, tmp_path, cache) == {"sum": 12, "scripts": False, "archive": True}


def _prepared(root: Path, cache: Path) -> bool:
    """Prepare starts for a project, and say whether that was to be done."""
    folder = ProjectFolder(
        root / "project",
        {
            "models/one.sql": "MODEL (name m.one, kind FULL); SELECT 1 AS x",
            "pyproject.toml": "[tool.vde.spark]\nmaster = 'local[2]'\n"
            "[tool.vde.spark.config]\n'spark.driver.memory' = '1g'\n",
        },
    )
    words = ("-m", "vde_dagster.cli", "engine", "prepare", "--json")
    told = json.loads(_run(*words, "--project", str(folder.root), cache=cache))
    assert Path(told["archive"]).stat().st_size == told["bytes"]
    assert not list((folder.root / ".vde" / "engine").glob("engine.*.json"))
    assert not list(folder.root.glob("java_pid*"))
    return bool(told["made"])
