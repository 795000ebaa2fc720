"""Shared by all tests: their order, Hypothesis' settings, and the one Spark session."""

from __future__ import annotations

import gc
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest

from vde_dagster.base import secrets
from vde_dagster.base.plugins import find_installed_plugins
from vde_dagster_tests.processes import end_processes
from vde_dagster_tests.projects import Prepared, ProjectFolder
from vde_dagster_tests.suite_budget import SuiteBudget

if TYPE_CHECKING:  # The process that only starts workers imports none of these.
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster.spark.session.settings import SessionSettings
    from vde_dagster.spark.session.warm import WarmEngine

# A JVM that lives for a minute gains nothing from the second compiler, nor by verifying the classes
# of Spark. A JVM with one compiler reserves 48 MB for compiled code; a worker's tests fill that and
# the next class to be loaded is a fatal error. By a variable, because JVMs of clusters, of other
# catalogs and of Dagster's runs are started by others; `make run` and benchmarks have none.
_JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)

# Sessions of tests are those of one JVM; what is said of an engine that stays, its tests say.
os.environ.setdefault("VDE_SPARK__WARM", "false")
os.environ.setdefault("VDE_SPARK__WARM_UP", "false")

SMALL_SPARK = {
    "spark.driver.memory": "1500m",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


class NotUnderstood(logging.Handler):
    """Makes a test fail whose query makes the analysis raise: to a user it is only opaque."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise what was told."""
        raise AssertionError(record.getMessage())


_ANALYSIS = logging.getLogger("vde_dagster.semantics.analysis")
_STRICT = NotUnderstood()
_ANALYSIS.addHandler(_STRICT)


@contextmanager
def analysis_may_raise() -> Iterator[None]:
    """Let queries make the analysis raise, as a user's may."""
    _ANALYSIS.removeHandler(_STRICT)
    try:
        yield
    finally:
        _ANALYSIS.addHandler(_STRICT)


PROOFS = frozenset(
    {
        "test_aimed_janitor",
        "test_base_branch",
        "test_batch_concurrency",
        "test_batch_deaths",
        "test_change_views",
        "test_checking",
        "test_clocks",
        "test_comment",
        "test_concurrency",
        "test_crash_sweep",
        "test_damaged_definitions",
        "test_damaged_files",
        "test_deploying",
        "test_dropped_and_made_again",
        "test_edit_classes",
        "test_eight_processes",
        "test_environment_histories",
        "test_fencing",
        "test_forged_plans",
        "test_forged_publications",
        "test_freeze",
        "test_growth",
        "test_handed_on_trees",
        "test_histories_of_rollbacks",
        "test_holds",
        "test_hostile_files",
        "test_interrupted_migration",
        "test_kept",
        "test_killed_for_real",
        "test_large_states",
        "test_leases",
        "test_limits",
        "test_one_spelling",
        "test_oracle",
        "test_other_catalog",
        "test_plan_files",
        "test_plugins",
        "test_previews_of_one_table",
        "test_protocol_machine",
        "test_proved_rows",
        "test_readers",
        "test_recheck",
        "test_records",
        "test_restated_previews",
        "test_rollback_of_data",
        "test_rollback_safeguards",
        "test_row_order",
        "test_safeguards",
        "test_skipping",
        "test_skips_oracle",
        "test_soundness",
        "test_time_limit",
        "test_unseen",
        "test_variants",
        "test_what_macros_read",
        "test_wheel",
        "test_whose_state",
        "test_wrong_values",
    }
)
"""Modules that search many cases, attack stored values, start many processes, or publish again and
again, as a team with Git does; they need nothing but time."""

_PROOFS_OF_CI = frozenset({"test_commands", "test_running", "test_workflows"})
"""Modules of the folder `ci` with repositories of Git; other folders use these names, too."""

ON_SERVERS = {
    "test_mirror": "rest",
    "test_nessie": "nessie",
    "test_rest": "rest",
    "test_rest_catalog": "rest",
}
"""Modules that need another server than most, which one worker starts."""


MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory."""
_ROOM = 4 << 30


@pytest.fixture(autouse=True)
def _secrets_of_one_test() -> Iterator[None]:
    """Forget the secrets of each test, which would be masked in the messages of the next one."""
    yield
    secrets.forget_secrets()


def pytest_configure(config: pytest.Config) -> None:
    """Prepare what runs tests, and let fast ones write into memory, where there is room (bytes)."""
    os.environ.setdefault("JDK_JAVA_OPTIONS", _JAVA_OPTIONS)
    config.pluginmanager.register(SuiteBudget(), "vde-budget")
    if hasattr(config, "workerinput") or not getattr(config.option, "numprocesses", None):
        _prepare_tests()
    if hasattr(config, "workerinput") or not MEMORY.is_dir():
        return
    if "spark" not in left_out(config.option.markexpr):
        return
    if shutil.disk_usage(MEMORY).free >= _ROOM:
        tempfile.tempdir = os.environ["TMPDIR"] = tempfile.mkdtemp(prefix="vde-", dir=MEMORY)
        config.add_cleanup(partial(shutil.rmtree, tempfile.tempdir, ignore_errors=True))


def _prepare_tests() -> None:
    """Let statements pass the port for faults, and choose Hypothesis' settings."""
    from hypothesis import settings

    from vde_dagster_tests import faults

    assert faults.VARIABLE, "its import lets statements pass the port"
    settings.register_profile("vde", deadline=None, derandomize=False, print_blob=True)
    settings.load_profile("vde")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no module of which every test is left out: Dagster alone takes seconds."""
    unwanted = left_out(config.option.markexpr)
    tests = _marks_of_tests(collection_path)
    if not _marks_of(collection_path) & unwanted and not (
        tests and all(map(unwanted.__and__, tests))
    ):
        return None
    named = (Path(arg.partition("::")[0]).absolute() for arg in config.args)
    return None if collection_path in named else True


def left_out(markers: str) -> set[str]:
    """Return the markers that a run leaves out by an expression like `not spark and not server`.

    With any other expression, like `not (not spark and not server)`, none is known to be left out.
    """
    words = markers.split(" and ")
    if not all(re.fullmatch(r"not \w+", word) for word in words):
        return set()
    return {word.removeprefix("not ") for word in words}


def _is_proof(path: Path) -> bool:
    return path.stem in PROOFS or (path.parent.name == "ci" and path.stem in _PROOFS_OF_CI)


@cache
def _marks_of(path: Path) -> set[str]:
    """The markers that every test of a module has."""
    if path.suffix != ".py":
        return set()
    marks = {"proof"} if _is_proof(path) else set()
    if path.parent.name == "orchestration":
        marks.add("dagster")
    for line in path.read_text().splitlines():
        if line.startswith("pytestmark = "):
            marks.update(re.findall(r"mark\.(spark|server|proof|long)\b", line))
    return marks


@cache
def _marks_of_tests(path: Path) -> tuple[set[str], ...]:
    """The markers of each test of a module, as its text has them: blank lines end a test."""
    if not re.fullmatch(r"test_\w+\.py", path.name):
        return ()
    blocks = path.read_text().split("\n\n\n")
    tests = (block for block in blocks if re.search(r"^def test_", block, re.MULTILINE))
    marked = re.compile(r"^@pytest\.mark\.(\w+)", re.MULTILINE)
    return tuple(set(marked.findall(block)) for block in tests)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Run what is fast first, then servers, then Spark, then searches and runs of Dagster.

    Where a test is marked `turns(n)`, `VDE_SWEEP_TURN`, a number, chooses an n-th of its variations
    and at least one: each commit has other ones, and `make sweep` has all.

    Files of tests with servers take minutes each: begun last, one worker would end long after the
    others; searches come last, and fill what others leave.
    """
    for item in items:
        for mark in _marks_of(item.path):
            item.add_marker(mark)

    def cost(item: pytest.Item) -> int:
        if item.get_closest_marker("server"):
            return 1
        if item.get_closest_marker("spark"):
            return 2
        return 3 if any(map(item.get_closest_marker, ("proof", "long", "dagster"))) else 0

    items.sort(key=cost)
    turn = os.environ.get("VDE_SWEEP_TURN")
    if turn is not None:
        later = _of_other_turns(items, int(turn))
        config.hook.pytest_deselected(items=later)
        items[:] = [item for item in items if item not in later]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give a file to one worker (`--dist loadfile`), but searches one by one.

    Those that need another server than most are one worker's, whatever file they are in.
    """
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file, _, test = nodeid.partition("::")
            catalog = test.rpartition("-")[2].removesuffix("]")
            if catalog in ON_SERVERS.values():  # Of a test that all catalogs pass.
                return catalog
            name = Path(file).stem
            return nodeid if _is_proof(Path(file)) else ON_SERVERS.get(name, file)

    return ByFile(config, log)


def _of_other_turns(items: list[pytest.Item], turn: int) -> set[pytest.Item]:
    """The variations of tests marked `turns(n)` that other commits run.

    Those of one test take turns, or tests of several files that name a group: `turns(n, group)`.
    """
    variations: dict[str, list[pytest.Item]] = {}
    turns: dict[str, int] = {}
    for item in items:
        marker = item.get_closest_marker("turns")
        if marker is not None:
            group = marker.args[1] if len(marker.args) > 1 else item.nodeid.partition("[")[0]
            variations.setdefault(group, []).append(item)
            turns[group] = marker.args[0]
    later: set[pytest.Item] = set()
    for group, found in variations.items():
        number = min(turns[group], len(found))
        # By the group's name, so that a commit has not the first ones of all.
        chosen = (turn + crc32(group.encode())) % number
        found.sort(key=lambda item: crc32(item.nodeid.encode()))
        later.update(item for at, item in enumerate(found) if at % number != chosen)
    return later


def _send_less(config: pytest.Config) -> None:
    """Report only results from a worker of xdist: beginnings and ends cost as much as a short test.

    Setups and teardowns that fail are reported; with `-v` or `--durations`, all of them.
    """
    plugins = config.pluginmanager.get_plugins()
    for worker in [one for one in plugins if type(one).__name__ == "WorkerInteractor"]:
        send = worker.sendevent

        def send_result(name: str, send: Callable[..., None] = send, **values: Any) -> None:
            report = values.get("data", {})
            passed = name == "testreport" and report["outcome"] == "passed"
            if name in ("logstart", "logfinish") or (passed and report["when"] != "call"):
                return
            send(name, **values)

        worker.sendevent = send_result


def pytest_sessionstart(session: pytest.Session) -> None:
    """Look for no garbage while what is made stays: modules, and thousands of tests."""
    if session.config.option.verbose <= 0 and session.config.option.durations is None:
        _send_less(session.config)
    if not any(one.distribution == "vde-dagster" for one in find_installed_plugins()):
        pytest.exit(
            "plug-ins of this distribution are not installed: run make .venv/installed, or "
            "python -m pip install --no-deps --no-build-isolation -e .",
            returncode=3,
        )
    gc.disable()


MARK = f"vde-tests-{os.getpid()}"
os.environ.setdefault("VDE_TESTS", MARK)
"""All processes that tests start have it, in their environment."""


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Iterator[None]:
    """Fail where something runs on that a test started, half a minute after the last one."""
    yield
    if hasattr(session.config, "workerinput") or os.environ["VDE_TESTS"] != MARK:
        return
    until = time.monotonic() + 30
    while (left := _left_running()) and time.monotonic() < until:
        time.sleep(0.5)
    if left:
        print("\ntests left running:", *left, sep="\n  ")
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def _left_running() -> list[str]:
    """Return the processes that tests started and that still run, each with its test."""
    found = []
    here = {os.getpid()}  # And what ends with it: Spark's JVM, where no worker had it.
    with suppress(ImportError):
        from pyspark import SparkContext

        gateway = SparkContext._gateway
        here |= {gateway.proc.pid} if gateway is not None else set()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            environment = (folder / "environ").read_bytes().split(b"\0")
            if f"VDE_TESTS={MARK}".encode() in environment and int(folder.name) not in here:
                words = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                if not _ends_with_us(folder, words):
                    test = _test_of(environment)
                    found.append(f"{folder.name}, started by {test}: {words[:300]}")
    return found


def _ends_with_us(folder: Path, words: str) -> bool:
    """Return whether a process is the helper of multiprocessing, which ends with its parent."""
    parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
    return "multiprocessing." in words and parent == str(os.getpid())


def _test_of(environment: list[bytes]) -> str:
    """Return the test during which a process was started, from the variable that pytest sets."""
    prefix = b"PYTEST_CURRENT_TEST="
    named = (one.removeprefix(prefix).decode() for one in environment if one.startswith(prefix))
    return next(named, "no test").removesuffix(" (call)").removesuffix(" (setup)")


def pytest_collection_finish(session: pytest.Session) -> None:
    """Let the garbage collector look at what tests make, and at nothing that was there before."""
    gc.freeze()
    # Imports of pandas, Arrow and others all stay. Fast tests leave few connections to close.
    fast = "spark" in left_out(session.config.option.markexpr)
    gc.set_threshold(600_000 if fast else 100_000, 20, 20)
    gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_unconfigure() -> None:
    """Skip the searches for garbage at the end of a process, which visit every object."""
    gc.freeze()


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[WarmEngine]]:
    """The engines that the test starts, which end with it; their folder may be gone by then."""
    from vde_dagster.spark.session import warm

    begin, started = warm._start_engine, []

    def start(*arguments: Any) -> WarmEngine:
        started.append(begin(*arguments))
        return started[-1]

    monkeypatch.setattr(warm, "_start_engine", start)
    yield started
    for engine in started:
        end_processes(engine.pid, engine.jvm_pid)


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """An engine on an empty project with a SQLite catalog.

    Engines that are opened while it lives (those of workspaces on other folders) share its JVM,
    which takes seconds to start; so tests that open workspaces ask for it too.
    """
    from vde_dagster.spark.engine import SparkEngine
    from vde_dagster.spark.jvm.local_files import use_plain_files

    root = tmp_path_factory.mktemp("spark")
    settings = small_spark(root)
    _end_jvm()
    engine = SparkEngine(settings, lakehouse=lakehouse_of(settings))
    session = engine.session
    assert session is not None, "starts it, with every package that a test needs"
    use_plain_files(session.sparkContext)
    yield engine
    engine.close()


def _end_jvm() -> None:
    """End a JVM that an earlier test started: it lacks packages, and only its start loads them."""
    from pyspark import SparkContext

    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait(60)
        SparkContext._gateway = SparkContext._jvm = None


@pytest.fixture(scope="session")
def prepared(
    tmp_path_factory: pytest.TempPathFactory,
) -> Prepared:
    """Return a project as a function leaves it in a new folder, which it is given once only.

    For every test it is put back in its place; files of a lakehouse name each other in full.
    """
    kept: dict[Callable[[Path], None], Path] = {}

    def again(prepare: Callable[[Path], None]) -> ProjectFolder:
        if prepare not in kept:
            kept[prepare] = tmp_path_factory.mktemp("prepared") / "kept"
            prepare(kept[prepare].with_name("shop"))
            shutil.copytree(kept[prepare].with_name("shop"), kept[prepare])
        root = kept[prepare].with_name("shop")
        shutil.rmtree(root)
        return ProjectFolder(Path(shutil.copytree(kept[prepare], root)))

    return again


@pytest.fixture(scope="session")
def nessie() -> Iterator[str]:
    """The base of a running Nessie server's API."""
    from vde_dagster_tests.lakehouse.nessie_process import running_nessie

    with running_nessie() as uri:
        yield uri


@pytest.fixture(scope="session")
def rest_server() -> Iterator[str]:
    """The base of a running server of Iceberg's REST protocol."""
    from vde_dagster_tests.lakehouse.rest_process import running_rest_server

    with running_rest_server() as uri:
        yield uri


def lakehouse_of(settings: SessionSettings) -> Lakehouse:
    """Open the catalog of an engine's settings, without Spark."""
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.state.store import StateStore

    store = StateStore.open(settings.state_url)
    return Lakehouse(store, settings.catalog, settings.warehouse)


def small_spark(root: Path) -> SessionSettings:
    """Settings for an engine whose catalog, warehouse and log lie in a folder."""
    from vde_dagster.lakehouse.catalogs.by_settings import POSTGRES_PACKAGE
    from vde_dagster.spark.session.settings import SessionSettings

    return SessionSettings(
        catalog="lakehouse",
        state_url=f"sqlite:///{root / 'vde.db'}",
        warehouse=str(root / "warehouse"),
        master="local[2]",
        config=SMALL_SPARK,
        # The JVM is shared, and only its start can fetch jars.
        packages=(POSTGRES_PACKAGE,),
        log_file=root / "spark.log",
        project_root=root,
    )
