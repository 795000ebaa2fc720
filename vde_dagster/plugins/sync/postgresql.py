"""The sink `postgresql`: rows and position are in one transaction, so rows arrive exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSON, JSONB, insert
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError

from vde_dagster.api.catalogs import Effects
from vde_dagster.api.errors import ExecutionError, UsageError
from vde_dagster.api.sinks import Batch, Step
from vde_dagster.api.values import how_to_install, json_value, names_secret
from vde_dagster.plugins.sync.ledger import metadata

if TYPE_CHECKING:
    import pyarrow as pa

    from vde_dagster.api.workspace import Workspace

IDLE_SECONDS = 600.0
"""Maximum seconds that a sync's transaction is idle, while the sync reads rows to send."""
_TABLES_LOCK = 0x7664655F  # "vde_", the lock under which tables are made


class PostgresqlSink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of a PostgreSQL database. A missing table is created.

    Args:
        url: `postgresql://user:${PASSWORD}@host/database`.
        table: The table's name, optionally with a schema: `crm.customers`.
    """

    url: str
    table: str

    @property
    def place(self) -> str:
        url = _url(self.url)
        # Known secrets in it stay: the place distinguishes rows of one table from those of another.
        hidden = {name: "***" for name in url.query if names_secret(name)}
        public = url.update_query_dict(hidden) if hidden else url
        return f"{public.render_as_string(hide_password=True)} {self.table}"

    @contextmanager
    def open(self, workspace: Workspace, sync: str, *, dry: bool = False) -> Iterator[TableWriter]:
        """Yield a writer in a transaction, which is committed afterwards except in a dry run.

        Raises:
            ExecutionError: The server failed. Rows are unchanged, unless it failed during the
                commit.
        """
        effects = workspace.store.database.effects
        try:
            engine = workspace.store.database.postgres_engine(
                _url(self.url),
                IDLE_SECONDS,
                poolclass=sa.NullPool,
                json_serializer=lambda value: msgspec.json.encode(json_value(value)).decode(),
            )
            with engine.connect() as conn:
                if not sa.inspect(conn).has_table("vde_sync_letters"):
                    conn.execute(sa.select(sa.func.pg_advisory_xact_lock(_TABLES_LOCK)))
                    metadata.create_all(conn)
                    # The rows' transaction does not wait for other processes' tables.
                    if not dry:
                        _finish(conn, effects, "tables", dry=False)
                if not dry:
                    lock = sa.func.pg_advisory_xact_lock(_TABLES_LOCK, sa.func.hashtext(sync))
                    conn.execute(sa.select(lock))
                yield TableWriter(conn, self.table, effects)
                _finish(conn, effects, "rows", dry=dry)
        except ModuleNotFoundError as error:
            raise UsageError(
                f"the sink postgresql needs a package that is not installed: {error.name}",
                hint=how_to_install("postgres"),
            ) from error
        except DBAPIError as error:
            message = str(error.orig).partition("\n")[0]
            raise ExecutionError(
                f"{self.place} failed: {message}",
                hint="run the sync again: rows and cursor change in one transaction",
            ) from error


def _url(text: str) -> sa.URL:
    try:
        url = sa.make_url(text)
    except sa.exc.ArgumentError:
        raise UsageError(
            "the sink's url cannot be read", hint="write postgresql://user@host/database"
        ) from None
    return url.set(drivername="postgresql+psycopg")


def _finish(conn: sa.Connection, effects: Effects, what: str, *, dry: bool) -> None:
    if dry:
        conn.rollback()
        return
    with effects.at(f"sync.{what}.commit"):
        conn.commit()


@dataclass(frozen=True, slots=True)
class _TargetColumn:
    """A column to write: its name in the model, in the table, and as a statement's parameter."""

    bind: str
    name: str
    column: str


@dataclass
class TableWriter:
    conn: sa.Connection
    name: str
    effects: Effects
    _step: Step | None = None
    _table: sa.Table | None = None
    _sent_keys: sa.Table | None = field(default=None)
    _columns: list[_TargetColumn] = field(default_factory=list)
    _times: set[str] = field(default_factory=set)

    def transact(self, work: Callable[[sa.Connection], Any], name: str) -> Any:
        with self.effects.at(f"{name}.write"):
            return work(self.conn)

    @property
    def step(self) -> Step:
        assert self._step is not None, "begun before rows are sent"
        return self._step

    @cached_property
    def _names(self) -> tuple[str | None, str]:
        schema, _, name = self.name.rpartition(".")
        return schema or None, name

    @property
    def table(self) -> sa.Table:
        assert self._table is not None, "begun before rows are sent"
        return self._table

    def begin(self, step: Step) -> None:
        """Create the table or its missing columns, and check that the table has a unique key."""
        import pyarrow as pa

        self._step = step
        schema, name = self._names
        wanted = [
            sa.Column(
                one.name,
                _postgres_type(one.type),
                primary_key=one.name in step.key,
                autoincrement=False,
            )
            for one in step.schema
        ]
        if not sa.inspect(self.conn).has_table(name, schema):
            sa.Table(name, sa.MetaData(), *wanted, schema=schema).create(self.conn)
        table = self._load_table()
        own = _match_columns([one.name for one in table.c], step.schema.names)
        missing = [one for one in wanted if one.name not in own]
        for column in missing:
            compiled = sa.schema.CreateColumn(column).compile(dialect=self.conn.dialect)
            quoted = self.conn.dialect.identifier_preparer.format_table(table)
            self.conn.exec_driver_sql(f"ALTER TABLE {quoted} ADD COLUMN {compiled}")
        self._table = self._load_table() if missing else table
        self._columns = [
            _TargetColumn(f"v{place}", field.name, own.get(field.name, field.name))
            for place, field in enumerate(step.schema)
        ]
        self._times = {
            field.name
            for field in step.schema
            if pa.types.is_date(field.type) or pa.types.is_timestamp(field.type)
        }
        self._require_key(step)
        # This table collects the keys of all sent rows, so that `end` can delete other rows.
        if step.mode == "mirror" and not step.since:
            columns = [sa.Column(one.column, self.table.c[one.column].type) for one in self._keys]
            self._sent_keys = sa.Table(
                "vde_shown",
                sa.MetaData(),
                *columns,
                prefixes=["TEMPORARY"],
                postgresql_on_commit="DROP",
            )
            self._sent_keys.drop(self.conn, checkfirst=True)
            self._sent_keys.create(self.conn)

    def _load_table(self) -> sa.Table:
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
        own = [one.column for one in self._keys]
        if step.key and set(own) not in keys:
            quoted = ", ".join(map(self.conn.dialect.identifier_preparer.quote, own))
            raise UsageError(
                f"the table {self.name} has no unique key ({quoted})",
                hint=f"ALTER TABLE {self.name} ADD UNIQUE ({quoted})",
            )

    @property
    def _keys(self) -> list[_TargetColumn]:
        return [one for one in self._columns if one.name in self.step.key]

    def send(self, batch: Batch) -> int:
        """Upsert a batch's rows, delete its removed keys, and return the number of changes."""
        try:
            with self.effects.at("sync.batch"), self.conn.begin_nested():
                changed = self._upsert(batch) if batch.rows else 0
                if batch.gone:
                    delete = sa.delete(self.table).where(*self._key_conditions())
                    changed += self._execute_many(delete, batch.gone, self._keys)
                return changed
        except (IntegrityError, DataError) as error:
            if self._sent_keys is not None and len(batch) == 1:
                # The view shows it, so that what the table has of it stays.
                with suppress(IntegrityError, DataError), self.conn.begin_nested():
                    self._record_keys(batch)
            raise Batch.Refused(str(error.orig).partition("\n")[0]) from error

    def _upsert(self, batch: Batch) -> int:
        table, key = self.table, [one.column for one in self._keys]
        statement = insert(table).values({c.column: sa.bindparam(c.bind) for c in self._columns})
        if key:
            excluded = statement.excluded
            others = [one.column for one in self._columns if one.column not in key]
            differs = [
                _comparable(table.c[name]).is_distinct_from(_comparable(excluded[name]))
                for name in others
            ]
            statement = (
                statement.on_conflict_do_update(
                    index_elements=key,
                    set_={name: excluded[name] for name in others},
                    where=sa.or_(*differs),
                )
                if others
                else statement.on_conflict_do_nothing(index_elements=key)
            )
        self._record_keys(batch)
        return self._execute_many(statement, batch.rows, self._columns)

    def _record_keys(self, batch: Batch) -> None:
        if self._sent_keys is not None and batch.rows:
            statement = sa.insert(self._sent_keys)
            named = statement.values({one.column: sa.bindparam(one.bind) for one in self._keys})
            self.conn.execute(named, self._bind_values(batch.rows, self._keys))

    def _bind_values(
        self, rows: Sequence[Mapping[str, Any]], columns: Sequence[_TargetColumn]
    ) -> list[dict[str, Any]]:
        return [
            {
                one.bind: _far_time(row[one.name]) if one.name in self._times else row[one.name]
                for one in columns
            }
            for row in rows
        ]

    def _execute_many(
        self, statement: Any, rows: Sequence[Mapping[str, Any]], columns: Sequence[_TargetColumn]
    ) -> int:
        counted = {"preserve_rowcount": True}
        bound = self._bind_values(rows, columns)
        return int(self.conn.execute(statement, bound, execution_options=counted).rowcount)

    def _key_conditions(self) -> list[Any]:
        return [self.table.c[one.column] == sa.bindparam(one.bind) for one in self._keys]

    def end(self) -> int:
        """Delete the rows that a mirror of all rows did not send, and return their number."""
        # Rows are deleted only after all rows of the view were sent.
        if self._sent_keys is None:
            return 0
        sent = self._sent_keys
        same = [self.table.c[one.column] == sent.c[one.column] for one in self._keys]
        absent = ~sa.exists(sa.select(sa.literal(1)).where(*same).select_from(sent))
        gone = self.conn.execute(sa.delete(self.table).where(absent)).rowcount
        self._sent_keys = None
        return int(gone)


def _match_columns(own: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Map each name to the table's column of this name, ignoring case only if necessary."""
    # Tables of earlier releases, and tables created without quotes, have lower-case names.
    found = {}
    for name in names:
        alike = [one for one in own if one.lower() == name.lower()]
        if name in own:
            found[name] = name
        elif len(alike) == 1:
            found[name] = alike[0]
    return found


_FAR = re.compile(r"([+-])(\d+)(-\d\d-\d\d)(.*)")


def _far_time(value: Any) -> Any:
    """Convert a day or instant with a year beyond Python's range to PostgreSQL's form."""
    far = _FAR.fullmatch(value) if isinstance(value, str) else None
    if far is None:
        return value
    sign, year, day, rest = far.groups()
    # ISO 8601 has a year 0; PostgreSQL has 1 BC instead.
    return f"{year}{day}{rest}" if sign == "+" else f"{int(year) + 1:04}{day}{rest} BC"


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
    ("time", lambda _: sa.Time()),
    ("duration", lambda _: sa.Interval()),
    ("fixed_size_binary", lambda _: sa.LargeBinary()),
    ("binary", lambda _: sa.LargeBinary()),
    ("large_binary", lambda _: sa.LargeBinary()),
)
"""PostgreSQL's types by Arrow type; all other types are text."""


def _postgres_type(type_: pa.DataType) -> Any:
    from pyarrow import types

    found = (make for name, make in _TYPES if getattr(types, f"is_{name}")(type_))
    return next(found, lambda _: sa.Text())(type_)
