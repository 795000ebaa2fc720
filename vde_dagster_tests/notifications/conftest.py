"""The receiver that notifications of a test go to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from vde_dagster_tests.notifications.listening import Receiving, receiving


@pytest.fixture
def server() -> Iterator[Receiving]:
    with receiving() as found:
        yield found
