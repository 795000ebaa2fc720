"""The table `[tool.vde.openlineage]`: who is told of fills and publications, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.project.settings import PluginSettings


@dataclass(frozen=True, slots=True)
class OpenLineageSettings(PluginSettings):
    """The receiver of OpenLineage's events.

    Args:
        namespace: Of jobs; the project's name where it is empty.
        transport: As OpenLineage's own client has it (`type`, `url`, …); without one its
            OPENLINEAGE_… variables and `openlineage.yml` decide. `${NAME}` in texts is read from
            the environment when used.
    """

    namespace: str = ""
    transport: dict[str, Any] = field(default_factory=dict, repr=False)

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        """Say where a transport does not say what it is."""
        if self.transport and not self.transport.get("type"):
            yield "transport", "has no type", "write { type = 'http', url = 'http://…' }"
