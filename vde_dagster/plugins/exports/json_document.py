"""A project's document as JSON, and its JSON Schema.

The schema is `docs/document.schema.json`. Within one `document_version` fields are only added.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from vde_dagster.api.reports import Document
from vde_dagster.reports.documentation.values import DOCUMENT_VERSION

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_document(document: Document) -> bytes:
    """Return a document as JSON in UTF-8, indented; equal documents give equal bytes."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


def document_schema() -> dict[str, Any]:
    """Return the JSON Schema of the output of `json_document`."""
    schema = msgspec.json.schema(Document)
    for part in schema["$defs"].values():
        part["description"] = inspect.cleandoc(part["description"])
    version = schema["$defs"]["Document"]["properties"]["document_version"]
    version["const"] = DOCUMENT_VERSION
    return {"$schema": _DIALECT, "title": "A project of vde-dagster", **schema}
