"""A lakehouse per test: a store on a clock that the test moves, and an empty warehouse."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.fake_engine import FakeEngine
from vde_dagster_tests.state.conftest import (
    backend,
    clock,
    empty_database,
    empty_postgres,
    postgres,
    store,
    url,
)

__all__ = ["backend", "clock", "empty_database", "empty_postgres", "postgres", "store", "url"]


@pytest.fixture
def lakehouse(store: StateStore, tmp_path: Path) -> Lakehouse:
    made = Lakehouse(store, "lakehouse", str(tmp_path / "warehouse"))
    made.catalog.create_namespaces({"vde_physical": {}})
    return made


@pytest.fixture
def engine(lakehouse: Lakehouse) -> FakeEngine:
    return FakeEngine(lakehouse)
