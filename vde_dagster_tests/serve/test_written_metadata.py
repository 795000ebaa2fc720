"""Clients that read metadata from the warehouse find there what the catalog answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import StaticTable

from vde_dagster_tests.serve.served_process import serving_here, vde
from vde_dagster_tests.serve.shops import publish_twice, run

pytestmark = pytest.mark.server


def test_metadata_is_a_file_only_where_the_server_is_told_so(tmp_path: Path) -> None:
    folder = publish_twice(tmp_path / "shop")
    paths = {version: f"/v1/prod@{version}/namespaces/raw/tables/orders" for version in (1, 3)}
    before = set(folder.root.rglob("*.metadata.json"))

    def place(answer: Any) -> Path:
        return Path(answer.json["metadata-location"].removeprefix("file://"))

    with serving_here(folder.root) as server:
        for path in paths.values():
            assert not place(server.ask(path)).exists()
    assert set(folder.root.rglob("*.metadata.json")) == before
    for _ in range(2):  # Another server finds what the first one wrote.
        with serving_here(folder.root, writes_metadata=True) as server:
            for version, path in paths.items():
                answer = server.ask(path)
                assert json.loads(place(answer).read_text()) == answer.json["metadata"]
                table = StaticTable.from_metadata(answer.json["metadata-location"])
                rows = table.scan().to_arrow()
                first = ["id", "tenant", "amount", "word"]
                assert rows.column_names == (
                    first if version == 1 else ["tenant", "number", "amount"]
                )
                assert rows.num_rows == 4
            views = server.ask("/v1/prod@3/namespaces/marts/views/sums")
            assert not place(views).exists()
    written = set(folder.root.rglob("*.metadata.json")) - before
    assert len(written) == 2, "one for each table and publication that was asked for"
    # What goes on with the project takes none of them for its own.
    run(folder, 6)
    assert vde("fsck", root=folder.root)["findings"] == []
    vde("janitor", root=folder.root)
    assert all(path.exists() for path in written)


def test_a_file_that_is_damaged_is_told(tmp_path: Path) -> None:
    folder = publish_twice(tmp_path / "shop")
    path = "/v1/prod@1/namespaces/raw/tables/orders"
    with serving_here(folder.root, writes_metadata=True) as server:
        location = server.ask(path).json["metadata-location"].removeprefix("file://")
    Path(location).write_text('{"half": ')
    with serving_here(folder.root, writes_metadata=True) as server:
        answer = server.ask(path)
        assert answer.status == 503
        assert "remove it" in answer.json["error"]["message"]
        Path(location).unlink()
        assert server.ask(path).status == 200
