"""Spark clusters of one machine: a standalone master with workers, from the classes of PySpark."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from vde_dagster.spark.session.launch import package_lock
from vde_dagster.spark.session.settings import JAR_CACHE_VARIABLE
from vde_dagster_tests.processes import end

HOME = Path(pyspark.__file__).parent
_STARTS_SECONDS = 120
_DEPLOY = "org.apache.spark.deploy"
_CONNECT = "org.apache.spark.sql.connect.service.SparkConnectServer"
EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """Start a master and workers of one core each, and stop them.

    Args:
        folder: Where their logs and the executors' folders go: `worker0/app-…/0`, and so on.
        workers: How many.

    Yields:
        The master's URL.
    """
    with ExitStack() as stack:
        address = ("--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        log = stack.enter_context(_running(folder, "master", f"{_DEPLOY}.master.Master", *address))
        url = said(log, r"Starting Spark master at (spark://\S+)")
        logs = []
        for number in range(workers):
            name = f"worker{number}"
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(folder / name))
            worker = f"{_DEPLOY}.worker.Worker"
            logs.append(stack.enter_context(_running(folder, name, worker, *address, *limits, url)))
        for log in logs:
            said(log, r"(Successfully registered with master)")
        yield url


@contextmanager
def connect_server(folder: Path, *coordinates: str) -> Iterator[str]:
    """Start a Spark Connect server, and stop it.

    Args:
        folder: Where its log goes.
        coordinates: The packages that it has; none for a server without Iceberg.

    Yields:
        Its URL.
    """
    conf = {
        "spark.master": "local[2]",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.ui.enabled": "false",
    }
    if coordinates:
        conf |= {"spark.sql.extensions": EXTENSIONS, "spark.jars.packages": ",".join(coordinates)}
    cache = os.environ.get(JAR_CACHE_VARIABLE)
    conf |= {"spark.jars.ivy": cache} if cache else {}
    options = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    command = [f"{_DEPLOY}.SparkSubmit", "--class", _CONNECT]
    with ExitStack() as stack:
        with package_lock(conf):
            log = stack.enter_context(_running(folder, "connect", *command, *options, memory="2g"))
            port = said(log, r"Spark Connect server started at: \S*:(\d+)")
        yield f"sc://127.0.0.1:{port}"


def said(log: Path, pattern: str) -> str:
    """Wait until a process has said something; return the pattern's group."""
    end = time.monotonic() + _STARTS_SECONDS
    while time.monotonic() < end:
        found = re.search(pattern, log.read_text(errors="replace"))
        if found:
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"nobody said {pattern!r}:\n{log.read_text(errors='replace')[-2000:]}")


@contextmanager
def _running(folder: Path, name: str, *command: str, memory: str = "192m") -> Iterator[Path]:
    """Run a class of Spark; yield the file that it writes to."""
    options = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
    small = {"SPARK_DAEMON_MEMORY": memory, "SPARK_DAEMON_JAVA_OPTS": options}
    path = folder / f"{name}.log"
    with path.open("wb") as log:
        process = subprocess.Popen(
            [str(HOME / "bin" / "spark-class"), *command],
            env={**os.environ, "SPARK_HOME": str(HOME), **small},
            stdout=log,
            stderr=log,
        )
    try:
        yield path
    finally:
        end(process, seconds=20)
