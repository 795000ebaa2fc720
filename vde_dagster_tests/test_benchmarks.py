"""The runner of the benchmarks: what it runs, and what its table says of the rest."""

from __future__ import annotations

import pytest

from benchmarks import __main__ as runner
from benchmarks.sizes import SIZES, Size


def test_every_size_is_that_of_a_benchmark() -> None:
    assert set(SIZES) <= set(runner.benchmarks())


def test_the_table_has_a_row_of_each_and_says_what_those_need_that_are_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    called: list[tuple[str, ...]] = []

    def run(name: str, arguments: list[str], seconds: float) -> str:
        called.append((name, *arguments))
        return "failed (3)" if name == "skipped_runs" else "done"

    monkeypatch.setattr(runner, "_run", run)
    assert runner.main(["--quick", "--without-spark"]) == 1
    rows = capsys.readouterr().out.rpartition("  result\n")[2].splitlines()
    assert [row.split()[0] for row in rows] == runner.benchmarks()
    table = {row.split()[0]: row.split(None, 2)[2] for row in rows}
    assert table["equal_pairs"] == "not run: needs --file FILE, published pairs of queries"
    assert table["kills_on_spark"] == "not run: starts a JVM"
    assert table["skipped_runs"] == "failed (3)"
    assert table["planning_scale"] == "done"
    assert ("planning_scale", "--models", "50", "--runs", "1") in called
    assert {name for name, *_ in called}.isdisjoint(
        name for name, size in SIZES.items() if size.needs
    )


def test_a_benchmark_that_is_named_is_run_at_its_usual_size(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(runner, "_run", lambda *call: called.append(call) or "done")
    called: list[tuple[object, ...]] = []
    assert runner.main(["execution_sweep", "--minutes", "2"]) == 0
    assert called == [("execution_sweep", ["900"], 120.0)]
    assert runner.main(["nothing"]) == 2


def test_one_that_takes_too_long_is_ended_with_what_it_started() -> None:
    assert (
        runner._run("planning_scale", ["--models", "400"], 0.2) == "ended after 0.00333333 minutes"
    )


@pytest.mark.proof
def test_one_that_cannot_read_its_arguments_has_failed() -> None:
    assert runner._run("publish_pins", ["--nothing"], 60) == "failed (2)"


def test_sizes_are_said_as_arguments() -> None:
    for name, size in SIZES.items():
        assert isinstance(size, Size), name
        assert not (size.needs and (size.quick or size.usual)), name


@pytest.mark.proof
@pytest.mark.turns(37)
@pytest.mark.parametrize(
    "name",
    [
        name
        for name in runner.benchmarks()
        if not runner._left_out(SIZES.get(name, Size()), quick=True, without_spark=True)
    ],
)
def test_each_still_works_at_its_quick_size(name: str) -> None:
    assert runner._run(name, SIZES.get(name, Size()).quick.split(), 300) == "done"
