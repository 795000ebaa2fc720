"""Connections and transactions, with the same guarantees on SQLite and on PostgreSQL.

PostgreSQL: writing transactions are SERIALIZABLE, reading ones REPEATABLE READ (a consistent
snapshot, without serialization failures). The server ends a transaction whose client is silent for
a while (a stopped machine, a lost network), so that no client blocks other clients for long.

Tests can make a commit fail (see `effects`). They can also make a single statement fail, because
the connection has the transaction's name in the execution option `TRANSACTION`.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, ProgrammingError

from vde_dagster.base.failures import NO_SPACE_HINT, is_no_space
from vde_dagster.base.installing import how_to_install
from vde_dagster.base.secrets import mask
from vde_dagster.base.times import utc
from vde_dagster.errors import NotAllowedError, StoreError, UnknownOutcomeError, UsageError
from vde_dagster.project.secrets import remember_secrets
from vde_dagster.state.db.effects import Clock, Effects, NoEffects, ServersClock, SystemClock
from vde_dagster.state.db.guards.write_views import SEARCH_PATH, writes_by_views
from vde_dagster.state.db.rows import among, upsert
from vde_dagster.state.db.sqlite import BEGIN, make_sqlite_engine, raise_damaged

T = TypeVar("T")

_TURN_SECONDS = 1.0
"""Seconds for which a thread waits for other threads' writes to SQLite; then SQLite waits."""
IDLE_SECONDS = 30.0
"""Seconds for which a PostgreSQL client may be idle in a transaction: half of a lease."""
MAX_ATTEMPTS = 12
_ALONE_FROM = 5
"""From this attempt on, `run_transaction` locks the tables `beside` before it calls `work`."""
TRANSACTION = "vde_transaction"
"""Execution option with the effects port and the name of a writing transaction."""
_SQLITE_TRANSIENT = ("database is locked", "database table is locked", "database is busy")
_SQLITE_FAULTS = (
    "disk is full",
    "disk I/O error",
    "readonly database",
    "unable to open database file",
    "file is not a database",
    "malformed",
    "interrupted",
    "access permission denied",
)
"""SQLite errors about the database file, as opposed to errors in a statement."""
_POSTGRES_ROLLED_BACK = ("40001", "40P01", "55P03")
_POSTGRES_IDLE = ("25P03", "25P04")
"""SQL states of connections that the server closed, because a transaction took too long."""
_POSTGRES_FAULTS = ("08", "25006", "42501", "53", "57", "58", "F0", "XX", *_POSTGRES_IDLE)
"""Prefixes of SQL states about the server itself (read-only, full, canceled, damaged)."""
_READ_ONLY = "25006"
_NOT_ALLOWED = "42501"
_LOCKED = "55P03"
"""SQL state of a lock wait that exceeded `lock_timeout`."""
_TAKEN = "23505"
"""SQL state of a violated key: another row has the same one."""


def make_engine(url: str, idle_seconds: float = IDLE_SECONDS) -> sa.Engine:
    """Create an engine for `sqlite:///file` or `postgresql://…`, without opening a connection."""
    try:
        parsed = sa.make_url(url)
    except ArgumentError as error:
        raise UsageError(
            "the state store's URL cannot be read",
            hint="write sqlite:///path/to/file.db or postgresql://user@host/database",
        ) from error
    remember_secrets({"password": parsed.password, **parsed.query})
    file = parsed.database or "file:"  # SQLite's URIs are not supported.
    if parsed.get_backend_name() == "sqlite" and not file.startswith("file:"):
        engine = make_sqlite_engine(parsed)
    elif parsed.get_backend_name() in ("postgresql", "postgres"):
        engine = _postgres_engine(parsed, idle_seconds)
    else:
        raise UsageError(
            f"the state store cannot be a {parsed.get_backend_name()} database",
            hint="use a SQLite file (sqlite:///path/to/file.db) or PostgreSQL (postgresql://…)",
        )
    return engine


def without_password(url: str) -> str:
    """Return a database's URL without its password."""
    return mask(sa.make_url(url).render_as_string(hide_password=True))


def _postgres_engine(url: sa.URL, idle_seconds: float) -> sa.Engine:
    if find_spec("psycopg") is None:
        raise UsageError(
            "a state in PostgreSQL needs the package psycopg, which is not installed",
            hint=how_to_install("postgres"),
        )
    from vde_dagster.state.db.postgres import make_postgres_engine

    return make_postgres_engine(url, idle_seconds)


def lock_rows(connection: sa.Connection, query: sa.Select[Any], by: str = "", key: str = "") -> Any:
    """Run a query, and lock the returned rows until the transaction ends.

    Args:
        by: Name of a database function that locks the rows for a login that writes through views.
            Without a name, such a login locks nothing.
        key: The function's argument.
    """
    if not writes_by_views(connection):
        return connection.execute(query.with_for_update())
    # These logins can lock rows only through a function. Without a function, the rows are not
    # locked, and one of two conflicting transactions fails.
    if by:
        connection.execute(sa.text(f"SELECT {by}(:key)"), {"key": key})
    return connection.execute(query)


def is_transient(error: BaseException) -> bool:
    """Return whether an error is a conflict of transactions, so that a retry may succeed."""
    return _matches(error, _POSTGRES_ROLLED_BACK, _SQLITE_TRANSIENT) or _wrote_the_log_too(error)


def _wrote_the_log_too(error: BaseException) -> bool:
    if _state(error) != _TAKEN:
        return False
    constraint = getattr(getattr(error, "orig", None), "diag", None)
    return str(getattr(constraint, "constraint_name", "")).startswith("vde_log")


def is_disconnect(error: BaseException) -> bool:
    """Return whether an error means that the database is unreachable or the connection was lost."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    state = _state(error)
    if state is None:
        kind = type(error.orig).__module__.split(".")[0]
        return kind == "psycopg" and type(error.orig).__name__ == "OperationalError"
    return state.startswith(("08", "57P")) or state in _POSTGRES_IDLE


def is_fault(error: BaseException) -> bool:
    """Check whether an error was caused by the database or its server, not by the statement."""
    return isinstance(error, DBAPIError) and (
        is_disconnect(error)
        or is_transient(error)
        or is_no_space(error)
        or _matches(error, _POSTGRES_FAULTS, _SQLITE_FAULTS)
    )


def _matches(error: BaseException, states: tuple[str, ...], phrases: tuple[str, ...]) -> bool:
    if not isinstance(error, DBAPIError):
        return False
    state = _state(error)
    if state is not None:
        return state.startswith(states)
    return any(phrase in str(error.orig) for phrase in phrases)


def _state(error: BaseException) -> str | None:
    return getattr(getattr(error, "orig", None), "sqlstate", None)


class Database:
    """Connects to the state's database, and retries transactions while the database is busy."""

    def __init__(
        self, engine: sa.Engine, clock: Clock | None = None, effects: Effects | None = None
    ) -> None:
        self.engine = engine
        own = SystemClock() if self.is_sqlite else ServersClock(self._servers_time)
        self.clock: Clock = clock or own
        self.effects: Effects = effects or NoEffects()
        self.origin = ""
        """Origin of this process's outbox records; see `state.db.outbox`."""
        self.before_writing: Callable[[], object] | None = None
        """Called before the first writing transaction; raises an error if that is forbidden."""
        self._turn = threading.Lock()

    @property
    def is_sqlite(self) -> bool:
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self, name: str = "state") -> Iterator[sa.Connection]:
        """Run one writing transaction, without retries.

        Args:
            name: First part of the name of the side effect `<name>.commit`.

        Raises:
            UnknownOutcomeError: The commit was sent, and the response was lost.
            UsageError: The machine's clock differs from the clock of PostgreSQL's server, or the
                store was opened for another project or warehouse.
        """
        if self.before_writing is not None:
            self.before_writing()
            self.before_writing = None
        with self.engine.connect() as connection:
            if isinstance(self.clock, ServersClock):
                self.clock.require_agreement(partial(_time_beside, connection))
            connection = connection.execution_options(
                **{BEGIN: "BEGIN IMMEDIATE", TRANSACTION: (self.effects, name)}
            )
            with self._writing_alone():
                transaction = connection.begin()
                try:
                    yield connection
                except BaseException:
                    _abandon(transaction)
                    raise
                self._commit(transaction, name)

    @contextmanager
    def _writing_alone(self) -> Iterator[None]:
        # SQLite allows one writer, and other writers poll with pauses of up to 100 ms. This
        # lock wakes the next thread at once. A thread that has waited a second continues
        # and lets SQLite poll.
        own_turn = self.is_sqlite and self._turn.acquire(timeout=_TURN_SECONDS)
        try:
            yield
        finally:
            if own_turn:
                self._turn.release()

    def require_right_clock(self, connection: sa.Connection) -> None:
        """Check, within a transaction, that the clocks of this machine and the server agree."""
        if isinstance(self.clock, ServersClock):
            self.clock.require_agreement(partial(_time_in, connection), anew=True)

    def _servers_time(self) -> datetime:
        with self.reading() as connection:
            return _time_in(connection)

    def _commit(self, transaction: sa.Transaction, name: str) -> None:
        sent = False
        try:
            with self.effects.at(f"{name}.commit"):
                sent = True
                transaction.commit()
        except Exception as error:
            _abandon(transaction)
            if not sent or _is_refused(error):
                raise
            raise UnknownOutcomeError(
                f"the response to the commit of '{name}' was lost",
                hint="check whether the command's change is there; if not, run the same command "
                "again",
            ) from error

    @staticmethod
    def postgres_engine(url: sa.URL, idle_seconds: float, **options: Any) -> sa.Engine:
        """Create an engine for a PostgreSQL server other than the state's.

        Raises:
            ModuleNotFoundError: Psycopg is not installed.
        """
        from vde_dagster.state.db.postgres import make_limited_engine

        return make_limited_engine(url, idle_seconds, **options)

    def run_transaction(
        self,
        work: Callable[[sa.Connection], T],
        *,
        name: str = "state",
        idempotent: bool = True,
        beside: Sequence[str] = (),
    ) -> T:
        """Run a writing transaction, and repeat it while the database is busy.

        Args:
            work: Writes through the connection; called at each attempt, so it may change nothing
                but the database.
            idempotent: Whether the transaction may be repeated after it was committed. If so, it is
                retried after a commit's response was lost.
            beside: Tables to lock from the fifth attempt on, so that no other process writes them.
                The first one must be the table that all writers lock first.

        Raises:
            StoreError: The database stayed busy, could not be reached, or is full or read-only.
            UnknownOutcomeError: A commit's response was lost, and no repetition is allowed or left.
        """
        attempt = 1
        while True:
            try:
                with self.transaction(name) as connection:
                    if beside and attempt >= _ALONE_FROM and not self.is_sqlite:
                        # Before the first read, so that it reads what the others committed.
                        _lock_tables(connection, beside)
                    return work(connection)
            except UnknownOutcomeError:
                if not idempotent or attempt >= MAX_ATTEMPTS:
                    raise
            except DBAPIError as error:
                raise_damaged(self.engine.url, error.orig or error)
                if not is_fault(error):
                    raise
                lost = is_disconnect(error)
                if not (lost or is_transient(error)):
                    raise self.unusable(error) from error
                if attempt >= (3 if lost else MAX_ATTEMPTS):
                    raise self.unusable(error) from error
                if _state(error) == _LOCKED:
                    self._end_stalled()
            self.clock.sleep(min(2.0, 0.01 * 2**attempt) * random.uniform(0.5, 1.5))
            attempt += 1

    def _end_stalled(self) -> None:
        # The server refuses this if the state has no roles, or if the login may only read.
        # No transaction is ended then.
        end = sa.text("SELECT vde_end_stalled()")
        with (
            suppress(DBAPIError),
            self.engine.begin() as conn,
            self.effects.at("state.end_stalled"),
        ):
            conn.execute(end)

    def run(
        self, connection: sa.Connection | None, work: Callable[[sa.Connection], T], *, name: str
    ) -> T:
        """Call a function in the given connection's transaction, or in a new transaction."""
        if connection is not None:
            return work(connection)
        return self.run_transaction(work, name=name)

    def ensure_tables(self, metadata: sa.MetaData) -> None:
        """Create the missing tables of a plug-in."""
        names = [table.name for table in metadata.sorted_tables]
        if all(map(self.has_table, names)):
            return
        try:
            self.run_transaction(metadata.create_all, name="state.ensure_tables")
        except (IntegrityError, ProgrammingError):
            # If two processes create the same table at once, PostgreSQL lets one fail.
            if not all(map(self.has_table, names)):
                raise

    def has_table(self, name: str) -> bool:
        with self.reading() as conn:
            return sa.inspect(conn).has_table(name)

    @contextmanager
    def reading(self, connection: sa.Connection | None = None) -> Iterator[sa.Connection]:
        """Yield `connection`, or a new one for queries that all see the same committed state."""
        if connection is not None:
            yield connection
            return
        try:
            with self.engine.connect() as own:
                if not self.is_sqlite:
                    own = own.execution_options(isolation_level="REPEATABLE READ")
                with own.begin():
                    yield own
        except DBAPIError as error:
            raise_damaged(self.engine.url, error.orig or error)
            if is_fault(error):
                raise self.unusable(error) from error
            raise

    def rows(self, query: sa.Executable, connection: sa.Connection | None = None) -> Sequence[Any]:
        with self.reading(connection) as conn:
            return conn.execute(query).all()

    def column(self, query: sa.Executable, connection: sa.Connection | None = None) -> list[Any]:
        return [row[0] for row in self.rows(query, connection)]

    def row(
        self, query: sa.Executable, connection: sa.Connection | None = None, **parameters: Any
    ) -> Any:
        with self.reading(connection) as conn:
            return conn.execute(query, parameters).first()

    def value(self, query: sa.Executable, connection: sa.Connection | None = None) -> Any:
        row = self.row(query, connection)
        return None if row is None else row[0]

    def among(
        self,
        query: Any,
        column: sa.ColumnElement[Any],
        values: Iterable[Any],
        connection: sa.Connection | None = None,
    ) -> list[Any]:
        with self.reading(connection) as conn:
            return list(among(conn, query, column, values))

    def upsert(
        self,
        connection: sa.Connection,
        table: sa.Table,
        rows: Sequence[Mapping[str, Any]],
        *changed: str,
    ) -> int:
        return upsert(connection, table, rows, *changed)

    def unusable(self, error: BaseException) -> StoreError:
        """Build the error for a database that cannot be used. The message contains no password."""
        url = self.engine.url.render_as_string(hide_password=True)
        cause = str(getattr(error, "orig", None) or error).strip()
        state = _state(error)
        if state == _NOT_ALLOWED:
            self.engine.dispose()  # Roles may be newer than the pooled connections.
            return NotAllowedError(
                f"'{self.engine.url.username}' lacks a right in {url}: {cause.splitlines()[0]}",
                hint="list rights with `vde roles`; the owner of the state's tables grants rights",
            )
        what, hint = "cannot be used", "check that it is reachable, then try again"
        if is_no_space(error):
            what, hint = "has no space left", NO_SPACE_HINT
        elif is_transient(error):
            what = "is busy"
            hint = "other processes change it all the time, or hold a lock: try again in a minute"
        elif state == _READ_ONLY or "readonly" in cause:
            what = "is read-only"
            hint = "use a database that accepts writes (no standby), or a login that may write"
        return StoreError(f"the state store {url} {what}: {cause}", hint=hint)

    def search_path(self) -> str | None:
        """Return the search path of a login that writes through views. Other logins get None."""
        with self.reading() as connection:
            path: str | None = connection.info.get(SEARCH_PATH)
        return path

    def close(self) -> None:
        self.engine.dispose()


def _time_in(connection: sa.Connection) -> datetime:
    now: datetime = connection.exec_driver_sql("SELECT clock_timestamp()").scalar_one()
    return utc(now)


def _time_beside(connection: sa.Connection) -> datetime:
    with connection.begin():  # Before the transaction, so that its snapshot is newer.
        return _time_in(connection)


def _lock_tables(connection: sa.Connection, tables: Sequence[str]) -> None:
    if writes_by_views(connection):
        connection.execute(sa.text("SELECT vde_hold_tables(:names)"), {"names": list(tables)})
    else:
        connection.exec_driver_sql(f"LOCK TABLE {', '.join(tables)} IN EXCLUSIVE MODE")


def _is_refused(error: BaseException) -> bool:
    """Return whether the database reported that it did not commit."""
    if is_transient(error) or is_no_space(error):
        return True
    state = _state(error)
    return state is not None and (state in _POSTGRES_IDLE or not is_disconnect(error))


def _abandon(transaction: sa.Transaction) -> None:
    # A broken connection cannot roll back; the server does when it notices.
    if transaction.is_active:
        with suppress(DBAPIError):
            transaction.rollback()
