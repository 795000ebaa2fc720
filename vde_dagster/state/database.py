"""Connections and transactions: the same promises on SQLite and on PostgreSQL.

SQLite: write-ahead log, and every writing transaction begins with `BEGIN IMMEDIATE`, so that it
never has to give up half way because it read before it wrote. `synchronous=FULL` because an
acknowledged publication has to survive a power cut: in WAL mode NORMAL may lose the last commits.

PostgreSQL: writing transactions are SERIALIZABLE, reading ones REPEATABLE READ (a consistent
picture that never fails).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, Transaction, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from vde_dagster.errors import StoreError, UnknownOutcomeError, UsageError
from vde_dagster.state.clock import Clock, SystemClock
from vde_dagster.state.effects import Effects, NoEffects
from vde_dagster.state.statements import announce_statements

T = TypeVar("T")

BUSY_TIMEOUT_MS = 30_000
MAX_ATTEMPTS = 12
_BEGIN = "vde_begin"
_SQLITE_TRANSIENT = ("database is locked", "database table is locked", "database is busy")
_POSTGRES_ROLLED_BACK = ("40001", "40P01", "55P03")


def make_engine(url: str) -> Engine:
    """Connect to the database of a URL (`sqlite:///file` or `postgresql://…`); opens nothing yet.

    Raises:
        UsageError: The URL is neither.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageError(
            "the state store's URL cannot be read",
            hint="write sqlite:///path/to/file.db or postgresql://user@host/database",
        ) from error
    if parsed.get_backend_name() == "sqlite" and parsed.database:
        engine = _sqlite_engine(parsed)
    elif parsed.get_backend_name() in ("postgresql", "postgres"):
        engine = _postgres_engine(parsed)
    else:
        raise UsageError(
            f"the state store cannot be a {parsed.get_backend_name()} database",
            hint="use a SQLite file (sqlite:///path/to/file.db) or PostgreSQL (postgresql://…)",
        )
    return engine


def without_password(url: str) -> str:
    """Return a database's URL as it may be shown to people."""
    return make_url(url).render_as_string(hide_password=True)


def _postgres_engine(url: URL) -> Engine:
    return create_engine(
        url.set(drivername="postgresql+psycopg"),
        isolation_level="SERIALIZABLE",
        pool_pre_ping=True,
        # Server-side prepared statements do not survive a pooler such as PgBouncer.
        connect_args={"prepare_threshold": None, "connect_timeout": 10},
    )


def _sqlite_engine(url: URL) -> Engine:
    Path(str(url.database)).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(
        url, connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False}
    )

    @event.listens_for(engine, "connect")
    def connect(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # BEGIN is ours to write, below
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql(connection.get_execution_options().get(_BEGIN, "BEGIN"))

    return engine


def is_transient(error: BaseException) -> bool:
    """Say whether the transaction was rolled back for a reason that may be gone next time."""
    if not isinstance(error, DBAPIError):
        return False
    state = getattr(error.orig, "sqlstate", None)
    if state is not None:
        return state in _POSTGRES_ROLLED_BACK
    text = str(error.orig)
    return any(phrase in text for phrase in _SQLITE_TRANSIENT)


def is_disconnect(error: BaseException) -> bool:
    """Say whether the database could not be reached, or no longer."""
    if not isinstance(error, DBAPIError):
        return False
    if error.connection_invalidated:
        return True
    state = getattr(error.orig, "sqlstate", None)
    if state is None:
        kind = type(error.orig).__module__.split(".")[0]
        return kind == "psycopg" and type(error.orig).__name__ == "OperationalError"
    return bool(state.startswith(("08", "57P")))


class Database:
    """A database with transactions that retry; what every part of the state store works on.

    Args:
        engine: SQLAlchemy's engine.
        clock: Who tells the time.
        effects: The port for side effects.
    """

    def __init__(
        self, engine: Engine, clock: Clock | None = None, effects: Effects | None = None
    ) -> None:
        self.engine = engine
        self.clock: Clock = clock or SystemClock()
        self.effects: Effects = effects or NoEffects()
        self.beside: list[Engine] = []
        """What others use on the same database and close with this."""
        self.origin = ""
        """Who writes, among those who have to know their own work again; see `state.news`."""

    @property
    def is_sqlite(self) -> bool:
        """Whether the database is a SQLite file."""
        return self.engine.dialect.name == "sqlite"

    @contextmanager
    def transaction(self, name: str = "state") -> Iterator[Connection]:
        """Run one writing transaction, once.

        Args:
            name: What it is for; its commit is the side effect `<name>.commit`, and a statement
                of it `<name>.<verb> <table>`.

        Raises:
            UnknownOutcomeError: The commit was sent and its answer was lost.
        """
        with self.engine.connect() as connection:
            connection = connection.execution_options(**{_BEGIN: "BEGIN IMMEDIATE"})
            announce_statements(connection, self.effects, name)
            transaction = connection.begin()
            try:
                yield connection
            except BaseException:
                _abandon(transaction)
                raise
            self._commit(transaction, name)

    def _commit(self, transaction: Transaction, name: str) -> None:
        sent = False
        try:
            with self.effects.at(f"{name}.commit"):
                sent = True
                transaction.commit()
        except Exception as error:
            _abandon(transaction)
            if not sent or is_transient(error):
                raise
            raise UnknownOutcomeError(
                f"the answer to the commit of '{name}' was lost",
                hint="run the same command again: it looks up what happened before it acts",
            ) from error

    def run_transaction(
        self,
        work: Callable[[Connection], T],
        *,
        name: str = "state",
        idempotent: bool = True,
    ) -> T:
        """Run a writing transaction, again (with jitter, bounded) when the database was busy.

        Args:
            work: What to do; called anew at each attempt, so it may only change the database.
            name: What it is for; its commit is the side effect `<name>.commit`.
            idempotent: Whether running it a second time after it was committed is harmless; then
                a lost answer is no error either.

        Raises:
            StoreError: The database stayed busy or could not be reached.
            UnknownOutcomeError: A commit's answer was lost, and it is not idempotent.
        """
        attempt = 1
        while True:
            try:
                with self.transaction(name) as connection:
                    return work(connection)
            except UnknownOutcomeError:
                if not idempotent or attempt >= MAX_ATTEMPTS:
                    raise
            except DBAPIError as error:
                lost = is_disconnect(error)
                if not (lost or is_transient(error)):
                    raise
                if attempt >= (3 if lost else MAX_ATTEMPTS):
                    raise self.unusable(error) from error
            self.clock.sleep(min(2.0, 0.01 * 2**attempt) * random.uniform(0.5, 1.5))
            attempt += 1

    def run(
        self, connection: Connection | None, work: Callable[[Connection], T], *, name: str
    ) -> T:
        """Run work inside a given transaction, or in one of its own."""
        if connection is not None:
            return work(connection)
        return self.run_transaction(work, name=name)

    @contextmanager
    def reading(self, connection: Connection | None = None) -> Iterator[Connection]:
        """Give a connection whose reads all see the same committed state.

        Raises:
            StoreError: The database cannot be reached.
        """
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
            if is_disconnect(error) or is_transient(error):
                raise self.unusable(error) from error
            raise

    def unusable(self, error: BaseException) -> StoreError:
        """Return the error that says the database cannot be used, without its password."""
        url = self.engine.url.render_as_string(hide_password=True)
        cause = getattr(error, "orig", None) or error
        return StoreError(
            f"the state store {url} cannot be used: {str(cause).strip()}",
            hint="check that it is reachable and that no other program holds it, then try again",
        )

    def close(self) -> None:
        """Close every pooled connection."""
        for engine in (self.engine, *self.beside):
            engine.dispose()


def _abandon(transaction: Transaction) -> None:
    # A broken connection cannot roll back, and need not: the server does when it notices.
    if transaction.is_active:
        with suppress(DBAPIError):
            transaction.rollback()
