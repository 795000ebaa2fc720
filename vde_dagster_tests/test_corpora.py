"""A corpus is one test, which tells every case that fails."""

from __future__ import annotations

import pytest

from vde_dagster_tests.corpora import each_of


def test_every_case_that_fails_is_told() -> None:
    tried: list[int] = []

    @each_of("one, other", [(1, 1), (2, 3), (4, 5)])
    def corpus(one: int, other: int) -> None:
        tried.append(one)
        with pytest.raises(ZeroDivisionError):
            _ = 1 // (one - other)

    with pytest.raises(AssertionError, match=r"(?s)2 of 3 cases fail:.*\(2, 3\): .*\(4, 5\): "):
        corpus()
    assert tried == [1, 2, 4]


def test_a_corpus_without_cases_fails() -> None:
    with pytest.raises(AssertionError, match="without cases"):
        each_of("case", [])(lambda case: None)()
