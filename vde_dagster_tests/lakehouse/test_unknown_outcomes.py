"""A commit whose answer was lost is looked up, and then it is known what happened."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from vde_dagster.errors import UnknownOutcomeError
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.state.environments.publications import PublicationStore
from vde_dagster.state.store import StateStore
from vde_dagster_tests.lakehouse.oracle import look, query
from vde_dagster_tests.lakehouse.proxy import LossyProxy
from vde_dagster_tests.state.builders import environment, view
from vde_dagster_tests.state.postgres_server import PostgresServer

pytestmark = pytest.mark.server


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[LossyProxy]:
    made = LossyProxy(postgres.port)
    yield made
    made.close()


@pytest.fixture
def database(postgres: PostgresServer, empty_postgres: str) -> Iterator[str]:
    name = postgres.create_database(empty_postgres)
    yield name
    postgres.drop_database(name)


def test_every_lost_commit_is_decided_rightly(
    postgres: PostgresServer, proxy: LossyProxy, database: str, tmp_path: Path
) -> None:
    chance = random.Random(7)
    direct = postgres.url(database)
    store = StateStore.open(postgres.url(database, proxy.port))
    lakehouse = Lakehouse(store, "lakehouse", str(tmp_path))
    for number in range(120):
        proxy.lose = chance.choice(("answer", "request"))
        views = (view("a", f"SELECT {number} AS a"), view("b", f"SELECT {number} AS a"))
        made = lakehouse.publish(Publication(environment("prod"), number, views))
        assert made.version == number + 1
        rows = list(query(direct, "SELECT metadata_location FROM iceberg_tables"))
        assert len(rows) == 2
        assert all(Path(row[0].removeprefix("file://")).exists() for row in rows)
    assert proxy.lost == 120
    assert len(store.versions.history("prod")) == 120
    found = list(query(direct, "SELECT status, count(*) FROM vde_publications GROUP BY 1"))
    assert dict(found)["committed"] == 120
    assert "intended" not in dict(found)
    store.close()


def test_store_that_is_gone_leaves_everything_as_it_is(
    postgres: PostgresServer,
    proxy: LossyProxy,
    database: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = StateStore.open(postgres.url(database, proxy.port))
    lakehouse = Lakehouse(store, "lakehouse", str(tmp_path))
    lakehouse.publish(Publication(environment("prod"), 0, (view("a"),)))
    resolve = PublicationStore.resolve

    def unreachable(self: PublicationStore, publication_id: str) -> str:
        proxy.close()
        store.database.engine.dispose()
        return resolve(self, publication_id)

    monkeypatch.setattr(PublicationStore, "resolve", unreachable)
    proxy.lose = "answer"
    with pytest.raises(UnknownOutcomeError, match="cannot be reached"):
        lakehouse.publish(Publication(environment("prod"), 1, (view("a", "SELECT 2 AS a"),)))
    store.close()
    direct = StateStore.open(postgres.url(database))
    (row,) = query(postgres.url(database), "SELECT metadata_location FROM iceberg_tables")
    assert Path(row[0].removeprefix("file://")).exists()
    current = direct.environments.get("prod")
    assert current is not None
    assert current.version == 2
    direct.close()


def test_reader_sees_old_or_new_whatever_is_lost(
    postgres: PostgresServer, proxy: LossyProxy, database: str, tmp_path: Path
) -> None:
    store = StateStore.open(postgres.url(database, proxy.port))
    lakehouse = Lakehouse(store, "lakehouse", str(tmp_path))
    for number in range(10):
        proxy.lose = "answer" if number % 2 else "request"
        lakehouse.publish(Publication(environment("prod"), number, ()))
        look(postgres.url(database))
    store.close()
