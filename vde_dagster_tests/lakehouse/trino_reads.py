"""Read every published view with a real Trino and compare its rows with Spark's: `make trino`.

It publishes a project to two environments, edits it, publishes again, freezes and rolls back, and
after each of these has both engines read every model: Trino the views of the project's own catalog,
and what `vde serve` has of the same version. Needs a Java for Trino (see `trino_server`), about
5 GB of memory, and on the first run access to Maven Central.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.cli.values import json_value
from vde_dagster.execution.published_version import published_version
from vde_dagster.execution.workspace import Workspace
from vde_dagster.lakehouse.catalogs.sql_spark import jdbc_options
from vde_dagster.planning.environment import ViewNames
from vde_dagster_tests.lakehouse.trino_project import (
    CUSTOMERS,
    MODELS,
    ORDERS,
    SPARK_ONLY,
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
from vde_dagster_tests.lakehouse.trino_values import trino_json
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.served_process import Served, serving
from vde_dagster_tests.state.postgres_server import PostgresServer

CACHE = Path.home() / ".cache" / "vde-dagster" / "trino"
SETTINGS = """
    [tool.vde]
    name = "trino"
    state_url = "{url}"
    trino_catalog = "{catalog}"
    spark.master = "local[2]"
"""

Rows = tuple[str, ...]
"""A view's column names, then its rows, sorted; all as JSON."""
Place = tuple[str, str, str]
"""A catalog's name in Trino, a schema, and a table or view."""
SERVED = {
    "served_first": "prod@1",
    "served_second": "prod@2",
    "served_newest": "prod",
    "served_live": "prod+live",
    "served_close": "close",
}
"""Warehouses of `vde serve` by the names that they have in Trino."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Args:
        step: What had just happened.
        environment: The environment.
        subject: The view, or what else.
        rows: How many rows were compared, or None.
        ok: Whether all is well.
        verdict: What was found.
    """

    step: str
    environment: str
    subject: str
    rows: int | None
    ok: bool
    verdict: str

    def __str__(self) -> str:
        rows = "" if self.rows is None else str(self.rows)
        mark = "ok" if self.ok else "WRONG"
        return (
            f"{self.step:<16} {self.environment:<13} {self.subject:<26} {rows:>3}  "
            f"{mark:<5}  {self.verdict}"
        )


@dataclass(frozen=True, slots=True)
class Readers:
    """Both engines on one project.

    Args:
        workspace: The project; queries it with Spark.
        trino: The server.
        read: What Trino read last, by environment and model.
    """

    workspace: Workspace
    trino: TrinoServer
    read: dict[str, dict[ModelName, Rows]] = field(default_factory=dict)

    def compare(self, step: str, environment: str, served: str | None = None) -> Iterator[Check]:
        """Read every model of an environment with both.

        Args:
            step: What had just happened.
            environment: The environment, or a version of it: `prod@1`.
            served: Trino's catalog of it that is behind `vde serve`; by default Trino reads the
                environment's views.
        """
        models = self._models(environment)
        where = served or environment
        self.read[where] = {}
        places = {model: self._place(model, environment, served) for model in models}
        for model, place in sorted(places.items()):
            yield self._compare(step, environment, where, model, place)
        yield self._listed(step, where, set(places.values()))

    def _models(self, environment: str) -> list[ModelName]:
        store = self.workspace.store
        found = published_version(store, environment) or store.environments.get(environment)
        assert found is not None
        snapshots = store.snapshots.load(entry.snapshot_id for entry in found.entries.values())
        return [one.name for one in snapshots.values() if one.model.kind.is_shown]

    def _place(self, model: ModelName, environment: str, served: str | None) -> Place:
        if served is not None:
            return (served, model.namespace, model.name)
        ref = ViewNames(environment).ref(model)
        return (TRINO_CATALOG, ref.namespace, ref.name)

    def _compare(
        self, step: str, environment: str, where: str, model: ModelName, place: Place
    ) -> Check:
        spark = self._with_spark(environment, model)
        refused = str(model) in SPARK_ONLY
        try:
            trino = self._with_trino(place)
        except TrinoError as error:
            ok = refused and "unsupported dialect" in str(error)
            verdict = f"Trino: {error}"
        else:
            self.read[where][model] = trino
            ok = trino == spark and not refused
            verdict = "same" if trino == spark else f"Spark {spark}, Trino {trino}"
        return Check(step, where, str(model), len(spark) - 1, ok, verdict)

    def _with_spark(self, environment: str, model: ModelName) -> Rows:
        name = f"{quote(model.namespace)}.{quote(model.name)}"
        answer = self.workspace.query(environment, f"SELECT * FROM {name}")
        names = [column for column, _ in answer.columns]
        return _rows(names, [[json_value(value) for value in row] for row in answer.rows])

    def _with_trino(self, place: Place) -> Rows:
        answer = self.trino.query(f"SELECT * FROM {'.'.join(map(_trino, place))}")
        names = [column["name"] for column in answer.columns]
        types = [column["typeSignature"] for column in answer.columns]
        return _rows(names, [list(map(trino_json, row, types)) for row in answer.rows])

    def _listed(self, step: str, where: str, wanted: set[Place]) -> Check:
        found = {
            (catalog, schema, name)
            for catalog, schema in {place[:2] for place in wanted}
            for (name,) in self.trino.query(
                f"SHOW TABLES FROM {_trino(catalog)}.{_trino(schema)}"
            ).rows
        }
        ok = found == wanted
        verdict = "same" if ok else f"Trino lists {sorted(found)}"
        return Check(step, where, "(list of the models)", len(wanted), ok, verdict)


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
    wrong = 0
    with ExitStack() as stack:
        for check in scenario(stack, home, java):
            print(check, flush=True)
            wrong += not check.ok
    print(f"{wrong} wrong" if wrong else "Trino and Spark agree")
    sys.exit(1 if wrong else 0)


def scenario(stack: ExitStack, home: Path, java: Path) -> Iterator[Check]:
    """Publish, edit, publish again, freeze and roll back, looking after each."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vde-trino-reads-")))
    postgres = PostgresServer()
    stack.callback(postgres.stop)
    folder = ProjectFolder(root / "project", MODELS)
    url = postgres.url(postgres.create_database())
    folder.write("pyproject.toml", SETTINGS.format(url=url, catalog=TRINO_CATALOG))
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

    workspace.freeze("prod@1", "close")
    yield from readers.compare("prod@1 frozen", "close")
    same = readers.read["close"] == first
    yield _claim("prod@1 frozen", "close", "Trino sees the first rows", same)

    yield from readers.compare("prod@1 frozen", "close", "served_close")

    workspace.rollback("prod")
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


def _rows(names: list[str], rows: list[list[Any]]) -> Rows:
    """Write an answer as the other engine's is written; Trino has all names in lower case."""
    header = json.dumps([name.lower() for name in names], ensure_ascii=False)
    return (header, *sorted(json.dumps(row, ensure_ascii=False) for row in rows))


def _trino(identifier: str) -> str:
    return '"' + identifier.replace('"', '""') + '"'


if __name__ == "__main__":
    main()
