"""Rows as JSON, as an Arrow stream and as CSV."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.csv
from pydantic_core import to_json

from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.planning.environment import Environment
    from vde_dagster.serve.read_rows import Page

Format = Literal["json", "arrow", "csv"]
MEDIA: dict[Format, str] = {
    "json": "application/json",
    "arrow": "application/vnd.apache.arrow.stream",
    "csv": "text/csv",
}


def chosen_format(asked: Format | None, accept: str) -> Format:
    """Return the format that a request asks for, by name or by its `Accept`; JSON by default."""
    if asked is not None:
        return asked
    for part in accept.lower().split(","):
        kind = part.partition(";")[0].strip()
        for name, media in MEDIA.items():
            if kind == media:
                return name
    return "json"


def written(page: Page, form: Format, version: Environment, model: str) -> bytes:
    """Write a page.

    Args:
        page: The rows.
        form: How.
        version: Whose they are, for JSON, which says so.
        model: What they are of.

    Raises:
        UsageError: CSV has no form for a column.
    """
    if form == "arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, page.rows.schema) as stream:
            stream.write_table(page.rows)
        return bytes(sink.getvalue())
    if form == "csv":
        sink = pa.BufferOutputStream()
        try:
            pyarrow.csv.write_csv(page.rows, sink)
        except pa.ArrowInvalid as error:
            raise UsageError(
                f"CSV has no form for a column: {error}", hint="leave it out, or ask for JSON"
            ) from error
        return bytes(sink.getvalue())
    answer: dict[str, Any] = {
        "environment": version.name,
        "version": version.version,
        "publication": version.publication_id,
        "model": model,
        "columns": [{"name": one.name, "type": str(one.type)} for one in page.rows.schema],
        "rows": page.rows.to_pylist(),
        "next": page.next.text() if page.next is not None else None,
    }
    # NaN and infinities are no JSON.
    return to_json(answer, inf_nan_mode="strings", bytes_mode="base64")
