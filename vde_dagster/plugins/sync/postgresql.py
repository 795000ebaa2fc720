"""The sink `postgresql`: rows and cursor move in one transaction: each row comes exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB, insert
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from vde_dagster.errors import ExecutionError, UsageError
from vde_dagster.plugins.sync.ledger import Ledger, metadata
from vde_dagster.plugins.sync.sink import Batch, RowsRefused, Step
from vde_dagster.semantics.versions.version import how_to_install
from vde_dagster.state.db.effects import Effects

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.execution.workspace import Workspace

IDLE_MS = 600_000
"""How long a sync may be silent in its transaction, in which it reads rows to send."""
_MAKING = 0x7664655F  # "vde_", the lock under which tables are made


class PostgresqlSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a PostgreSQL database, which is made where it is missing.

    Args:
        url: `postgresql://user:${PASSWORD}@host/database`.
        table: Its name, perhaps with a schema: `crm.customers`.
    """

    url: str
    table: str

    @property
    def place(self) -> str:
        """The database and the table."""
        return f"{_url(self.url).render_as_string(hide_password=True)} {self.table}"

    @contextmanager
    def open(self, workspace: Workspace, sync: str, *, dry: bool = False) -> Iterator[Rows]:
        """Begin a transaction; it commits at the end of the block, unless it is dry.

        Raises:
            ExecutionError: The server failed, and nothing was changed unless it says otherwise.
        """
        effects = workspace.store.database.effects
        try:
            from vde_dagster.state.db.postgres import LimitedCursor, transaction_limits

            limits = transaction_limits(IDLE_MS)
            engine = sa.create_engine(
                _url(self.url),
                poolclass=sa.NullPool,
                connect_args={
                    "connect_timeout": 10,
                    "prepare_threshold": None,
                    "cursor_factory": partial(LimitedCursor, limits=limits),
                },
                json_serializer=lambda value: msgspec.json.encode(value).decode(),
            )
            with engine.connect() as conn:
                if not sa.inspect(conn).has_table("vde_sync_letters"):
                    conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING)))
                    metadata.create_all(conn)
                    if not dry:  # The transaction of the rows waits for nobody who makes tables.
                        _end(conn, effects, "tables", dry=False)
                if not dry:
                    lock = sa.func.pg_advisory_xact_lock(_MAKING, sa.func.hashtext(sync))
                    conn.execute(sa.select(lock))
                project = workspace.settings.identity
                name, _, environment = sync.partition("/")
                ledger = Ledger(
                    _within(conn, effects),
                    project.id or project.name,
                    environment,
                    name,
                    workspace.store.database.clock.now,
                )
                yield Rows(conn, ledger, self.table, effects)
                _end(conn, effects, "rows", dry=dry)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the sink postgresql needs a package that is not installed: {error.name}",
                hint=how_to_install("postgres"),
            ) from error
        except DBAPIError as error:
            told = str(error.orig).partition("\n")[0]
            raise ExecutionError(
                f"{self.place} failed: {told}",
                hint="run it again: rows and cursor are changed together, or neither is",
            ) from error


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError:
        raise UsageError(
            "the sink's url cannot be read", hint="write postgresql://user@host/database"
        ) from None
    return url.set(drivername="postgresql+psycopg")


def _within(
    conn: sa.Connection, effects: Effects
) -> Callable[[Callable[[sa.Connection], Any], str], Any]:
    def transact(work: Callable[[sa.Connection], Any], name: str) -> Any:
        with effects.at(f"{name}.write"):
            return work(conn)

    return transact


def _end(conn: sa.Connection, effects: Effects, what: str, *, dry: bool) -> None:
    if dry:
        conn.rollback()
        return
    with effects.at(f"sync.{what}.commit"):
        conn.commit()


@dataclass
class Rows:
    """A table, in a transaction.

    Args:
        ledger: Of the same transaction.
    """

    conn: sa.Connection
    ledger: Ledger
    name: str
    effects: Effects
    _step: Step | None = None
    _table: sa.Table | None = None
    _shown: sa.Table | None = field(default=None)

    @property
    def step(self) -> Step:
        """What is delivered."""
        assert self._step is not None, "begun before rows are sent"
        return self._step

    @cached_property
    def _names(self) -> tuple[str | None, str]:
        schema, _, name = self.name.rpartition(".")
        return schema or None, name

    @property
    def table(self) -> sa.Table:
        """The table as it is in the database."""
        assert self._table is not None, "begun before rows are sent"
        return self._table

    def begin(self, step: Step) -> None:
        """Make the table, or columns that it lacks; of a full comparison, note what is shown."""
        self._step = step
        schema, name = self._names
        wanted = [
            sa.Column(
                one.name, _type(one.type), primary_key=one.name in step.key, autoincrement=False
            )
            for one in step.schema
        ]
        if not sa.inspect(self.conn).has_table(name, schema):
            sa.Table(name, sa.MetaData(), *wanted, schema=schema).create(self.conn)
        table = self._read()
        missing = [one for one in wanted if one.name not in table.c]
        for column in missing:
            compiled = sa.schema.CreateColumn(column).compile(dialect=self.conn.dialect)
            quoted = self.conn.dialect.identifier_preparer.format_table(table)
            self.conn.exec_driver_sql(f"ALTER TABLE {quoted} ADD COLUMN {compiled}")
        self._table = self._read() if missing else table
        self._require_key(step)
        if step.mode == "mirror" and not step.since:
            columns = [sa.Column(name, self.table.c[name].type) for name in step.key]
            self._shown = sa.Table(
                "vde_shown",
                sa.MetaData(),
                *columns,
                prefixes=["TEMPORARY"],
                postgresql_on_commit="DROP",
            )
            self._shown.drop(self.conn, checkfirst=True)
            self._shown.create(self.conn)

    def _read(self) -> sa.Table:
        schema, name = self._names
        table = sa.Table(name, sa.MetaData(), schema=schema, autoload_with=self.conn)
        for column in table.c:
            if isinstance(column.type, JSON):
                column.type.none_as_null = True
        return table

    def _require_key(self, step: Step) -> None:
        schema, name = self._names
        known = sa.inspect(self.conn)
        keys: list[set[Any]] = [set(known.get_pk_constraint(name, schema)["constrained_columns"])]
        keys += [set(one["column_names"]) for one in known.get_unique_constraints(name, schema)]
        keys += [
            set(one["column_names"]) for one in known.get_indexes(name, schema) if one["unique"]
        ]
        if step.key and set(step.key) not in keys:
            raise UsageError(
                f"the table {self.name} has no unique key ({', '.join(step.key)})",
                hint=f"ALTER TABLE {self.name} ADD UNIQUE ({', '.join(step.key)})",
            )

    def send(self, batch: Batch) -> int:
        """Write a batch; rows that are as they should be are left alone."""
        try:
            with self.effects.at("sync.batch"), self.conn.begin_nested():
                changed = self._put(batch) if batch.rows else 0
                if batch.gone:
                    changed += self._many(sa.delete(self.table).where(*self._by_key()), batch.gone)
                return changed
        except (IntegrityError, DataError) as error:
            if self._shown is not None and len(batch) == 1:
                # The view shows it, so that what the table has of it stays.
                with suppress(IntegrityError, DataError), self.conn.begin_nested():
                    self._note(batch)
            raise RowsRefused(str(error.orig).partition("\n")[0]) from error

    def _put(self, batch: Batch) -> int:
        table, key = self.table, self.step.key
        statement = insert(table).values({n: sa.bindparam(n) for n in self.step.schema.names})
        if key:
            excluded = statement.excluded
            others = [name for name in self.step.schema.names if name not in key]
            differs = [
                _comparable(table.c[name]).is_distinct_from(_comparable(excluded[name]))
                for name in others
            ]
            statement = (
                statement.on_conflict_do_update(
                    index_elements=list(key),
                    set_={name: excluded[name] for name in others},
                    where=sa.or_(*differs),
                )
                if others
                else statement.on_conflict_do_nothing(index_elements=list(key))
            )
        self._note(batch)
        return self._many(statement, batch.rows)

    def _note(self, batch: Batch) -> None:
        """Note the keys that are shown, where others are to be deleted."""
        if self._shown is not None and batch.rows:
            keys = [{name: row[name] for name in self.step.key} for row in batch.rows]
            self.conn.execute(sa.insert(self._shown), keys)

    def _many(self, statement: Any, rows: Any) -> int:
        counted = {"preserve_rowcount": True}
        return int(self.conn.execute(statement, list(rows), execution_options=counted).rowcount)

    def _by_key(self) -> list[Any]:
        return [self.table.c[name] == sa.bindparam(name) for name in self.step.key]

    def end(self) -> int:
        """Delete, after a full comparison, what the view does not show."""
        if self._shown is None:
            return 0
        shown = self._shown
        same = [self.table.c[name] == shown.c[name] for name in self.step.key]
        absent = ~sa.exists(sa.select(sa.literal(1)).where(*same).select_from(shown))
        gone = self.conn.execute(sa.delete(self.table).where(absent)).rowcount
        self._shown = None
        return int(gone)


def _comparable(column: Any) -> Any:
    return sa.cast(column, JSONB) if isinstance(column.type, JSON) else column


_TYPES: tuple[tuple[str, Callable[[Any], Any]], ...] = (
    ("boolean", lambda _: sa.Boolean()),
    ("int8", lambda _: sa.SmallInteger()),
    ("int16", lambda _: sa.SmallInteger()),
    ("int32", lambda _: sa.Integer()),
    ("int64", lambda _: sa.BigInteger()),
    ("float32", lambda _: sa.REAL()),
    ("float64", lambda _: sa.DOUBLE_PRECISION()),
    ("decimal", lambda type_: sa.Numeric(type_.precision, type_.scale)),
    ("date", lambda _: sa.Date()),
    ("timestamp", lambda type_: sa.DateTime(timezone=type_.tz is not None)),
    ("nested", lambda _: JSONB(none_as_null=True)),
    ("binary", lambda _: sa.LargeBinary()),
    ("large_binary", lambda _: sa.LargeBinary()),
)
"""PostgreSQL's types, by what Arrow's are; others are text."""


def _type(type_: pa.DataType) -> Any:
    from pyarrow import types

    found = (make for name, make in _TYPES if getattr(types, f"is_{name}")(type_))
    return next(found, lambda _: sa.Text())(type_)
