"""PyIceberg reads environments through a real server."""

from __future__ import annotations

import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import NoSuchTableError

from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving_here
from vde_dagster_tests.serve.shops import publish_twice, run

pytestmark = pytest.mark.server

ROWS = {
    1: [(1, 7, "5.50", "a"), (2, 7, "7.25", None), (3, 8, "2.00", "ü"), (4, None, "1.00", "d")],
    3: [(7, 1, "5.50"), (7, 2, "7.25"), (8, 3, "2.00"), (None, 4, "1.00")],
}
"""The orders by version, in order of their numbers."""


def connect(server: Served, warehouse: str, **more: str) -> RestCatalog:
    catalog = load_catalog("c", type="rest", uri=server.url, warehouse=warehouse, **more)
    assert isinstance(catalog, RestCatalog)
    return catalog


@pytest.mark.parametrize("version", [1, 3])
def test_renamed_dropped_and_reordered_columns_are_read(server: Served, version: int) -> None:
    catalog = connect(server, f"prod@{version}")
    table = catalog.load_table("raw.orders")
    rows = [tuple(row.values()) for row in table.scan().to_arrow().to_pylist()]
    key = 0 if version == 1 else 1
    shown = [tuple(str(v) if i == 2 else v for i, v in enumerate(row)) for row in rows]
    assert sorted(shown, key=lambda row: int(str(row[key]))) == ROWS[version]
    only = table.scan(row_filter="tenant = 7", selected_fields=("amount",)).to_arrow()
    assert sorted(map(str, only["amount"].to_pylist())) == ["5.50", "7.25"]


def test_versions_have_their_own_rows_and_lists(server: Served) -> None:
    days = []
    for version in (1, 2, 3):
        catalog = connect(server, f"prod@{version}")
        assert sorted(catalog.list_namespaces()) == [("marts",), ("raw",)]
        assert catalog.list_tables("marts") == [("marts", "daily")]
        assert catalog.list_views("marts") == [("marts", "sums")]
        assert catalog.view_exists("marts.sums")
        assert not catalog.table_exists("marts.sums")
        days.append(catalog.load_table("marts.daily").scan().to_arrow().num_rows)
        with pytest.raises(NoSuchTableError):
            catalog.load_table("marts.big")
    assert days == [8, 12, 12]


def test_a_session_goes_on_with_its_publication_and_a_live_one_follows(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder: ProjectFolder = publish_twice(tmp_path_factory.mktemp("later") / "shop")
    with serving_here(folder.root) as server:
        before, live = connect(server, "prod"), connect(server, "prod+live")
        followed = live.load_table("marts.daily")

        def rows(catalog: RestCatalog) -> int:
            return int(catalog.load_table("marts.daily").scan().to_arrow().num_rows)

        assert (rows(before), rows(live)) == (12, 12)
        run(folder, 6)
        assert (rows(before), rows(live), rows(connect(server, "prod"))) == (12, 20, 20)
        assert followed.refresh().scan().to_arrow().num_rows == 20
