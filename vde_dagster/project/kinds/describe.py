"""What kinds declare of themselves, for people and for editors."""

from __future__ import annotations

from typing import Any

from vde_dagster.project.kinds.base import KINDS, Kind, kind_name


def kinds_table() -> str:
    """Return the documentation's table of kinds, in Markdown."""
    lines = ["| kind | how its table is filled | properties |", "|---|---|---|"]
    for name, kind in KINDS.by_name.items():
        shown = ", ".join(item.shown or f"`{item.name}`" for item in kind.properties) or "\u2013"
        lines.append(f"| `{name}` | {kind.summary} | {shown} |")
    return "\n".join(lines)


def kind_schema() -> dict[str, Any]:
    """Return the JSON Schema of a kind as Python models write it: a name, or a dictionary."""
    bare = [name for name, kind in KINDS.by_name.items() if not _required(kind)]
    return {"anyOf": [{"enum": bare}, *(_schema(kind) for kind in KINDS.by_name.values())]}


def _schema(kind: type[Kind]) -> dict[str, Any]:
    properties = {item.name: dict(item.schema) for item in kind.properties}
    return {
        "type": "object",
        "description": kind.summary,
        "properties": {"name": {"const": kind_name(kind)}, **properties},
        "required": ["name", *_required(kind)],
        "additionalProperties": False,
    }


def _required(kind: type[Kind]) -> list[str]:
    return [item.name for item in kind.properties if item.required]
