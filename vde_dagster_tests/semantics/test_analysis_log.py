"""A mistake in the analysis makes a query opaque, is logged for whom it happens to, fails tests."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.build_snapshots import build_snapshots
from vde_dagster.project.kinds import Full
from vde_dagster.project.model import Model
from vde_dagster.semantics import analysis
from vde_dagster_tests.conftest import analysis_may_raise

NAME = ModelName("marts", "daily")


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def raises(*arguments: Any) -> None:
        raise KeyError("no such scope")

    monkeypatch.setattr(analysis, "bind_query", raises)


def test_it_is_opaque_and_logged_with_the_name_of_the_model(
    caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    model = Model(
        name=NAME,
        kind=Full(),
        location=SourceLocation(tmp_path / "daily.sql", 1, 1),
        query="SELECT 1 AS a",
    )
    with analysis_may_raise(), caplog.at_level(logging.WARNING):
        snapshot = build_snapshots({NAME: model}, lambda name: None)[NAME]
    assert snapshot.version.opaque == "not understood (KeyError: 'no such scope')"
    (record,) = caplog.records
    assert record.getMessage() == ("marts.daily is not understood (KeyError: 'no such scope')")
    assert record.exc_info is not None


def test_it_fails_tests() -> None:
    with pytest.raises(AssertionError, match="a query is not understood"):
        analysis.analyze("SELECT 1 AS a", {})
