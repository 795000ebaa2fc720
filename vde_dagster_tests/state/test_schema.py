"""Creating, opening and upgrading a store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext

from vde_dagster.errors import StoreError, UsageError
from vde_dagster.state.db.database import make_engine
from vde_dagster.state.db.schema import VERSION_TABLE, metadata
from vde_dagster.state.store import StateStore

JAVA_DDL = (
    "CREATE TABLE iceberg_tables(catalog_name VARCHAR(255) NOT NULL,"
    "table_namespace VARCHAR(255) NOT NULL,table_name VARCHAR(255) NOT NULL,"
    "metadata_location VARCHAR(1000),previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5),PRIMARY KEY (catalog_name, table_namespace, table_name))"
)


def test_migrations_make_what_the_code_expects(store: StateStore) -> None:
    with store.database.engine.connect() as conn:
        context = MigrationContext.configure(conn, opts={"version_table": VERSION_TABLE})
        differences = [
            change
            for change in compare_metadata(context, metadata)
            if not (change[0] == "remove_table" and change[1].name.startswith("iceberg_"))
        ]
    assert differences == []


def test_catalog_tables_are_those_of_icebergs_java_catalog(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    StateStore.open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as conn:
        sql = conn.execute("SELECT sql FROM sqlite_master WHERE name = 'iceberg_tables'").fetchone()
    assert sql[0] == JAVA_DDL


def test_catalog_that_spark_made_first_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "vde.db"
    with sqlite3.connect(path) as conn:
        conn.execute(JAVA_DDL.replace(" iceberg_type VARCHAR(5),", ""))
        conn.execute("INSERT INTO iceberg_tables VALUES ('lakehouse', 'a', 't', 'x', NULL)")
    StateStore.open(f"sqlite:///{path}").close()
    with sqlite3.connect(path) as conn:
        assert conn.execute("SELECT iceberg_type, table_name FROM iceberg_tables").fetchall() == [
            (None, "t")
        ]


def test_newer_store_is_refused(store: StateStore, url: str) -> None:
    with store.database.transaction() as conn:
        conn.exec_driver_sql(f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(StoreError, match="newer version of this package"):
        StateStore.open(url)


def test_opening_an_existing_store_imports_no_alembic(store: StateStore, url: str) -> None:
    code = (
        "import sys; from vde_dagster.state.store import StateStore;"
        f"StateStore.open({url!r}).environments.get('prod');"
        "print([m for m in ('alembic', 'pydantic', 'pyiceberg', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_file_that_is_no_database_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "vde.db").write_text("hello " * 1000)
    with pytest.raises(StoreError, match="is damaged: file is not a database"):
        StateStore.open(f"sqlite:///{tmp_path / 'vde.db'}")


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("hello")
    with pytest.raises(StoreError, match=r"the folder .*file of the state store cannot be created"):
        StateStore.open(f"sqlite:///{tmp_path / 'file' / 'vde.db'}")


def test_other_databases_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url, kind in (
        ("mysql://u:secret@host/db", "mysql"),
        ("sqlite://", "sqlite"),
        ("sqlite:///file:vde.db?mode=ro&uri=true", "sqlite"),
    ):
        with pytest.raises(UsageError, match=f"cannot be a {kind} database"):
            StateStore.open(url)
    assert not list(tmp_path.iterdir())


def test_password_is_in_no_message() -> None:
    with pytest.raises(StoreError) as error:
        StateStore.open("postgresql://user:sesame@127.0.0.1:1/db")
    assert "sesame" not in str(error.value)


def test_a_state_in_postgresql_says_how_to_install_what_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vde_dagster.state.db.database.find_spec", lambda name: None)
    with pytest.raises(UsageError, match="needs the package psycopg") as raised:
        make_engine("postgresql://vde@localhost/vde")
    assert "[postgres]'" in str(raised.value.hint)
