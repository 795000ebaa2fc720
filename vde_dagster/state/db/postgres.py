"""PostgreSQL as the state's database: limits of a transaction, and batches without a pipeline.

The server ends a transaction whose client is idle for `idle_in_transaction_session_timeout`,
counted from the moment when the server is ready for the next message. psycopg's own `executemany`
uses a pipeline, and the server does not count idle time within a pipeline. A pipeline may also send
a flush request after its last synchronization. After this request, too, the server does not count
idle time, so a client that stops at this point keeps its locks (PostgreSQL 15 to 18). Therefore
this module sends a batch as one message with all statements, and sets a transaction's limits in the
message that begins the transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import psycopg
from psycopg.abc import Params, Query
from psycopg.adapt import Dumper
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, TransactionStatus
from sqlalchemy import URL, Engine, create_engine, event

from vde_dagster.state.db.guards.write_views import SEARCH_PATH, WRITE_SCHEMA_QUERY

_BATCH = 500
"""Maximum number of statements in one message."""
_MESSAGE_BYTES = 16 << 20
"""Size at which a message is sent with fewer statements; the server's limit is 1 GiB."""
_KEEPALIVE = {"idle": 10, "interval": 5, "count": 4}
"""TCP keepalive: idle seconds before the first probe, seconds between probes, their number."""


def make_postgres_engine(url: URL, idle_seconds: float) -> Engine:
    """Create an engine for the state's server, which ends transactions idle for `idle_seconds`."""
    idle, lock = int(idle_seconds * 1000), int(idle_seconds * 1000 / 3)
    alive = {
        "keepalives": 1,
        **{f"keepalives_{name}": value for name, value in _KEEPALIVE.items()},
        "tcp_user_timeout": idle,
    }
    limits = transaction_limits(idle, lock)
    engine = create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="SERIALIZABLE",
        pool_pre_ping=True,
        max_overflow=-1,  # No thread waits for others, in particular a lease's heartbeat.
        connect_args={
            # Server-side prepared statements do not survive a pooler such as PgBouncer.
            "prepare_threshold": None,
            "connect_timeout": 10,
            "cursor_factory": partial(BatchCursor, limits=limits),
            # A vanished server is detected as fast as it would end our idle transaction.
            **{key: value for key, value in alive.items() if key not in url.query},
        },
    )

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        with connection.cursor() as cursor:
            found = cursor.execute(WRITE_SCHEMA_QUERY).fetchone()
        connection.rollback()
        record.info[SEARCH_PATH] = path = ", ".join(found) if found else None
        if path is not None:
            own = limits + f";SET LOCAL search_path = {path}".encode()
            connection.cursor_factory = partial(BatchCursor, limits=own)

    return engine


def make_limited_engine(url: URL, idle_seconds: float, **options: Any) -> Engine:
    """Create an engine for a server other than the state's, with a limit on idle transactions.

    Args:
        idle_seconds: Maximum idle time of a client in a transaction.
    """
    limits = transaction_limits(int(idle_seconds * 1000))
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        connect_args={
            "connect_timeout": 10,
            "prepare_threshold": None,
            "cursor_factory": partial(BatchCursor, limits=limits),
        },
        **options,
    )


def transaction_limits(idle: int, lock: int = 0) -> bytes:
    """Build the SQL that makes the server end the transaction of an idle or lost client.

    Args:
        idle: Maximum idle time of a client, in milliseconds.
        lock: Maximum wait for a lock, in milliseconds; 0 for the session's own limit.
    """
    limits = {
        "idle_in_transaction_session_timeout": idle,
        **({"lock_timeout": lock} if lock else {}),
        "tcp_user_timeout": idle,
        # A machine that vanished while the server waits for the rest of a message.
        **{f"tcp_keepalives_{name}": value for name, value in _KEEPALIVE.items()},
    }
    # Limits of one transaction, because a pooler may pass the session to another client.
    return ";".join(f"SET LOCAL {name} = {value}" for name, value in limits.items()).encode()


class _LiteralInt(Dumper):
    def dump(self, obj: int) -> bytes:
        return str(int(obj)).encode()

    def quote(self, obj: int) -> bytes:
        # Without parentheses, `-32768::SMALLINT` casts 32768 before it is negated.
        return self.dump(obj) if obj >= 0 else b"(" + self.dump(obj) + b")"


class _LiteralFloat(Dumper):
    oid = psycopg.adapters.types["float8"].oid

    # A plain -0.0 would lose its sign.

    def dump(self, obj: float) -> bytes:
        return repr(float(obj)).encode()


class BatchCursor(psycopg.Cursor[Any]):
    """Cursor that sends many statements in one message.

    Args:
        limits: SQL that limits a transaction, sent together with its BEGIN.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        *,
        limits: bytes,
        row_factory: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(connection, row_factory=row_factory or connection.row_factory)
        self._limits = limits

    def execute(self, query: Any, params: Params | None = None, **how: Any) -> BatchCursor:
        """Run a statement, in a new transaction if none is open."""
        connection = self.connection
        if (
            not connection.autocommit
            and connection.pgconn.transaction_status == TransactionStatus.IDLE
        ):
            self._begin(connection)
        super().execute(query, params, **how)
        return self

    def _begin(self, connection: psycopg.Connection[Any]) -> None:
        level = connection.isolation_level
        begin = f"BEGIN ISOLATION LEVEL {level.name.replace('_', ' ')};" if level else "BEGIN;"
        with connection.lock:
            result = connection.pgconn.exec_(begin.encode() + self._limits)
        if result.status != ExecStatus.COMMAND_OK:
            raise error_from_result(result, connection.info.encoding)

    def executemany(
        self, query: Query, params_seq: Iterable[Params], *, returning: bool = False
    ) -> None:
        """Run a statement once for each set of parameters, and add up their row counts.

        Raises:
            NotSupportedError: `returning` is true.
        """
        if returning:
            raise psycopg.NotSupportedError("a batch cannot return rows")
        rows = 0
        for message in self._messages(query, params_seq):
            self.execute(message)
            rows += self.rowcount
            while self.nextset():
                rows += self.rowcount
        self._rowcount = rows

    def _messages(self, query: Query, params_seq: Iterable[Params]) -> Iterator[bytes]:
        writer = psycopg.ClientCursor(self.connection)
        writer.adapters.register_dumper(int, _LiteralInt)
        writer.adapters.register_dumper(float, _LiteralFloat)
        encoding = self.connection.info.encoding
        statements: list[bytes] = []
        size = 0
        for parameters in params_seq:
            statements.append(writer.mogrify(query, parameters).encode(encoding))
            size += len(statements[-1])
            if len(statements) == _BATCH or size > _MESSAGE_BYTES:
                yield b";".join(statements)
                statements, size = [], 0
        if statements:
            yield b";".join(statements)
