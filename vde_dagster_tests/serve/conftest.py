"""One project and one server on it, for all tests that only read."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.shops import publish_twice


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> ProjectFolder:
    """The shop at version 3 of production."""
    return publish_twice(tmp_path_factory.mktemp("serve") / "shop")


@pytest.fixture(scope="session")
def server(shop: ProjectFolder) -> Iterator[Served]:
    """A server on it."""
    with serving(shop.root) as served:
        yield served
