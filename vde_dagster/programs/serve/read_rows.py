"""Rows of a model, read by PyIceberg at the pin of an environment version."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.table import Table

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import find_column
from vde_dagster.errors import UsageError, VdeError
from vde_dagster.lakehouse.io.manifests import whole_avro
from vde_dagster.lakehouse.maintenance.fsck_files import READ_BYTES, check_snapshot
from vde_dagster.lakehouse.rows.bind_filter import RowTest, bind_filter, not_before
from vde_dagster.lakehouse.rows.row_filters import parse_filter
from vde_dagster.lakehouse.rows.row_order import (
    Behind,
    Cursor,
    SortKey,
    first_rows,
    from_keys,
    require_sortable,
    to_key,
)
from vde_dagster.lakehouse.rows.scan import narrowed, scan_rows
from vde_dagster.programs.serve.errors import ServeError

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from vde_dagster.programs.serve.loading import Loader
    from vde_dagster.programs.serve.served import ServedVersion


@dataclass(frozen=True, slots=True)
class RowRequest:
    """A request for rows of a model: columns, filter, order, page size.

    Args:
        version: The environment or version, as the request names it.
        columns: Columns in order; empty for all.
        condition: A condition for `row_filters`; None for all rows.
        sort: Columns to sort by; `-day` sorts by `day` in descending order.
        allowed: The token's condition; None for all rows.
    """

    version: str
    model: ModelName
    columns: tuple[str, ...]
    condition: str | None
    sort: tuple[str, ...]
    limit: int
    allowed: str | None

    @property
    def identity(self) -> str:
        """A hash of version, model, filter and order, equal for all pages of a request."""
        conditions = self.condition or "", self.allowed or ""
        return digest("rows", self.version, str(self.model), *conditions, *self.sort)[:16]


@dataclass(frozen=True, slots=True)
class Page:
    rows: pa.Table
    next: Cursor | None


def read_rows(
    served: ServedVersion, loader: Loader, request: RowRequest, cursor: Cursor | None
) -> Page:
    """Read one page of a model's rows.

    Raises:
        UsageError: The request names a column that the model lacks.
        ServeError: The table does not exist, or its rows may not be read.
    """
    if request.model in served.views and request.model not in served.columns_tables:
        raise UsageError(
            f"{request.model} does not have a table, so only engines can read it",
            hint="read it with Spark or Trino, or give its model another kind, such as FULL",
        )
    if cursor is not None and cursor.request.partition("/")[0] != request.identity:
        raise UsageError(
            "the cursor belongs to another request", hint="start again without a cursor"
        )
    metadata = loader.rows_metadata(served, request.model)
    identity = request.identity
    if request.model in served.externals:
        identity += f"/{metadata.get('current-snapshot-id')}"
    if cursor is not None and cursor.request != identity:
        raise UsageError(
            f"{request.model} was written since the previous page: it is an external table, so no "
            "version keeps its earlier rows",
            hint="start again without a cursor",
        )
    io = served.workspace.lakehouse.files.file_io(metadata["location"])
    table = _make_table(metadata, whole_avro(io))
    tests = _row_tests(table, request)
    known = [field.name for field in table.schema().fields]
    asked = (find_column(request.model, name, known) for name in request.columns)
    columns = list(dict.fromkeys(asked)) or known
    keys = [
        SortKey(find_column(request.model, text.removeprefix("-"), known), text.startswith("-"))
        for text in request.sort
    ]
    wanted = list(dict.fromkeys([*columns, *(key.column for key in keys)]))
    schema = narrowed(table.schema().as_arrow(), wanted)
    require_sortable(keys, schema)
    behind: Behind | None = None
    files: BooleanExpression = AlwaysTrue()
    if cursor is not None:
        types = [schema.field(key.column).type for key in keys]
        behind = Behind(tuple(from_keys(cursor.keys, types)), cursor.given)
        if keys:
            files = not_before(table.schema(), keys[0].column, behind.keys[0], keys[0].descending)
    # One extra row shows whether there is a next page.
    try:
        rows = scan_rows(table, schema, tests, files)
        found = first_rows(rows, schema, keys, request.limit + 1, behind)
    except (VdeError, ServeError):
        raise
    except Exception:
        # Names the file that is missing or damaged, if any.
        stored, snapshot = served.workspace.lakehouse.files, metadata.get("current-snapshot-id")
        said = str(request.model)
        check_snapshot(stored, metadata, snapshot, said, read_bytes=READ_BYTES)
        raise
    page = found.slice(0, request.limit)
    following = None
    if found.num_rows > request.limit:
        following = _next_cursor(served.version.version, identity, page, keys, behind)
    return Page(page.select(columns), following)


def _make_table(metadata: dict[str, Any], io: FileIO) -> Table:
    from pyiceberg.catalog.noop import NoopCatalog
    from pyiceberg.table.metadata import TableMetadataUtil

    parsed = TableMetadataUtil.parse_obj(metadata)
    return Table(("rows",), parsed, "", io, NoopCatalog("rows"))


def _row_tests(table: Table, request: RowRequest) -> list[RowTest]:
    tests = []
    if request.allowed is not None:
        allowed = parse_filter(request.allowed)
        try:
            tests.append(bind_filter(allowed, table.schema(), "the filter of this token"))
        except UsageError as error:
            # Without the hint, which lists columns that this token may not see.
            raise ServeError(403, error.message) from error
    if request.condition is not None:
        asked = parse_filter(request.condition)
        tests.append(bind_filter(asked, table.schema(), "the filter"))
    return tests


def _next_cursor(
    version: int, identity: str, page: pa.Table, keys: Sequence[SortKey], behind: Behind | None
) -> Cursor:
    if not keys:
        before = behind.given if behind is not None else 0
        return Cursor(version, identity, (), before + page.num_rows)
    last, given = _row_keys(page, keys, page.num_rows - 1), 0
    while given < page.num_rows and _row_keys(page, keys, page.num_rows - 1 - given) == last:
        given += 1
    if given == page.num_rows and behind is not None and last == tuple(map(to_key, behind.keys)):
        given += behind.given
    return Cursor(version, identity, last, given)


def _row_keys(page: pa.Table, keys: Sequence[SortKey], row: int) -> tuple[Any, ...]:
    return tuple(to_key(page[key.column][row]) for key in keys)
