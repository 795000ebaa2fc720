"""Trino reads a warehouse in S3 through `vde serve`, with a token and a key that may only read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

from vde_dagster.execution.workspace import Workspace
from vde_dagster_tests.lakehouse.trino_compare import Check, Readers
from vde_dagster_tests.lakehouse.trino_project import CODE, CUSTOMERS, MODELS
from vde_dagster_tests.lakehouse.trino_server import TrinoError, running_trino
from vde_dagster_tests.projects import ProjectFolder
from vde_dagster_tests.serve.s3_store import BUCKET, READER, REGION, WRITER, Store, running_store
from vde_dagster_tests.serve.served_process import Served, serving, vde
from vde_dagster_tests.serve.spark_reader import AWS
from vde_dagster_tests.state.postgres_server import PostgresServer

SETTINGS = """
    [tool.vde]
    name = "trino"
    # Spark's JVM, which is started once, has the driver of the first part's state.
    state_url = "{state}"
    warehouse = "s3://{bucket}/warehouse"
    spark.master = "local[2]"
    spark.packages = ["{package}"]

    [tool.vde.io]
    "s3.endpoint" = "{url}"
    "s3.region" = "{region}"
    "s3.access-key-id" = "${{STORE_USER}}"
    "s3.secret-access-key" = "${{STORE_KEY}}"
"""
SERVED = {"s3_first": "prod@1", "s3_second": "prod@2", "s3_nobody": "prod@1"}
"""Warehouses by the names that they have in Trino; the last one is asked for with another token."""


def on_s3(stack: ExitStack, home: Path, java: Path) -> Iterator[Check]:
    """Publish, edit and publish again in a store, and compare both versions."""
    root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vde-trino-s3-")))
    keys = dict(zip(("STORE_USER", "STORE_KEY"), WRITER, strict=True))
    stack.enter_context(patch.dict(os.environ, keys))
    store = stack.enter_context(running_store())
    folder = ProjectFolder(root / "project", MODELS | CODE)
    postgres = PostgresServer()
    stack.callback(postgres.stop)
    state = postgres.url(postgres.create_database())
    told = {"bucket": BUCKET, "url": store.url, "region": REGION, "package": AWS}
    folder.write("pyproject.toml", SETTINGS.format(state=state, **told))
    workspace = stack.enter_context(Workspace.open(folder.root))
    _publish(workspace, "prod", "dev")
    # Columns renamed, in another order, and one dropped.
    folder.edit(
        CUSTOMERS,
        "customer, count(*) AS orders, sum(amount) AS revenue, max(day) AS last_day",
        "sum(amount) AS earned, customer, count(*) AS orders",
    )
    joined = "models/marts/joined.sql"
    folder.edit(joined, "customer, revenue FROM", "customer, earned AS revenue FROM")
    folder.edit(joined, "revenue > 6", "earned > 6")
    _publish(workspace, "prod")
    tokens = {
        name: vde("token", "create", environment, root=folder.root)["token"]
        for name, environment in (("prod", "prod"), ("dev", "dev"))
    }
    server = stack.enter_context(serving(folder.root, "--log", str(root / "served.log")))
    catalogs = {
        name: _properties(server, store, name, tokens["dev" if name == "s3_nobody" else "prod"])
        for name in SERVED
    }
    trino = stack.enter_context(running_trino(home, java, catalogs))
    readers = Readers(workspace, trino)
    store.seen.clear()
    for name, version in (("s3_first", "prod@1"), ("s3_second", "prod@2")):
        yield from readers.compare("on S3", version, name)
    keys_seen = {key for key, _, path in store.seen if ".parquet" in path}
    read = READER[0] in keys_seen
    yield Check("on S3", "store", "(Trino reads with its key)", None, read, str(sorted(keys_seen)))
    for statement, why in (
        ("SELECT count(*) FROM s3_nobody.marts.customers", "a token of dev reads no prod"),
        ("DELETE FROM s3_second.marts.customers", "nothing is written"),
    ):
        try:
            found = str(trino.query(statement).rows)
            yield Check("on S3", "refused", f"({why})", None, False, found)
        except TrinoError as error:
            yield Check("on S3", "refused", f"({why})", None, True, str(error)[:60])


def _publish(workspace: Workspace, *environments: str) -> None:
    workspace.reload()
    for environment in environments:
        assert workspace.apply(workspace.plan(environment)).published


def _properties(server: Served, store: Store, catalog: str, token: str) -> dict[str, str]:
    return {
        "connector.name": "iceberg",
        "iceberg.catalog.type": "rest",
        "iceberg.rest-catalog.uri": server.url,
        "iceberg.rest-catalog.warehouse": f"{SERVED[catalog]}~{catalog}",
        "iceberg.rest-catalog.security": "OAUTH2",
        "iceberg.rest-catalog.oauth2.token": token,
        "fs.native-s3.enabled": "true",
        "s3.endpoint": store.url,
        "s3.region": REGION,
        "s3.path-style-access": "true",
        "s3.aws-access-key": READER[0],
        "s3.aws-secret-key": READER[1],
    }
