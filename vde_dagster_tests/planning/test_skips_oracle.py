"""Thirty days of random projects end in equal tables, with and without skipping."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

import pytest

from vde_dagster.planning.table_contents import InputState, changed_inputs
from vde_dagster_tests.planning import skips_oracle
from vde_dagster_tests.planning.skips_oracle import Work, WrongSkipError, run_days

FIRST = int(os.environ.get("VDE_SKIPS_SEED", "0"))
PROJECTS = int(os.environ.get("VDE_SKIPS_PROJECTS", "6"))


@pytest.mark.turns(3)
@pytest.mark.parametrize("seed", range(FIRST, FIRST + PROJECTS))
def test_tables_are_the_same_whether_or_not_runs_skip(seed: int) -> None:
    work = Work()
    run_days(seed, work)
    assert work.computed <= work.due


def test_one_changed_table_that_is_overlooked_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_but_one(was: Mapping[str, InputState], now: Mapping[str, InputState]) -> Iterator[str]:
        yield from list(changed_inputs(was, now))[1:]

    monkeypatch.setattr(skips_oracle, "changed_inputs", all_but_one)
    with pytest.raises(WrongSkipError):
        _run(range(12))


def _run(seeds: range) -> None:
    for seed in seeds:
        run_days(seed, Work())
