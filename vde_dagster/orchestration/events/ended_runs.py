"""Restoration of the status of checks that a failed or canceled run planned but never ran.

Dagster shows no result of such a check, although the published model did not change.
"""

from __future__ import annotations

import json
from collections.abc import Sequence, Set
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

import dagster as dg

from vde_dagster.execution.workspace import Workspace
from vde_dagster.orchestration.events.checks import AuditEvents
from vde_dagster.orchestration.events.provenance import Log, ProjectionContext
from vde_dagster.orchestration.events.records import Reporter
from vde_dagster.orchestration.models.catalog import recent_catalog
from vde_dagster.orchestration.models.translator import VdeTranslator
from vde_dagster.orchestration.names import Names

LOOK_BACK = timedelta(hours=1)
MOST_RUNS = 20
"""Maximum number of runs to examine at once; the next call examines further runs."""
_CHECK_PLANNED = dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED
_ENDED = [dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


@dataclass
class EndedRuns:
    """Finds failed and canceled runs of the last hour, and restores the status of their checks."""

    # The ids of examined runs are a cursor in Dagster's database. Times would miss a run that
    # another process marks as failed late.
    workspace: Workspace
    instance: dg.DagsterInstance

    def __post_init__(self) -> None:
        prefix = Names.from_settings(self.workspace.settings).prefix
        self._key = f"vde/examined_runs/{prefix}"
        self._cursors = self.instance.daemon_cursor_storage
        since = datetime.now(timezone.utc) - LOOK_BACK
        filters = dg.RunsFilter(statuses=_ENDED, updated_after=since)
        self._ended = list(self.instance.get_run_ids(filters=filters))
        known = self._cursors.get_cursor_values({self._key}) if self._ended else {}
        self._examined = set(json.loads(known.get(self._key) or "[]"))

    @property
    def unexamined(self) -> list[str]:
        """Runs to examine next, newest first."""
        return [run_id for run_id in self._ended if run_id not in self._examined][:MOST_RUNS]

    def examine(self, translator: VdeTranslator, log: Log) -> None:
        """Restore the status of checks that unexamined runs planned but did not evaluate."""
        runs = self.unexamined
        checks = abandoned_checks(self.instance, runs)
        if checks:
            catalog = recent_catalog(self.workspace, translator)
            restore_checks(ProjectionContext(self.workspace, self.instance, catalog, log), checks)
        self._examined = {*self._examined, *runs} & set(self._ended)
        self._cursors.set_cursor_values({self._key: json.dumps(sorted(self._examined))})


def abandoned_checks(instance: dg.DagsterInstance, run_ids: Sequence[str]) -> set[dg.AssetCheckKey]:
    """Return the checks that runs planned but did not evaluate, unless a later run planned them."""
    found: set[dg.AssetCheckKey] = set()
    for run_id in run_ids:
        planned = {
            event.asset_check_planned_data.asset_check_key
            for entry in instance.all_logs(run_id, of_type=_CHECK_PLANNED)
            if (event := entry.dagster_event) is not None
        }
        latest = instance.event_log_storage.get_latest_asset_check_execution_by_key([*planned])
        found |= {
            key
            for key, record in latest.items()
            if record.run_id == run_id
            and not isinstance(record.evaluation, dg.AssetCheckEvaluation)
        }
    return found


def restore_checks(context: ProjectionContext, keys: Set[dg.AssetCheckKey]) -> None:
    """Report the status of the given checks of published models to Dagster again."""
    reporter = Reporter(context.workspace, context.instance)
    assets = {key.asset_key for key in keys}
    for name in context.catalog.live.models:
        if context.catalog.key(name) in assets:
            for event in AuditEvents(context).latest_results(name):
                if event.asset_check_key in keys:
                    reporter.write_alone(event)
