"""A shop with metrics."""

from __future__ import annotations

from pathlib import Path

import pytest

from vde_dagster_tests.cli.conftest import vde
from vde_dagster_tests.projects import SHOP, ProjectFolder

__all__ = ["vde"]

METRICS = Path(__file__).parent.parent / "fixtures" / "metrics" / "shop.yaml"


@pytest.fixture
def shop(tmp_path: Path) -> ProjectFolder:
    """A project of five models over a seed of five orders, with metrics of the orders."""
    pytest.importorskip("metricflow")
    return ProjectFolder(tmp_path / "shop", {**SHOP, "metrics/shop.yaml": METRICS.read_text()})
