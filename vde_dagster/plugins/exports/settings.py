from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from vde_dagster.api.values import PluginSettings


@dataclass(frozen=True, slots=True)
class OpenLineageSettings(PluginSettings):
    """The table `[tool.vde.openlineage]`: the receiver of OpenLineage's events.

    Args:
        namespace: Namespace of jobs; the project's name by default.
        transport: Options of OpenLineage's own client (`type`, `url`, …), by default OPENLINEAGE_…
            variables and `openlineage.yml`. `${NAME}` is read from the environment when used.
    """

    namespace: str = ""
    transport: dict[str, Any] = field(default_factory=dict, repr=False)

    def mistakes(self) -> Iterator[tuple[str, str, str]]:
        if self.transport and not self.transport.get("type"):
            yield "transport", "has no type", "write { type = 'http', url = 'http://…' }"
