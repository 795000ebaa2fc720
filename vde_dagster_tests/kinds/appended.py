"""APPENDED: what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.project.kinds import Kind, Property


@dataclass(frozen=True, slots=True)
class Appended(Kind):
    """What was committed to some parents since the fill before is added.

    Args:
        parents: The parents, each as `namespace.name`.
    """

    parents: tuple[str, ...]
    name: Literal["APPENDED"] = "APPENDED"

    summary = "commit by commit of parents; what came is added"
    properties = (
        Property("parents", lambda value: value.texts(), {"type": "array"}, required=True),
    )
    restates_whole = True
