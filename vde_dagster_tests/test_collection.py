"""The suites of `make test` leave out no test between them."""

from __future__ import annotations

import re
from pathlib import Path

from vde_dagster_tests.conftest import left_out

MAKEFILE = Path(__file__).parents[1] / "Makefile"


def _fast_markers() -> str:
    found = re.search(r"^FAST := (.+)$", MAKEFILE.read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_fast_suite_collects_no_module_of_slow_tests() -> None:
    assert left_out(_fast_markers()) == {"spark", "server", "dagster", "proof", "long"}


def test_the_slow_suite_collects_every_module() -> None:
    assert '-m "not ($(FAST))"' in MAKEFILE.read_text()
    assert left_out(f"not ({_fast_markers()})") == set()


def test_a_run_of_some_markers_collects_every_module() -> None:
    for markers in ("", "spark", "turns", "not spark or server", "server and not spark"):
        assert left_out(markers) == set(), markers
