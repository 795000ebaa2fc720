"""The rows of a seed's CSV file as text: what pandas reads, but all rows are of one length."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.kinds import Seed

if TYPE_CHECKING:
    import pyarrow

_BOM = b"\xef\xbb\xbf"
_BLANK_END = re.compile(rb"(?<=[\r\n]) [ \r\n]*\Z")
"""Lines of blanks at the end, which are no rows."""
_ASIDE = {"\n": "\ue000", "\r": "\ue001"}
"""What stands for the ends of lines while something else ends the rows."""


def read_csv(content: bytes, kind: Seed, location: SourceLocation) -> pyarrow.Table:
    """Read every column as text, its missing values as NULL.

    Args:
        content: The file's bytes.
        kind: Says how they are read.
        location: The file.

    Raises:
        ProjectError: It is malformed; names the line.
    """
    import pyarrow as pa

    if not content.strip():
        raise ProjectError(
            "the CSV file is empty", hint="its first line names the columns", location=location
        )
    content = _in_utf8(content, kind, location)
    names = _header(content, kind, location)
    if not kind.lineterminator and kind.delimiter != " ":
        content = _BLANK_END.sub(b"", content)
    try:
        table = _by_arrow(content, kind, names) if _is_plain(kind) else _by_rows(content, kind)
    except (pa.ArrowException, csv.Error, _RaggedError) as error:
        line = _malformed_line(content, kind, len(names))
        raise ProjectError(
            f"the CSV file is malformed: {str(error).splitlines()[0]}",
            hint="every line has as many fields as the first",
            location=SourceLocation(location.path, line),
        ) from error
    table = table.rename_columns(names)
    return table if kind.missing == "" else _with_nulls(table, kind)


def line_of(content: bytes, kind: Seed, row: int) -> int | None:
    """Find the line on which a row begins; rows are counted from 0, blank lines are none."""
    if kind.lineterminator:
        return None
    reader = _reader(content.decode(kind.encoding or "utf-8"), kind)
    found, ended = -1, 0
    try:
        for cells in reader:
            found += bool(cells)
            if found == row + 1:  # The first is the header.
                return ended + 1
            ended = reader.line_num
    except csv.Error:
        pass  # A field that is longer than this reader takes: Arrow has read it.
    return None


class _RaggedError(Exception):
    """A row has not as many fields as the header."""


def _is_plain(kind: Seed) -> bool:
    """Say whether Arrow reads it, which is fast and has no other settings."""
    changed = kind.escapechar or kind.skipinitialspace or kind.lineterminator
    return not changed and kind.quotechar == '"' and kind.doublequote


def _by_arrow(content: bytes, kind: Seed, names: list[str]) -> pyarrow.Table:
    import pyarrow as pa
    from pyarrow import csv as arrow

    before = kind.missing == ""
    return arrow.read_csv(
        io.BytesIO(content.removeprefix(_BOM)),
        parse_options=arrow.ParseOptions(delimiter=kind.delimiter, newlines_in_values=True),
        convert_options=arrow.ConvertOptions(
            column_types={name: pa.string() for name in names},
            null_values=["", *kind.null_values] if before else [],
            strings_can_be_null=before,
            quoted_strings_can_be_null=False,
        ),
        read_options=arrow.ReadOptions(column_names=names, skip_rows=1),
    )


def _by_rows(content: bytes, kind: Seed) -> pyarrow.Table:
    import pyarrow as pa

    rows = [row for row in _reader(content.decode("utf-8-sig"), kind) if row]
    width = len(rows[0])
    for row in rows:
        if len(row) != width:
            raise _RaggedError(f"{width} fields were expected, {len(row)} found")
    columns = zip(*rows[1:], strict=True) if len(rows) > 1 else ([] for _ in range(width))
    restored = ([_restored(cell, kind) for cell in column] for column in columns)
    arrays = [pa.chunked_array([pa.array(column, pa.string())]) for column in restored]
    return pa.table(arrays, names=[str(number) for number in range(width)])


def _with_nulls(table: pyarrow.Table, kind: Seed) -> pyarrow.Table:
    import pyarrow as pa
    import pyarrow.compute as pc

    arrays = []
    for name in table.column_names:
        values = table[name]
        nulls = pa.array(dict.fromkeys(kind.null_values_of(name)), pa.string())
        arrays.append(pc.if_else(pc.is_in(values, value_set=nulls), None, values))
    return pa.table(arrays, names=table.column_names)


def _reader(text: str, kind: Seed) -> Any:
    """Return Python's reader, which counts lines."""
    if kind.lineterminator:
        for sign, aside in _ASIDE.items():
            text = text.replace(sign, aside)
        text = text.replace(kind.lineterminator, "\n")
    # Without translation of line ends: a carriage return alone ends a line, as it does for Arrow.
    return csv.reader(
        io.StringIO(text, newline=""),
        delimiter=kind.delimiter,
        quotechar=kind.quotechar,
        doublequote=kind.doublequote,
        escapechar=kind.escapechar or None,
        skipinitialspace=kind.skipinitialspace,
    )


def _restored(cell: str, kind: Seed) -> str:
    if not kind.lineterminator:
        return cell
    cell = cell.replace("\n", kind.lineterminator)
    for sign, aside in _ASIDE.items():
        cell = cell.replace(aside, sign)
    return cell


def _in_utf8(content: bytes, kind: Seed, location: SourceLocation) -> bytes:
    encoding = kind.encoding or "utf-8"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ProjectError(
            f"the CSV file is not {encoding.upper()}",
            hint="save it so, or name its encoding: csv_settings (encoding = 'latin-1')",
            location=SourceLocation(location.path, line),
        ) from None
    return text.encode() if kind.encoding else content


def _malformed_line(content: bytes, kind: Seed, width: int) -> int | None:
    """Find the line of the first row that has not as many fields as the first."""
    if kind.lineterminator:
        return None
    reader = _reader(content.decode("utf-8-sig"), kind)
    try:
        for row in reader:
            if row and len(row) != width:
                return int(reader.line_num)
    except csv.Error:
        return int(reader.line_num)
    return None


def _header(content: bytes, kind: Seed, location: SourceLocation) -> list[str]:
    first = content[: 1 << 20].decode("utf-8-sig", "ignore")
    try:
        names = [_restored(name, kind).strip() for name in _first_row(first, kind)]
    except csv.Error as error:
        raise ProjectError(
            f"the first line of the CSV file cannot be read: {error}",
            hint="its first line names the columns",
            location=SourceLocation(location.path, 1),
        ) from None
    if not names:
        raise ProjectError(
            "the first line of the CSV file is blank",
            hint="its first line names the columns",
            location=SourceLocation(location.path, 1),
        )
    seen: set[str] = set()
    for name in names:
        if not name or name.lower() in seen:
            raise ProjectError(
                f"column '{name}' is named twice" if name else "a column has no name",
                hint="the first line names every column once",
                location=SourceLocation(location.path, 1),
            )
        seen.add(name.lower())
    return names


def _first_row(text: str, kind: Seed) -> Iterator[str]:
    yield from next(_reader(text, kind), [])
