"""Spark Connect: sessions on a server, without access to its JVM."""

from __future__ import annotations

import os
import queue
import re
import socket
import threading
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from vde_dagster.base.installing import how_to_install
from vde_dagster.base.names import quote
from vde_dagster.errors import NoSparkError, StoreError
from vde_dagster.spark.session.failures import cause_line, hush_pyspark
from vde_dagster.spark.session.jvm_failure import ended_error
from vde_dagster.spark.session.settings import SessionSettings, packages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


SCHEME = "sc://"


def is_connect_url(master: str) -> bool:
    """Return whether a master is a Spark Connect server: `sc://host:15002`."""
    return master.startswith(SCHEME)


def is_remote(session: Any) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect.")


def tag_on_server(session: SparkSession, tag: str) -> str:
    """Return the job tag that a Spark Connect server makes from a session's tag."""
    client: Any = session.client
    user = client._user_id or ""
    return f"SparkConnect_SessionTag_User_{user}_Session_{client._session_id}_Tag_{tag}"


def was_closed(session: SparkSession) -> bool:
    """Return whether a server has closed a session: after a long idle time, or by a restart.

    This sends a request, which counts as a use of the session.
    """
    from pyspark.errors import PySparkException

    try:
        session.conf.get("spark.sql.session.timeZone")
    except PySparkException as error:
        return "INVALID_HANDLE.SESSION_" in str(error)
    return False


def query_frame(session: SparkSession, query: str) -> DataFrame:
    if not is_remote(session):
        return session.sql(query)
    # On a server, `session.sql` would first analyze the text to find its type.
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame
    from pyspark.sql.connect.plan import SQL

    remote: Any = session
    frame: Any = RemoteFrame(SQL(query), remote)
    return frame


def has_client() -> bool:
    # Dagster alone installs gRPC, which is not enough.
    return all(find_spec(name) is not None for name in ("grpc", "grpc_status", "zstandard"))


def require_client(master: str) -> None:
    """Raise NoSparkError unless PySpark's Connect client is installed."""
    if not has_client():
        raise NoSparkError(
            f"the Spark master {without_parameters(master)} needs PySpark's client of Spark "
            "Connect",
            hint=how_to_install(),
        )


def connect(settings: SessionSettings) -> SparkSession:
    """Create a session on a Spark Connect server.

    Raises:
        NoSparkError: PySpark's Connect client is missing.
        StoreError: The server refuses a session, or lacks Iceberg.
    """
    require_client(settings.master)
    where = without_parameters(settings.master)
    from pyspark import SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.client.retries import DefaultPolicy
    from pyspark.sql.connect.session import SparkSession

    if SparkContext._active_spark_context is not None:
        raise StoreError(
            f"this process has started Spark itself, so it cannot use {where}",
            hint="use separate processes for projects on Spark Connect and for other projects",
        )
    hush_pyspark()
    os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"  # As PySpark's own builder does for a URL.
    try:
        session: SparkSession = SparkSession.builder.channelBuilder(
            _channel_builder(settings)
        ).create()
        _limit_close(session.client)
        if settings.warm is not None:
            # It is on this machine: if it does not respond, it has ended.
            session.client.set_retry_policies([DefaultPolicy(max_retries=2)])
            warnings.filterwarnings("ignore", r"\[RETRIES_EXCEEDED\]", module="pyspark")
        extensions = session.conf.get("spark.sql.extensions", "") or ""
    except PySparkException as error:
        raise ended_error(error) or StoreError(
            f"the Spark Connect server {where} refuses a session: {cause_line(error)}",
            hint="use a server and a PySpark of the same version",
        ) from error
    if "iceberg" not in extensions.lower():
        raise StoreError(
            f"the Spark Connect server {where} lacks Iceberg", hint=_iceberg_hint(settings)
        )
    return session


def _limit_close(client: Any) -> None:
    # PySpark's `close` waits for threads that all sessions of the process share. The garbage
    # collector may call it in any thread. If that thread is a shared one, or holds a lock of gRPC
    # that these threads wait for, the process hangs.
    def close() -> None:
        client._channel.close()
        client._closed = True

    client.close = close


def _channel_builder(settings: SessionSettings) -> Any:
    import grpc  # type: ignore[import-untyped]
    from pyspark.sql.connect.client import DefaultChannelBuilder

    class Loopback(DefaultChannelBuilder):  # type: ignore[misc]
        def toChannel(self) -> grpc.Channel:
            credentials = grpc.composite_channel_credentials(
                grpc.local_channel_credentials(), grpc.access_token_call_credentials(self.token)
            )
            return self._secure_channel(self.endpoint, credentials)

    made = DefaultChannelBuilder(settings.master)
    here = made.host in ("127.0.0.1", "[::1]") and not made.use_ssl
    # A server on this machine gets tokens even without TLS.
    return Loopback(settings.master) if here and made.token is not None else made


def use_catalog(session: SparkSession, settings: SessionSettings) -> None:
    """Load the catalog in a session, or raise StoreError if the server cannot load it."""
    from pyspark.errors import PySparkException

    where = without_parameters(settings.master)
    try:
        session.sql(f"USE {quote(settings.catalog)}").collect()
    except PySparkException as error:
        raise ended_error(error) or StoreError(
            f"the Spark Connect server {where} cannot open the catalog "
            f"'{settings.catalog}': {cause_line(error)}",
            hint=f"the server must reach the database and the warehouse. {_iceberg_hint(settings)}",
        ) from error


def _iceberg_hint(settings: SessionSettings) -> str:
    extensions = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
    return (
        f"start it with --packages {','.join(packages(settings))} "
        f"--conf spark.sql.extensions={extensions}"
    )


PROBE_SECONDS = 10.0
"""Maximum seconds until one of a master's addresses responds; Spark would try a minute."""

_STANDALONE_PORT, _HTTPS_PORT, _CONNECT_PORT = 7077, 443, 15002
_ADDRESS = re.compile(r"(?:https?://)?(\[[^\]]+\]|[^:/]+)(?::(\d+))?(?:/.*)?$")


def check_master(master: str, seconds: float = PROBE_SECONDS) -> None:
    """Raise NoSparkError unless one of a master's addresses accepts connections.

    Masters without an address (`local[*]`, `yarn`) are not checked.
    """
    addresses = list(master_addresses(master))
    if not addresses:
        return
    answers: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    for host, port in addresses:
        # A name server can exceed every socket timeout, so these threads are not joined.
        threading.Thread(
            target=lambda h=host, p=port: answers.put(_connection_problem(h, p, seconds)),
            daemon=True,
        ).start()
    problems: list[str] = []
    while len(problems) < len(addresses):
        try:
            problem = answers.get(timeout=seconds + 1)
        except queue.Empty:
            problems.append(f"no response within {seconds:.0f} s")
            break
        if problem is None:
            return
        problems.append(problem)
    raise NoSparkError(
        f"the Spark master {without_parameters(master)} cannot be reached: {'; '.join(problems)}",
        hint="check `master` under [tool.vde.spark], and that a Spark master runs at that address",
    )


def without_parameters(master: str) -> str:
    """Return a master's URL without its parameters, which may contain a token.

    >>> without_parameters("sc://spark.example:15002/;token=abc")
    'sc://spark.example:15002'
    """
    return master.partition("/;")[0]


def master_addresses(master: str) -> Iterator[tuple[str, int]]:
    """Yield the host and port of each address in a master's URL.

    >>> list(master_addresses("spark://one:7077,two:7078"))
    [('one', 7077), ('two', 7078)]
    >>> list(master_addresses("k8s://https://kube.example"))
    [('kube.example', 443)]
    >>> list(master_addresses("sc://spark.example/;use_ssl=true"))
    [('spark.example', 15002)]
    >>> list(master_addresses("local[4]"))
    []
    """
    ports = {"spark://": _STANDALONE_PORT, "k8s://": _HTTPS_PORT, "sc://": _CONNECT_PORT}
    for scheme, default in ports.items():
        if master.startswith(scheme):
            for part in master.removeprefix(scheme).split(","):
                found = _ADDRESS.match(part.strip())
                if found:
                    yield found[1].strip("[]"), int(found[2] or default)


def _connection_problem(host: str, port: int, seconds: float) -> str | None:
    try:
        socket.create_connection((host, port), timeout=seconds).close()
    except socket.gaierror:
        return f"the host '{host}' does not exist"
    except ConnectionRefusedError:
        return f"{host}:{port} refuses connections"
    except TimeoutError:
        return f"{host}:{port} did not respond within {seconds:.0f} s"
    except OSError as error:
        return f"{host}:{port}: {error.strerror or error}"
    return None
