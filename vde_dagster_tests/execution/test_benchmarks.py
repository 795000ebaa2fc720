"""The benchmark of what applying adds still runs: nobody else calls it between two releases."""

from __future__ import annotations

from benchmarks.execution_overhead import measure


def test_the_overhead_of_an_apply_is_measured_apart_from_its_engine() -> None:
    found = measure(3)
    assert 0 < found["engine"] < found["apply"]
    assert found["transactions"] >= 3
