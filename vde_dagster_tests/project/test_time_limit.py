"""Loading ends: code without an end and queries without measure are bounded."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from vde_dagster.errors import ProjectError
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.loading.loader import load_project
from vde_dagster.project.macros import expansion
from vde_dagster.project.python.watching import TooSlow
from vde_dagster.sql.trees import ParsedQueries

SETTINGS = "[tool.vde]\nload_seconds = 1\n"
MODEL = "MODEL (name a.m, kind FULL);\n"

ENDLESS = {
    "a model's file that loops": (
        {"models/m.py": "import time\nwhile True: pass\n"},
        "models/m.py:2",
    ),
    "a model's file that waits": (
        {"models/m.py": "import time\n\ntime.sleep(1000)\n"},
        "models/m.py:3",
    ),
    "a loop that catches everything": (
        {
            "models/m.py": (
                "import time\nwhile True:\n    try:\n        time.sleep(10)\n"
                "    except Exception:\n        pass\n"
            )
        },
        "models/m.py:4",
    ),
    "a file of macros that loops": (
        {"macros/n.py": "\nwhile True: pass\n", "models/m.sql": MODEL + "SELECT 1 AS a"},
        "macros/n.py:2",
    ),
    "a macro that loops": (
        {
            "macros/n.py": (
                "from vde_dagster import macro\n\n\n@macro()\ndef forever(evaluator):\n"
                "    while True: pass\n"
            ),
            "models/m.sql": MODEL + "SELECT @forever() AS a",
        },
        "macros/n.py:6",
    ),
}


def write(root: Path, files: dict[str, str]) -> None:
    for path, text in {"pyproject.toml": SETTINGS, **files}.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)


@pytest.mark.parametrize("name", ENDLESS)
def test_code_without_an_end_is_stopped_and_its_line_named(tmp_path: Path, name: str) -> None:
    files, place = ENDLESS[name]
    write(tmp_path, files)
    with pytest.raises(ProjectError) as caught:
        load_project(tmp_path)
    assert "not read within 1 second" in str(caught.value)
    assert place in str(caught.value)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_other_files_load_beside_one_without_an_end(tmp_path: Path) -> None:
    files, _ = ENDLESS["a model's file that loops"]
    write(tmp_path, {**files, "models/other.sql": "MODEL (name a.o, kind FULL);\nSELECT 1 AS a"})
    project = load_project(tmp_path, strict=False)
    assert [str(name) for name in project.models] == ["a.o"]
    assert len(project.problems) == 1


def test_another_users_timer_is_left_alone() -> None:
    with TooSlow.after(5), TooSlow.after(10):
        before = signal.getitimer(signal.ITIMER_REAL)
    assert before != (0.0, 0.0)
    with pytest.raises(TooSlow), TooSlow.after(0.01):
        time.sleep(10)
    with pytest.raises(TooSlow), TooSlow.after(60), TooSlow.after(0.01):
        _wait_shortly_and_often()


ITEMS = "[" + ", ".join(f"a{number}" for number in range(60)) + "]"
GROWING = {
    "a reduction that doubles": f"SELECT @REDUCE({ITEMS}, (x, y) -> x + x) AS a",
    "lists in lists": (
        f"SELECT @EACH({ITEMS}, x -> @EACH({ITEMS}, y -> @EACH({ITEMS}, z -> x + y + z))) AS a"
    ),
    "a filter of lists": (
        f"SELECT @EACH(@FILTER({ITEMS}, x -> @AND(@EACH({ITEMS}, y -> @EACH({ITEMS}, z -> TRUE)))),"
        " x -> x) AS a"
    ),
    "functions that call the one before twice": "@DEF(f0, x -> x);\n"
    + "".join(f"@DEF(f{n}, x -> @f{n - 1}(x) + @f{n - 1}(x));\n" for n in range(1, 40))
    + "SELECT @f39(1) AS a",
    "variables of the one before twice": "@DEF(v0, 1);\n"
    + "".join(f"@DEF(v{n}, @v{n - 1} + @v{n - 1});\n" for n in range(1, 40))
    + "SELECT @v39 AS a",
    "texts of the one before twice": "@DEF(v0, 'a');\n"
    + "".join(f"@DEF(v{n}, @'@{{v{n - 1}}}@{{v{n - 1}}}');\n" for n in range(1, 40))
    + "SELECT @v39 AS a",
    "columns in columns": f"SELECT @PIVOT(a, @EACH({ITEMS}, x -> @EACH({ITEMS}, y -> 1))) AS a",
}
COMPUTED = {
    "a power": "POW(10, POW(10, 10))",
    "a product of powers": "POW(10, 1000) * POW(10, 1000)",
    "a product of a text": "'a' * 10000000000",
    "a format": "'%10000000000d' % 1",
    "a number of thousands of digits": "9" * 6_000,
}


@pytest.mark.parametrize("name", GROWING)
def test_macros_whose_text_grows_without_measure_are_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expansion, "_MOST_TEXT", 20_000)
    monkeypatch.setattr(expansion, "_MOST_MADE", 100_000)
    write(tmp_path, {"models/m.sql": MODEL + GROWING[name]})
    # A busy machine must not reach the limit of time first.
    (tmp_path / "pyproject.toml").write_text(SETTINGS.replace("= 1", "= 60"))
    with pytest.raises(ProjectError, match=r"models/m.sql:\d+:\d+: macros create more than"):
        load_project(tmp_path, use_cache=False)


@pytest.mark.parametrize("name", COMPUTED)
def test_constants_that_cannot_be_computed_shortly_are_refused(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"models/m.sql": f"{MODEL}SELECT @EVAL({COMPUTED[name]}) AS a"})
    with pytest.raises(ProjectError, match=r"models/m.sql:2:8: .*is not a constant"):
        load_project(tmp_path, use_cache=False)


@pytest.mark.parametrize(
    ("text", "pattern", "is_like"),
    [
        ("a" * 3_000, "%a" * 200 + "%b", False),
        ("a" * 3_000 + "b", "%a" * 200 + "%b", True),
        ("abc", "a_c", True),
        ("abc", "a%", True),
        ("abc", "%b%", True),
        ("abc", "%bd%", False),
        ("abab", "ab%ab", True),
        ("aba", "ab%ab", False),
        ("a.c", "a.c", True),
        ("abc", "a.c", False),
        ("", "%", True),
        ("a\nb", "a%b", True),
        ("ab", "ab%", True),
    ],
)
def test_a_pattern_with_many_signs_takes_no_longer_than_its_length(
    tmp_path: Path, text: str, pattern: str, *, is_like: bool
) -> None:
    condition = f"'{text}' LIKE '{pattern}'"
    write(tmp_path, {"models/m.sql": f"{MODEL}SELECT @IF({condition}, 'yes', 'no') AS a"})
    (model,) = load_project(tmp_path, use_cache=False).models.values()
    assert model.query == f"SELECT '{'yes' if is_like else 'no'}' AS a"


def _wait_shortly_and_often() -> None:
    while True:
        time.sleep(0.001)


def test_code_in_another_thread_is_stopped_too() -> None:
    ended: list[str] = []

    def work() -> None:
        try:
            with TooSlow.after(0.02):
                _wait_shortly_and_often()
        except TooSlow:
            ended.append("loop")
        with TooSlow.after(0.02):
            ended.append("in time")
        time.sleep(0.05)
        ended.append("left alone")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(10)
    assert ended == ["loop", "in time", "left alone"]


def ctes(count: int) -> str:
    later = "".join(f",\nc{i} AS (SELECT a + {i} AS a FROM c{i - 1})" for i in range(1, count))
    return f"WITH c0 AS (SELECT 1 AS a){later}\nSELECT a FROM c{count - 1}"


def joins(count: int) -> str:
    later = "".join(f"\nJOIN (SELECT 1 AS k) AS t{i} ON t{i}.k = t0.k" for i in range(1, count))
    return f"SELECT t0.k FROM (SELECT 1 AS k) AS t0{later}"


@pytest.mark.parametrize("query", [ctes, joins])
def test_time_grows_with_a_query_and_not_with_its_square(
    tmp_path: Path, query: Callable[[int], str]
) -> None:
    """Counted in lines that run, which no busy machine changes."""
    calls = []
    for count in (300, 900):
        root = tmp_path / str(count)
        write(root, {"pyproject.toml": "", "models/m.sql": MODEL + query(count)})
        calls.append(_steps(root))
    assert calls[1] < 4 * calls[0], "three times the query"


def _steps(root: Path) -> int:
    """How many lines of this package ran."""
    import sys

    count = 0

    def trace(frame: object, event: str, _arg: object) -> object:
        nonlocal count
        count += event == "line"
        return trace if "vde_dagster" in frame.f_code.co_filename else None  # type: ignore[attr-defined]

    before = sys.gettrace()
    sys.settrace(trace)  # type: ignore[arg-type]
    try:
        parsed = ParsedQueries()
        project = load_project(root, parsed=parsed)
        build_snapshots(project.models, lambda name: None, parsed=parsed)
    finally:
        sys.settrace(before)
    return count


def test_a_timer_that_fires_while_its_block_ends_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_timer, fired = signal.setitimer, []

    def fire(which: int, *seconds: float) -> None:
        if seconds[0] == 0:
            fired.append(signal.getsignal(signal.SIGALRM))
            signal.raise_signal(signal.SIGALRM)
        set_timer(which, *seconds)

    before = signal.getsignal(signal.SIGALRM)
    monkeypatch.setattr(signal, "setitimer", fire)
    with TooSlow.after(60):
        pass
    assert fired != [before]
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def _wait_for_threads(number: int) -> int:
    """Return the number of threads once there are so few, or after five seconds."""
    deadline = time.monotonic() + 5
    while threading.active_count() > number and time.monotonic() < deadline:
        sum(range(2_000))
    return threading.active_count()


def test_a_limit_that_is_interrupted_when_it_begins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    start, alive = threading.Thread.start, threading.active_count()

    def interrupted_start(thread: threading.Thread) -> None:
        start(thread)
        raise TooSlow

    monkeypatch.setattr(threading.Thread, "start", interrupted_start)
    with pytest.raises(TooSlow), TooSlow.after(60), TooSlow.after(60):
        pass
    assert _wait_for_threads(alive) == alive


def test_a_watched_thread_is_not_interrupted_after_its_block() -> None:
    ends: list[BaseException | str] = []

    def work() -> None:
        try:
            for _ in range(150):
                try:
                    with TooSlow.after(0.002):
                        until = time.monotonic() + 0.002
                        while time.monotonic() < until:
                            pass
                except TooSlow:
                    continue
            ends.append("in time")
        except BaseException as error:
            ends.append(error)

    alive = threading.active_count()
    watched = threading.Thread(target=work)
    watched.start()
    watched.join()
    assert ends == ["in time"]
    assert _wait_for_threads(alive) == alive
