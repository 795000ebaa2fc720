"""Spark as a client in a process of its own, which has no keys but what a catalog hands out.

As a program (python -m vde_dagster_tests.serve.spark_reader URL FOLDER) it begins, for each line of
JSON that it is given, a session on a warehouse, runs queries in it, and prints their rows.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.spark.engine import SparkEngine
from vde_dagster.spark.session.settings import SessionSettings
from vde_dagster_tests.conftest import SMALL_SPARK

AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"


@dataclass(frozen=True, slots=True)
class SparkReader:
    """A running client.

    Args:
        process: Its process.
    """

    process: subprocess.Popen[str]

    def rows(self, warehouse: str, *queries: str, token: str | None = None) -> list[Any]:
        """Return the rows of queries, sorted, of one session.

        Args:
            warehouse: The warehouse; `{}` in queries stands for its catalog.
            queries: The queries.
            token: A token to send.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        asked = {"warehouse": warehouse, "queries": queries, "token": token}
        self.process.stdin.write(json.dumps(asked) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if isinstance(answer, str):
            raise AssertionError(answer)
        return list(answer)


@contextmanager
def spark_reader(url: str, folder: Path) -> Iterator[SparkReader]:
    """Run a client of a catalog.

    Args:
        url: Where the catalog is.
        folder: A folder for its logs.
    """
    command = [sys.executable, "-m", "vde_dagster_tests.serve.spark_reader", url, str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield SparkReader(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(60)


def main(url: str, folder: Path) -> None:
    """Answer lines until there are no more."""
    engine = SparkEngine(
        SessionSettings(
            catalog="own",
            state_url=f"sqlite:///{folder / 'own.db'}",
            warehouse=str(folder / "own"),
            master="local[2]",
            config=SMALL_SPARK,
            packages=(AWS,),
            log_file=folder / "spark-reader.log",
        )
    )
    for number, line in enumerate(sys.stdin):
        asked = json.loads(line)
        try:
            print(json.dumps(_rows(engine, url, f"c{number}", asked), default=str), flush=True)
        except Exception as error:
            print(json.dumps(str(error)[:2000]), flush=True)
    engine.close()


def _rows(engine: SparkEngine, url: str, name: str, asked: dict[str, Any]) -> list[Any]:
    session = engine.session.newSession()
    prefix = f"spark.sql.catalog.{name}"
    session.conf.set(prefix, "org.apache.iceberg.spark.SparkCatalog")
    options = {"type": "rest", "uri": url, "warehouse": asked["warehouse"]}
    if asked["token"]:
        options["token"] = asked["token"]
    for key, text in options.items():
        session.conf.set(f"{prefix}.{key}", text)
    queries: Sequence[str] = asked["queries"]
    found = [session.sql(query.replace("{}", name)).collect() for query in queries]
    return [sorted((list(row) for row in rows), key=repr) for rows in found]


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
