"""Random histories of publications and rollbacks: outside is what is shown, after each run."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from vde_dagster_tests.state.postgres_server import PostgresServer
from vde_dagster_tests.sync.receiver import receiving
from vde_dagster_tests.sync.world import Shop, in_postgres

pytestmark = pytest.mark.server

HISTORIES = st.lists(
    st.one_of(
        st.just(("day", 0)),
        st.tuples(st.just("back"), st.integers(1, 9)),
        st.tuples(st.just("factor"), st.integers(1, 3)),
        st.tuples(st.just("most"), st.sampled_from([1, 2, 9])),
        st.just(("run", 0)),
    ),
    min_size=2,
    max_size=7,
)


@settings(
    max_examples=4, suppress_health_check=list(HealthCheck), phases=(Phase.reuse, Phase.generate)
)
@given(history=HISTORIES, batch=st.integers(1, 4))
def test_after_each_run_of_a_random_history_both_sinks_are_equal_to_the_view(
    postgres: PostgresServer, history: list[tuple[str, int]], batch: int
) -> None:
    database = postgres.create_database()
    url = postgres.url(database)
    with tempfile.TemporaryDirectory() as root, receiving() as receiver:
        shop = Shop(Path(root) / "shop")
        shop.publish()
        for what, number in [*history, ("run", 0)]:
            if what == "day":
                shop.run_day()
            elif what == "back":
                if (now := shop.version()) > 1:
                    shop.rollback(1 + number % (now - 1))
            elif what in ("factor", "most"):
                shop.rewrite(what, number)
            else:
                to = {"url": url, "table": "latest"}
                shop.define(sink="postgresql", to={"prod": to}, batch=batch)
                shop.sync()
                shown = shop.shown()
                assert in_postgres(url) == shown
                shop.define(sink="http", to={"prod": {"url": receiver.url}}, batch=batch)
                shop.sync()
                told = {str(one["customer"]): one for one in shown}
                assert receiver.rows == json.loads(msgspec.json.encode(told))
    postgres.drop_database(database)
