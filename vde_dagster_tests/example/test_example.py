"""The example project: complete, documented, and planned as the README says."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from vde_dagster.base.names import ModelName
from vde_dagster.base.times import parse_instant
from vde_dagster.execution.workspace import Workspace
from vde_dagster.planning.checks.unit_tests import check_test
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.project.loading.loader import load_project

pytestmark = pytest.mark.long

YEAR = IntervalSet((Interval(parse_instant("2013-01-01"), parse_instant("2014-01-01")),))


@pytest.fixture(scope="module")
def workspace(example_root: Path) -> Workspace:
    return Workspace.open(example_root)


@pytest.mark.proof
def test_it_is_the_same_from_its_files_and_from_the_cache(example_root: Path) -> None:
    load_project(example_root)

    cached, fresh = load_project(example_root), load_project(example_root, use_cache=False)

    # Snapshots are remembered by what models look like: paths and kinds of numbers count too.
    assert repr(cached.models) == repr(fresh.models)
    assert cached.tests
    assert repr(cached.tests) == repr(fresh.tests)


def test_it_has_three_layers_of_every_kind(workspace: Workspace) -> None:
    models = workspace.project.models
    assert len(models) >= 12
    layers = Counter(name.namespace for name in models)
    assert set(layers) == {"raw", "staging", "marts"}
    kinds = {model.kind.name for model in models.values()}
    assert kinds == {
        "FULL",
        "VIEW",
        "SEED",
        "INCREMENTAL_BY_TIME_RANGE",
        "INCREMENTAL_BY_UNIQUE_KEY",
    }
    marts = [model for name, model in models.items() if name.namespace == "marts"]
    assert any("OVER (" in (model.query or "") for model in marts)
    assert any(model.python for model in marts)


def test_every_model_and_column_is_described_and_has_an_owner(workspace: Workspace) -> None:
    for name, snapshot in workspace.snapshots().items():
        assert snapshot.model.description, name
        assert snapshot.model.owner, name
        for column in snapshot.columns:
            assert column.description, f"{name}.{column.name}"
        described = set(snapshot.model.column_descriptions)
        assert described <= {column.name for column in snapshot.columns}, name


def test_every_table_that_people_read_is_audited(workspace: Workspace) -> None:
    for name, model in workspace.project.models.items():
        if name.namespace == "marts" and model.kind.owns_table:
            assert model.audits, name


def test_the_days_of_2013_are_the_intervals(workspace: Workspace) -> None:
    plan = workspace.plan("prod", save=False)
    incremental = {
        str(model.name): model.intervals
        for model in plan.models
        if plan.snapshots[model.snapshot_id or ""].is_incremental
    }
    assert incremental == {
        "staging.flights": YEAR,
        "marts.airline_days": YEAR,
        "marts.aircraft": YEAR,
    }


def test_its_unit_tests_are_valid(workspace: Workspace) -> None:
    tests = workspace.project.tests
    assert len(tests) >= 2
    for test in tests:
        check_test(test, workspace.snapshots())


def test_a_shared_helper_belongs_to_the_models_that_import_it(workspace: Workspace) -> None:
    for name in ("airlines", "airports", "flights", "planes", "weather"):
        model = workspace.project.models[ModelName("raw", name)]
        assert model.python is not None
        assert set(model.python.files) == {f"models/raw/{name}.py", "models/raw/nycflights.py"}


def test_its_metrics_read_the_days_of_airlines(workspace: Workspace) -> None:
    pytest.importorskip("metricflow")
    read = {
        one.name: {f"{model}.{column}" for model, column, _ in one.reads}
        for one in workspace.project.exposures
        if one.what == "metric"
    }
    days = "marts.airline_days"
    own = {f"{days}.{one}_flights" for one in ("delayed", "cancelled")} | {f"{days}.flights"}
    assert read["delayed_share"] == {*own, f"{days}.flight_date"}
    joined = {f"{days}.carrier", "staging.airlines.carrier", "staging.airlines.airline_name"}
    assert read["delayed_share_by_airline"] == {*own, *joined}
