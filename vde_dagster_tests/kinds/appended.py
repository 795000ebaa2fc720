"""The kind APPENDED."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.api.kinds import Kind, Property


@dataclass(frozen=True, slots=True)
class Appended(Kind):
    """Rows that were committed to some parents since the previous fill are added.

    Args:
        parents: The parents, each as `namespace.name`.
    """

    parents: tuple[str, ...]
    name: Literal["APPENDED"] = "APPENDED"

    summary = "commit by commit of parents; their new rows are added"
    properties = (
        Property("parents", lambda value: value.texts(), {"type": "array"}, required=True),
    )
    restates_whole = True
