"""Settings for object stores reach PyIceberg's FileIO, and Spark what it has an equivalent of."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.typedef import Properties

from vde_dagster.errors import ProjectError
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.io.locations import for_clients, for_spark
from vde_dagster.lakehouse.lakehouse import Lakehouse
from vde_dagster.lakehouse.publishing.new_table import NewTable
from vde_dagster.lakehouse.publishing.publication import Publication
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.spark.session.settings import SessionSettings, catalog_config, command_line_config
from vde_dagster.state.store import StateStore
from vde_dagster_tests.state.builders import environment, view

A = TableRef("db", "a")


class GuardedStore(PyArrowFileIO):
    """A store below a folder of this machine (`vault://…`) that asks for a key."""

    def __init__(self, properties: Properties) -> None:
        super().__init__(properties)
        if properties.get("vault.key") != "hunter2":
            raise PermissionError("the key is wrong")

    def new_input(self, location: str) -> Any:
        return super().new_input(self._place(location))

    def new_output(self, location: str) -> Any:
        return super().new_output(self._place(location))

    def delete(self, location: Any) -> None:
        super().delete(self._place(str(location)))

    def _place(self, location: str) -> str:
        place = f"{self.properties['vault.folder']}/{location.removeprefix('vault://')}"
        os.makedirs(os.path.dirname(place), exist_ok=True)
        return place


def vault(folder: Path, key: str) -> dict[str, str]:
    name = f"{GuardedStore.__module__}.{GuardedStore.__qualname__}"
    return {"py-io-impl": name, "vault.key": key, "vault.folder": str(folder)}


def test_a_stores_key_is_given_to_it(store: StateStore, tmp_path: Path) -> None:
    lakehouse = Lakehouse(store, "lakehouse", "vault://w", vault(tmp_path, "hunter2"))
    lakehouse.publish(Publication(environment("prod"), 0, (view("v"),)))
    lakehouse.create_table(NewTable(A, (("a", "INT", None),), "vault://w/db/a-1", {}))
    pointers = lakehouse.catalog.all_pointers()
    assert all(at.location.startswith("vault://w/") for at in pointers.values())
    assert len(list(tmp_path.rglob("*.metadata.json"))) == 2
    assert lakehouse.relation_columns(A) == [("a", "INT", None)]
    assert isinstance(lakehouse.load_table(A).io, GuardedStore)


def test_a_wrong_key_is_refused_by_the_store(store: StateStore, tmp_path: Path) -> None:
    lakehouse = Lakehouse(store, "lakehouse", "vault://w", vault(tmp_path, "other"))
    with pytest.raises(Exception, match="the key is wrong"):
        lakehouse.publish(Publication(environment("prod"), 0, (view("v"),)))
    assert lakehouse.catalog.all_pointers() == {}


def test_a_deleted_file_can_be_deleted_again(store: StateStore, tmp_path: Path) -> None:
    lakehouse = Lakehouse(store, "lakehouse", "vault://w", vault(tmp_path, "hunter2"))
    lakehouse.files.write_all([("vault://w/a.json", b"{}")], "test.write")
    for _ in range(2):  # The janitor repeats a deletion after a crash.
        lakehouse.files.delete_all(["vault://w/a.json"], "test.delete")
        assert not lakehouse.files.exists("vault://w/a.json")


def test_a_local_warehouse_takes_settings_too(store: StateStore, tmp_path: Path) -> None:
    lakehouse = Lakehouse(store, "lakehouse", str(tmp_path / "w"), {"s3.region": "eu-west-1"})
    lakehouse.create_table(NewTable(A, (("a", "INT", None),), f"{lakehouse.warehouse}/db/a-1", {}))
    io = lakehouse.load_table(A).io
    assert isinstance(io, PyArrowFileIO)
    assert io.properties["s3.region"] == "eu-west-1"


def test_spark_is_told_what_its_file_io_knows() -> None:
    io = {
        "s3.endpoint": "http://store:9000",
        "s3.access-key-id": "anna",
        "s3.secret-access-key": "hunter2",
        "client.access-key-id": "ben",
        "s3.region": "eu-west-1",
        "s3.connect-timeout": "60",
    }
    assert for_spark(io, "s3://bucket/w") == {
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": "http://store:9000",
        "s3.path-style-access": "true",
        "s3.access-key-id": "anna",
        "s3.secret-access-key": "hunter2",
        "client.region": "eu-west-1",
    }
    virtual = {**io, "s3.force-virtual-addressing": "true"}
    assert for_spark(virtual, "s3://bucket/w")["s3.path-style-access"] == "false"


@pytest.mark.parametrize(
    ("io", "warehouse"),
    [
        ({"s3.region": "x"}, "/data/w"),
        ({"s3.region": "x"}, "s3a://bucket/w"),
        ({"gcs.project-id": "x"}, "s3://bucket/w"),
        ({}, "s3://bucket/w"),
    ],
)
def test_hadoops_own_file_systems_are_left_as_they_are(io: dict[str, str], warehouse: str) -> None:
    assert for_spark(io, warehouse) == {}


def test_a_projects_settings_reach_both_and_are_written_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.vde]\nwarehouse = "s3://bucket/w"\n\n[tool.vde.io]\n'
        '"s3.access-key-id" = "anna"\n"s3.secret-access-key" = "${STORE_KEY}"\n'
    )
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "m.sql").write_text("MODEL (name a.m); SELECT 1 AS a")
    monkeypatch.setenv("STORE_KEY", "hunter2")
    with Workspace.open(tmp_path) as workspace:
        assert workspace.project.models
        settings = workspace.settings
        assert expand_secrets(settings.io)["s3.secret-access-key"] == "hunter2"
        io = workspace.lakehouse.files.file_io("s3://bucket/w")
        assert io.properties["s3.secret-access-key"] == "hunter2"
        reached = workspace.lakehouse.catalog.for_spark()
        spark = SessionSettings.from_settings(settings)
        config = catalog_config(spark)
        assert config["spark.sql.catalog.lakehouse.s3.secret-access-key"] == "hunter2"
        assert reached.properties["s3.secret-access-key"] == "hunter2"
        for shown in (settings, spark, reached, command_line_config(config)):
            assert "hunter2" not in repr(shown)
            assert "STORE_KEY" not in repr(shown)
    for path in (tmp_path / ".vde").rglob("*"):
        assert path.is_dir() or b"hunter2" not in path.read_bytes()
    monkeypatch.delenv("STORE_KEY")
    with pytest.raises(ProjectError, match="STORE_KEY"), Workspace.open(tmp_path) as workspace:
        _ = workspace.lakehouse


@pytest.mark.parametrize(
    ("io", "told"),
    [
        ({}, {}),
        (
            {"s3.endpoint": "https://s", "s3.region": "eu", "other": "1"},
            {
                "s3.endpoint": "https://s",
                "s3.region": "eu",
                "client.region": "eu",
                "s3.path-style-access": "true",
                "other": "1",
            },
        ),
        (
            {"s3.endpoint": "https://s", "s3.path-style-access": "false"},
            {"s3.endpoint": "https://s", "s3.path-style-access": "false"},
        ),
        (
            {"client.secret-access-key": "k"},
            {"client.secret-access-key": "k", "s3.secret-access-key": "k"},
        ),
    ],
)
def test_clients_are_told_the_settings_by_both_names_and_nothing_else(
    io: dict[str, str], told: dict[str, str]
) -> None:
    assert for_clients(io, "s3://lake/warehouse") == told
    assert for_clients(io, "file:///warehouse") == io
