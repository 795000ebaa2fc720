"""The JSON Schema of a model's properties, as `@model(…)` takes them."""

from __future__ import annotations

from typing import Any

from vde_dagster.project.kinds.describe import kind_schema
from vde_dagster.project.reading.model_properties import METADATA, READ, REFUSED


def model_schema() -> dict[str, Any]:
    """Return the schema; properties that are refused are not in it.

    Source: https://json-schema.org/draft/2020-12/schema
    """
    plain = sorted((READ | METADATA) - set(REFUSED) - {"name", "kind"})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A model's properties",
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "kind": kind_schema(),
            **{name: {} for name in plain},
        },
        "required": ["name"],
        "additionalProperties": False,
    }
