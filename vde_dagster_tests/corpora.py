"""Corpora as one test: thousands of small cases, of which a test each would mostly be pytest's."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import pytest

Test = Callable[..., None]


def each_of(names: str, cases: Iterable[Any]) -> Callable[[Test], Test]:
    """Run a test on all cases, as `parametrize` does but as one test; tells all that fail.

    Args:
        names: Of the arguments, with commas; of several, a case has a value each.

    >>> @each_of("one, other", [(1, 1), (2, 3), (4, 5)])
    ... def test(one, other):
    ...     assert one == other, f"not {other}"
    >>> test()
    Traceback (most recent call last):
        ...
    AssertionError: 2 of 3 cases fail:
    (2, 3): AssertionError: not 3
    (4, 5): AssertionError: not 5
    """
    arguments = names.split(", ")
    known = list(cases)

    def decorate(test: Test) -> Test:
        def test_all(**fixtures: Any) -> None:
            failed: list[tuple[Any, BaseException]] = []
            for case in known:
                values = case if len(arguments) > 1 else (case,)
                try:
                    test(**dict(zip(arguments, values, strict=True)), **fixtures)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((case, error))
            if failed:
                told = "\n".join(f"{case}: {type(e).__name__}: {e}" for case, e in failed)
                first = failed[0][1]
                raise AssertionError(
                    f"{len(failed)} of {len(known)} cases fail:\n{told}"
                ) from first
            assert known, "a corpus without cases"

        parameters = inspect.signature(test).parameters.values()
        of_fixtures = [one for one in parameters if one.name not in arguments]
        test_all.__signature__ = inspect.Signature(of_fixtures)  # type: ignore[attr-defined]
        test_all.__name__, test_all.__doc__ = test.__name__, test.__doc__
        return test_all

    return decorate
