"""Events for models whose partitions have a new time unit, such as hours in place of days.

The unit changes with a model's cron, and becomes coarser when a model has too many intervals.
Events of the earlier unit do not count for the new partitions, which Dagster would show as missing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.provenance import Log, ProjectionContext
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.events.sync import Comparison
from vde_dagster.orchestration.models.catalog import recent_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names


@dataclass
class RecordedUnits:
    """Time unit of each model's events in Dagster, by model name."""

    workspace: Workspace
    instance: dg.DagsterInstance

    def __post_init__(self) -> None:
        self._key = f"vde/time_units/{Names.from_settings(self.workspace.settings).prefix}"
        self._cursors = self.instance.daemon_cursor_storage
        text = self._cursors.get_cursor_values({self._key}).get(self._key)
        self._known: dict[str, str] = json.loads(text or "{}")

    def differ_from(self, shown: Mapping[str, str]) -> bool:
        return not shown.items() <= self._known.items()

    def write_again(self, translator: VdeTranslator, log: Log, until: float) -> bool:
        """Write the events of models with a new unit. Return False if the time is up.

        `until` is a time of the monotonic clock.
        """
        catalog = recent_catalog(self.workspace, translator)
        units = catalog.time_units
        comparison = Comparison(ProjectionContext(self.workspace, self.instance, catalog, log))
        reporter = Reporter(self.workspace, self.instance)
        for name in catalog.live.models:
            known = self._known.get(str(name))
            if known is None or units.get(str(name), known) == known:
                continue
            for projected in comparison.model(name, wipe=False):
                reporter.report(projected)
                if time.monotonic() > until:
                    return False
            if comparison.busy:
                # A run may still write events of the earlier unit, so the next tick compares again.
                units[str(name)] = known
        self._cursors.set_cursor_values({self._key: json.dumps(units)})
        return True
