"""Examples of catalogs; the toy distribution of the tests has a complete one."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from vde_dagster.api.catalogs import (
    Catalog,
    Effects,
    Following,
    MetadataFiles,
    Pointer,
    SparkCatalog,
    Swap,
    TableRef,
)
from vde_dagster.api.errors import ConflictError
from vde_dagster.api.workspace import Workspace


def test_Catalog(workspace: Workspace) -> None:
    catalog: Catalog = workspace.lakehouse.catalog
    assert catalog.pointers([TableRef("marts", "none")]) == {}


def test_Effects() -> None:
    class EveryEffect:
        """Performs every side effect; a test's port fails at a chosen one."""

        def at(self, point: str, detail: str = "") -> nullcontext[None]:
            return nullcontext()

    effects: Effects = EveryEffect()
    with effects.at("catalog.swap", "marts.daily"):
        pass  # Here the catalog is called.


def test_Following() -> None:
    # One pointer at a time: the state decides, and the catalog follows.
    assert Following(together=False).keeps_pointers


def test_MetadataFiles(tmp_path: Path, workspace: Workspace) -> None:
    files = MetadataFiles(workspace.store.database.effects, tmp_path.as_uri())
    location = f"{tmp_path.as_uri()}/v1.metadata.json"
    files.write_all([(location, b"{}")], point="pager.write")
    assert files.exists(location)


def test_Pointer() -> None:
    pointer = Pointer("s3://lake/daily/metadata/v1.json", "TABLE")
    assert pointer.kind == "TABLE"


def test_SparkCatalog() -> None:
    rest = SparkCatalog({"type": "rest", "uri": "https://catalog.test"})
    assert rest.packages == ()


def test_Swap() -> None:
    swap = Swap(TableRef("marts", "daily"), "TABLE", before="v1.json", after="v2.json")
    swap.require_unmoved(Pointer("v1.json", "TABLE"))
    with pytest.raises(ConflictError):
        swap.require_unmoved(Pointer("v9.json", "TABLE"))


def test_TableRef() -> None:
    assert TableRef("marts__dev", "daily").quoted("lake") == "`lake`.`marts__dev`.`daily`"
