"""Rows written for other programs: CSV, and streams of Arrow."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa

FORMS = ("csv", "arrow", "json")


def check_form(form: str | None, file: Path | None, *, as_json: bool, alone: bool) -> None:
    """Make sure that rows can be written as somebody asks for.

    Args:
        form: How; None for people.
        file: Where to; None for stdout.
        as_json: Whether JSON was asked for.
        alone: Whether no row is read at all.

    Raises:
        UsageError: They cannot.
    """
    if form is not None and form not in FORMS:
        raise UsageError(f"'{form}' is no form of rows", hint=f"say {', '.join(FORMS)}")
    if form in ("csv", "arrow") and as_json:
        raise UsageError(
            f"rows are written as JSON or as {form}, not as both", hint="leave out one of them"
        )
    if form is not None and alone:
        raise UsageError(
            "no row is read, so that --format means nothing",
            hint="leave it out, or what reads no rows: --sql, --ack and --forget",
        )
    if file is not None and form not in ("csv", "arrow"):
        raise UsageError("--output is for csv and arrow", hint="say which: --format csv")
    if form == "arrow" and file is None and sys.stdout.isatty():
        raise UsageError(
            "a terminal cannot show Arrow", hint="give --output FILE, or send it to a program"
        )
    if file is not None and not file.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {file.parent}", hint="make it first")


def write_rows(rows: pa.Table, form: str, file: Path | None) -> None:
    """Write rows; a file is there whole or not at all, and stdout is flushed.

    Args:
        rows: The rows.
        form: `csv` (RFC 4180, with a header; NULL is an empty field, texts are quoted) or `arrow`
            (an IPC stream).
        file: Where to; None for stdout.

    Raises:
        UsageError: CSV has no form for a column.
    """
    content = _content(rows, form)
    if file is None:
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
        return
    part = file.with_name(f"{file.name}.part")
    with part.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())  # A cursor that moves behind it is durable, too.
    part.replace(file)


def _content(rows: pa.Table, form: str) -> Any:
    import pyarrow as pa
    from pyarrow import csv

    sink = pa.BufferOutputStream()
    if form == "arrow":
        with pa.ipc.new_stream(sink, rows.schema) as stream:
            stream.write_table(rows)
        return sink.getvalue()
    try:
        csv.write_csv(rows, sink)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(
            f"CSV has no form for a column: {error}",
            hint="ask for --format arrow, or --format json",
        ) from error
    return sink.getvalue()
