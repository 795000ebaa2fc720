"""Read every published view with a real Trino and compare its rows with Spark's: `make trino`.

It publishes a project to two environments, edits it, publishes again, freezes and rolls back, and
after each of these has both engines read every model: Trino the views of the project's own catalog,
and what `vde serve` has of the same version; then the same kinds from a warehouse in S3, through
`vde serve` with tokens (`trino_on_s3`). Needs a Java for Trino (see `trino_server`), about 5 GB of
memory, and on the first run access to Maven Central.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.by_settings import jdbc_options
from vde_dagster_tests.lakehouse.trino_compare import Check, Readers
from vde_dagster_tests.lakehouse.trino_on_s3 import on_s3
from vde_dagster_tests.lakehouse.trino_project import (
    CODE,
    CUSTOMERS,
    MODELS,
    ORDERS,
    TRINO_CATALOG,
)
from vde_dagster_tests.lakehouse.trino_server import (
    VERSION,
    TrinoError,
    TrinoServer,
    find_trino_java,
    install_trino,
    running_trino,
)
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.serve.spark_reader import AWS
from vde_dagster_tests.state.postgres_server import PostgresServer

CACHE = Path.home() / ".cache" / "vde-dagster" / "trino"
SETTINGS = """
    [tool.vde]
    name = "trino"
    state_url = "{url}"
    trino_catalog = "{catalog}"
    spark.master = "local[2]"
    # Spark's JVM is started once, and the second part needs this.
    spark.packages = ["{package}"]
"""

SERVED = {
    "served_first": "prod@1",
    "served_second": "prod@2",
    "served_newest": "prod",
    "served_live": "prod+live",
    "served_close": "close",
}
"""Warehouses of `vde serve` by the names that they have in Trino."""


def main() -> None:
    """Compare, print a table, and exit with 1 when anything differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--java", type=Path, help="home of the Java that is to run Trino")
    parser.add_argument("--folder", type=Path, default=CACHE, help="where Trino is kept")
    parser.add_argument("--maven", help="URL of a mirror of Maven Central")
    options = parser.parse_args()
    java = find_trino_java(options.java)
    home = install_trino(options.folder, java, options.maven)
    print(f"Trino {VERSION}, run by {java}, against Spark: the rows of every view")
    total = wrong = 0
    for part in (scenario, on_s3):
        with ExitStack() as stack:
            for check in part(stack, home, java):
                print(check, flush=True)
                total += 1
                wrong += not check.ok
    print(f"{wrong} of {total} checks wrong" if wrong else f"{total} checks: Trino and Spark agree")
    sys.exit(1 if wrong else 0)


def scenario(stack: ExitStack, home: Path, java: Path) -> Iterator[Check]:
    """Publish, edit, publish again, freeze and roll back, looking after each."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vde-trino-reads-")))
    postgres = PostgresServer()
    stack.callback(postgres.stop)
    folder = ProjectFolder(root / "project", MODELS | CODE)
    url = postgres.url(postgres.create_database())
    folder.write("pyproject.toml", SETTINGS.format(url=url, catalog=TRINO_CATALOG, package=AWS))
    workspace = stack.enter_context(Workspace.open(folder.root))
    publish(workspace, "prod", "dev")
    properties = catalog_properties(workspace)
    server = stack.enter_context(serving(folder.root, "--log", str(root / "served.log")))
    served = {name: served_properties(server, name) for name in SERVED}
    trino = stack.enter_context(running_trino(home, java, {TRINO_CATALOG: properties, **served}))
    readers = Readers(workspace, trino)

    yield from readers.compare("published", "prod")
    yield from readers.compare("published", "dev")
    for name in ("served_first", "served_newest", "served_live"):
        yield from readers.compare("published", "prod@1", name)
    first = readers.read["prod"]
    for refused in writes("served_newest"):
        yield _refused(trino, refused)

    folder.edit(ORDERS, "amount > 0", "amount > 3")
    folder.edit(CUSTOMERS, "max(day) AS last_day", "'new' AS `new column`")
    publish(workspace, "dev")
    yield from readers.compare("dev edited", "dev")
    yield _claim("dev edited", "dev", "Trino sees the edit", readers.read["dev"] != first)
    yield from readers.compare("dev edited", "prod")
    yield _claim("dev edited", "prod", "Trino sees no edit", readers.read["prod"] == first)

    publish(workspace, "prod")
    yield from readers.compare("prod edited", "prod")
    same = readers.read["prod"] == readers.read["dev"]
    yield _claim("prod edited", "prod", "Trino sees what dev has", same)
    for name, version in (
        ("served_first", "prod@1"),
        ("served_newest", "prod@1"),  # Its session began before.
        ("served_second", "prod@2"),
        ("served_live", "prod@2"),
    ):
        yield from readers.compare("prod edited", version, name)

    workspace.environments.freeze("prod@1", "close")
    yield from readers.compare("prod@1 frozen", "close")
    same = readers.read["close"] == first
    yield _claim("prod@1 frozen", "close", "Trino sees the first rows", same)

    yield from readers.compare("prod@1 frozen", "close", "served_close")

    workspace.environments.rollback("prod")
    yield from readers.compare("prod rolled back", "prod")
    same = readers.read["prod"] == first
    yield _claim("prod rolled back", "prod", "Trino sees the first rows", same)
    yield from readers.compare("prod rolled back", "close")
    same = readers.read["close"] == first
    yield _claim("prod rolled back", "close", "Trino sees the first rows", same)
    for name, version in (("served_second", "prod@2"), ("served_live", "prod")):
        yield from readers.compare("prod rolled back", version, name)


def publish(workspace: Workspace, *environments: str) -> None:
    """Plan the project's files and apply them."""
    workspace.reload()
    for environment in environments:
        assert workspace.apply(workspace.plan(environment)).published


def catalog_properties(workspace: Workspace) -> dict[str, str]:
    """Describe the project's catalog to Trino; what is read is as new as the database."""
    jdbc = jdbc_options(workspace.settings.resolved_state_url)
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "jdbc",
        "iceberg.jdbc-catalog.catalog-name": workspace.settings.catalog,
        "iceberg.jdbc-catalog.schema-version": "V1",
        "iceberg.jdbc-catalog.driver-class": "org.postgresql.Driver",
        "iceberg.jdbc-catalog.connection-url": jdbc["uri"],
        "iceberg.jdbc-catalog.connection-user": jdbc["jdbc.user"],
        "iceberg.jdbc-catalog.default-warehouse-dir": workspace.lakehouse.warehouse,
        "iceberg.metadata-cache.enabled": "false",
        # Reads `file:` too, from the root that is named here.
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }


def served_properties(server: Served, catalog: str) -> dict[str, str]:
    """Describe to Trino a warehouse of `vde serve`, which Trino's views have to know by name."""
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": server.url,
        "iceberg.rest-catalog.warehouse": f"{SERVED[catalog]}~{catalog}",
        "fs.native-local.enabled": "true",
        "local.location": "/",
    }


def writes(catalog: str) -> Iterator[str]:
    """Return statements that would change a catalog."""
    yield f"INSERT INTO {catalog}.marts.customers SELECT * FROM {catalog}.marts.customers"
    yield f"DELETE FROM {catalog}.marts.customers"
    yield f"DROP TABLE {catalog}.marts.customers"
    yield f"DROP VIEW {catalog}.marts.joined"
    yield f"CREATE TABLE {catalog}.marts.more (a INTEGER)"
    yield f"CREATE OR REPLACE VIEW {catalog}.marts.joined AS SELECT 1 AS a"
    yield f"ALTER TABLE {catalog}.marts.customers EXECUTE expire_snapshots"
    yield f"CREATE SCHEMA {catalog}.more"


def _refused(trino: TrinoServer, statement: str) -> Check:
    try:
        trino.query(statement)
    except TrinoError as error:
        return Check("writes", "served_newest", f"({statement[:30]})", None, True, str(error)[:60])
    return Check("writes", "served_newest", f"({statement[:30]})", None, False, "not refused")


def _claim(step: str, environment: str, text: str, holds: bool) -> Check:
    return Check(step, environment, f"({text})", None, holds, "yes" if holds else "NO")


if __name__ == "__main__":
    main()
