"""Trino's values in the JSON that `vde query` prints."""

from __future__ import annotations

import struct
from datetime import datetime, timezone
from typing import Any

from vde_dagster.base.json_values import json_value


def trino_json(value: Any, signature: dict[str, Any]) -> Any:
    """Turn a value of Trino's HTTP answers into what `json_value` makes of Spark's.

    Args:
        value: As JSON; structs are lists, instants text.
        signature: Its type, as the answer's `typeSignature`.
    """
    if value is None:
        return None
    kind = signature["rawType"]
    inner = [argument["value"] for argument in signature["arguments"]]
    if kind == "array":
        return [trino_json(item, inner[0]) for item in value]
    if kind == "map":
        return {key: trino_json(item, inner[1]) for key, item in value.items()}
    if kind == "row":
        return {
            field["fieldName"]["name"]: trino_json(item, field["typeSignature"])
            for field, item in zip(inner, value, strict=True)
        }
    if kind.startswith("timestamp"):
        instant = datetime.fromisoformat(value.removesuffix(" UTC"))
        zone = timezone.utc if value.endswith(" UTC") else None
        return json_value(instant.replace(tzinfo=zone))
    if kind == "real":
        # The shortest digits that mean this single; Spark's answer has the double of equal value.
        return json_value(struct.unpack("f", struct.pack("f", float(value)))[0])
    return json_value(float(value)) if kind == "double" else value
