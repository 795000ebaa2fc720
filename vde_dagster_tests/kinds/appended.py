"""APPENDED: what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vde_dagster.base.names import ModelName
from vde_dagster.project.kinds import Kind, Property


@dataclass(frozen=True, slots=True)
class Appended(Kind):
    """What was committed to a parent since the fill before is added.

    Args:
        parent: The parent, as `namespace.name`.
    """

    parent: str
    name: Literal["APPENDED"] = "APPENDED"

    summary = "commit by commit of a parent; what came is added"
    properties = (
        Property("parent", lambda value: value.text(), {"type": "string"}, required=True),
    )
    restates_whole = True

    @property
    def parent_by_commits(self) -> ModelName:
        """The parent."""
        return ModelName.parse(self.parent)
