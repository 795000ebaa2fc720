"""`vde state export` and `import`: the whole store as one file, independent of the database.

The file is gzipped JSON lines: a header, then one line per row, table by table. It includes the
catalog's tables, because views and tables are useless without their pointers, and the tables that
plug-ins created in the database.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import StatementError

from vde_dagster.base.failures import NO_SPACE_HINT, is_no_space
from vde_dagster.base.plugins import Seam
from vde_dagster.errors import StoreError, UsageError
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import Database, is_fault
from vde_dagster.state.db.log import record
from vde_dagster.state.db.rows import Instant, from_micros, to_micros
from vde_dagster.state.db.schema import SCHEMA_VERSION

FORMAT = "vde-state-1"
_BATCH = 500
# Leases are not part of the record of work. Rights belong to a server.
_LEFT_OUT = {"vde_leases"}
"""Tables that are not exported."""


def transferred_tables() -> list[sa.Table]:
    ours = [table for table in schema.metadata.sorted_tables if table.name not in _LEFT_OUT]
    return [*ours, *schema.iceberg_metadata.sorted_tables]


_PLUGINS: Seam[sa.MetaData] = Seam("state_tables")


def _plugin_tables() -> list[sa.Table]:
    return [table for made in tables_of_plugins() for table in made.sorted_tables]


def tables_of_plugins() -> list[sa.MetaData]:
    """Return the definitions of the tables that plug-ins have in the state's database.

    Raises:
        UsageError: A plug-in cannot be imported, so its tables are unknown.
    """
    return [_PLUGINS.require(name) for name in _PLUGINS.names()]


def export_state(database: Database, path: Path) -> dict[str, int]:
    """Write all rows except leases and rights to a file, and count them by table.

    Raises UsageError if the file cannot be written, or a plug-in cannot be imported.
    """
    temporary = path.with_name(f".{path.name}.part")
    try:
        counts = _write_rows(database, temporary)
        with database.effects.at("state.export", str(path)):
            temporary.replace(path)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        hint = NO_SPACE_HINT if is_no_space(error) else None
        raise UsageError(f"cannot write {path}: {error.strerror or error}", hint=hint) from error
    return counts


def _write_rows(database: Database, temporary: Path) -> dict[str, int]:
    counts: dict[str, int] = {}
    of_plugins = _plugin_tables()
    with database.reading() as conn, gzip.open(temporary, "wt", encoding="utf-8") as file:
        file.write(json.dumps({"format": FORMAT, "schema": SCHEMA_VERSION}) + "\n")
        there = set(sa.inspect(conn).get_table_names())
        own = [table for table in of_plugins if table.name in there]
        for table in [*transferred_tables(), *own]:
            counts[table.name] = 0
            for row in conn.execute(sa.select(table)).mappings():
                file.write(json.dumps([table.name, _with_forms(table, row, False)]) + "\n")
                counts[table.name] += 1
    return counts


def import_state(database: Database, path: Path) -> dict[str, int]:
    """Read all rows from an exported file into an empty state database, and count them by table.

    Raises UsageError if the file is damaged, or the database is not empty. Nothing is stored then.
    """
    _check_header(path)

    def work(conn: sa.Connection) -> dict[str, int]:
        for table in (
            schema.snapshots,
            schema.tables,
            schema.environments,
            schema.iceberg_tables,
            schema.log,
        ):
            if conn.execute(sa.select(table).limit(1)).first() is not None:
                raise UsageError(
                    "the state store to import into is not empty",
                    hint="import into a new database: set state_url",
                )
        counts = {table.name: 0 for table in transferred_tables()}
        # The exported store brings its own name and records.
        conn.execute(schema.outbox.delete())
        _let_import(conn, "on")
        made: set[str] = set()
        for table, rows in _batches(path):
            if table.name not in counts and table.name not in made:
                table.create(conn, checkfirst=True)
                made.add(table.name)
            try:
                conn.execute(sa.insert(table), rows)
            except StatementError as error:
                if is_fault(error):
                    raise
                raise _damaged(path, f"a row of {table.name} cannot be stored") from error
            counts[table.name] = counts.get(table.name, 0) + len(rows)
        _continue_sequences(conn)
        _let_import(conn, "off")
        record(database, conn, "import", detail={"rows": sum(counts.values())})
        return counts

    return database.run_transaction(work, name="state.import", idempotent=False)


def _check_header(path: Path) -> None:
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            header = json.loads(file.readline() or "{}")
    except FileNotFoundError as error:
        raise UsageError(f"the file {path} does not exist") from error
    except _UNREADABLE as error:
        raise UsageError(f"{path} is not an export of a state store") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT or "schema" not in header:
        raise UsageError(f"{path} is not an export of a state store")
    if header["schema"] != SCHEMA_VERSION:
        raise StoreError(
            f"the export has schema {header['schema']}, this version has {SCHEMA_VERSION}",
            hint="import the file with the version of vde-dagster that wrote it, then upgrade",
        )


_UNREADABLE = (OSError, EOFError, zlib.error, ValueError, TypeError, LookupError)


def _damaged(path: Path, why: str) -> UsageError:
    return UsageError(
        f"{path} is damaged: {why}; nothing was imported",
        hint="copy the file again, or use another export",
    )


def _batches(path: Path) -> Iterator[tuple[sa.Table, list[dict[str, Any]]]]:
    try:
        yield from _read_batches(path)
    except (TypeError, LookupError) as error:
        raise _damaged(path, "a line is not a row of a table") from error
    except _UNREADABLE as error:
        raise _damaged(path, str(error)) from error


def _read_batches(path: Path) -> Iterator[tuple[sa.Table, list[dict[str, Any]]]]:
    tables = {table.name: table for table in [*transferred_tables(), *_plugin_tables()]}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        next(file)
        for name, lines in groupby(map(json.loads, file), key=itemgetter(0)):
            if name not in tables:
                raise UsageError(
                    f"{path} has rows of the table '{name}', which no installed plug-in defines",
                    hint="install the plug-in of this table; `vde info --plugins` lists all",
                )
            table = tables[name]
            while rows := [_with_forms(table, row, True) for _, row in islice(lines, _BATCH)]:
                yield table, rows


_FORMS: dict[type[Any], tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    Instant: (to_micros, from_micros),
    sa.DateTime: (
        lambda at: (at if at.tzinfo else at.replace(tzinfo=timezone.utc)).isoformat(),
        datetime.fromisoformat,
    ),
    sa.LargeBinary: (lambda content: base64.b64encode(content).decode(), base64.b64decode),
}
"""How to write a column type's values as JSON, and how to read them back."""


def _with_forms(table: sa.Table, row: Mapping[Any, Any], reading: bool) -> dict[str, Any]:
    if unknown := row.keys() - table.columns.keys():
        raise ValueError(f"the table {table.name} has no column {min(unknown)}")
    changed = dict(row)
    for column in table.columns:
        form = _FORMS.get(type(column.type))
        if form is not None and row.get(column.name) is not None:
            changed[column.name] = form[reading](row[column.name])
    return changed


def _let_import(conn: sa.Connection, to: str) -> None:
    if conn.dialect.name == "postgresql":
        conn.execute(sa.text("SELECT set_config('vde.import', :to, true)"), {"to": to})


def _continue_sequences(conn: sa.Connection) -> None:
    if conn.dialect.name != "postgresql":
        return
    counted = [(name, "seq") for name in ("vde_journal", "vde_audit_results", "vde_news")]
    there = set(sa.inspect(conn).get_table_names())
    for table in _plugin_tables():
        if table.name in there and (number := table.autoincrement_column) is not None:
            counted.append((table.name, number.name))
    for name, column in counted:
        conn.execute(
            sa.text(
                f"SELECT setval(pg_get_serial_sequence('{name}', '{column}'), "
                f"(SELECT coalesce(max({column}), 0) + 1 FROM {name}), false)"
            )
        )
