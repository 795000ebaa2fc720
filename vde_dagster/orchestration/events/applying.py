"""Applying plans and filling versions inside a step, with everything logged as it happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.storage.tags import SENSOR_NAME_TAG

from vde_dagster.errors import VdeError
from vde_dagster.execution.events import ApplyStarted, Event
from vde_dagster.orchestration.events.plan_events import published_page
from vde_dagster.orchestration.events.recorder import EventRecorder
from vde_dagster.orchestration.events.records import passing_events, plan_materializations
from vde_dagster.orchestration.events.stream import Streamed, stream_events
from vde_dagster.orchestration.events.watch import tell
from vde_dagster.orchestration.failures import as_failure
from vde_dagster.orchestration.models.catalog import AssetCatalog
from vde_dagster.orchestration.shown import refresh_after
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.plan import Plan
from vde_dagster.state.leases import DEFAULT_TTL_SECONDS

if TYPE_CHECKING:
    from vde_dagster.execution.apply_result import ApplyResult
    from vde_dagster.execution.workspace import Workspace

USER_TAG = "user"
"""Where a Dagster that knows people, or a proxy before it, says who launched a run."""


def person_of(tags: Mapping[str, str], plan: Plan) -> str | None:
    """Return who stands behind a run: who launched it, or the author of what applies itself.

    Args:
        tags: The run's tags.
        plan: What it applies.
    """
    by_itself = SENSOR_NAME_TAG in tags and plan.proposal is not None
    author = plan.proposal.author if by_itself and plan.proposal is not None else ""
    return tags.get(USER_TAG) or author or None


StepContext = dg.OpExecutionContext | dg.AssetExecutionContext
DagsterEvents = Iterator[dg.AssetMaterialization | dg.AssetCheckEvaluation | dg.AssetObservation]


@dataclass
class Work:
    """Work of the execution layer in a step of a run.

    Args:
        context: The step.
        catalog: The code location's models.
        workspace: The project.
        skip: An asset whose materialisations the step itself yields.
    """

    context: StepContext
    catalog: AssetCatalog
    workspace: Workspace
    skip: dg.AssetKey | None = None

    def __post_init__(self) -> None:
        self.recorder = EventRecorder(
            self.catalog, self.workspace, self.context.instance, self.context.log, self.skip
        )
        # The run before a retry may have been killed a moment ago; its lease ends by itself.
        is_retry = self.context.run.parent_run_id is not None
        self._lease_wait_seconds = 1.25 * DEFAULT_TTL_SECONDS if is_retry else 0.0
        self.result: Streamed[ApplyResult] = Streamed()
        self._plan_id: str | None = None
        if self.workspace.settings.dagster.preview_rows > 0:
            from vde_dagster.lakehouse.preview import import_readers

            import_readers()

    def apply(
        self,
        plan: Plan,
        *,
        concurrency: int | None = None,
        who: str | None = None,
        skip_tests: bool = False,
    ) -> DagsterEvents:
        """Apply a plan, yielding Dagster's events as the work goes on."""
        self._plan_id = plan.id

        def work(put: Callable[[Event], None]) -> ApplyResult:
            return self.workspace.apply(
                plan,
                on_event=put,
                concurrency=concurrency,
                who=who,
                skip_tests=skip_tests,
                lease_wait_seconds=self._lease_wait_seconds,
            )

        yield from self._stream(work)

    def fill(
        self, snapshot_id: str, intervals: IntervalSet, *, restate: bool = False
    ) -> DagsterEvents:
        """Fill ranges of a version, yielding the same events."""

        def work(put: Callable[[Event], None]) -> ApplyResult:
            def note(event: Event) -> None:
                if isinstance(event, ApplyStarted):
                    self._plan_id = event.plan.id
                put(event)

            return self.workspace.fill(
                snapshot_id,
                intervals,
                on_event=note,
                restate=restate,
                lease_wait_seconds=self._lease_wait_seconds,
            )

        yield from self._stream(work)

    def page(self, plan: Plan) -> Iterator[dg.AssetMaterialization]:
        """Yield the plan's page once more: it says now by whom the plan was published, and when."""
        published = self.result.value.environment if self.result.value is not None else None
        if published is not None:
            yield published_page(self.workspace.store, plan, published, self.catalog.names)

    def metadata(self) -> dict[str, Any]:
        """Return what is to be said of the finished work."""
        result = self.result.value
        if result is None:
            return {}
        facts: dict[str, Any] = {
            "vde/plan": result.plan.id,
            "vde/environment": result.plan.environment,
            "vde/models_computed": len(result.plan.builds) - len(result.skipped),
            "vde/seconds": result.seconds,
            "vde/published": result.published,
        }
        if result.skipped:
            facts["vde/models_skipped"] = len(result.skipped)
            facts["vde/saved_seconds"] = sum(s.seconds or 0.0 for s in result.skipped.values())
            facts["vde/saved_bytes"] = sum(s.bytes or 0 for s in result.skipped.values())
            facts["vde/skipped"] = dg.MetadataValue.json(
                {str(name): skipped.to_json() for name, skipped in result.skipped.items()}
            )
        if result.environment is not None:
            facts["vde/version"] = result.environment.version
            facts["vde/published_by"] = result.environment.published_by
        return facts

    def _stream(self, work: Callable[[Callable[[Event], None]], ApplyResult]) -> DagsterEvents:
        def cancel() -> None:
            if self._plan_id is not None:
                self.workspace.cancel(self._plan_id)

        with as_failure():
            effects = self.workspace.store.database.effects
            try:
                for event in stream_events(work, cancel, self.result):
                    tell(event)
                    if isinstance(event, ApplyStarted):
                        # From now on the versions that the plan builds are listed.
                        refresh_after(self.context, self.workspace)
                    yield from passing_events(effects, self.recorder.record(event))
            except VdeError as error:
                self._redden()
                yield from passing_events(effects, self.recorder.unpublished(error))
                raise

    def _redden(self) -> None:
        """Let what blocking audits have rejected be red once the run has failed."""
        effects = self.workspace.store.database.effects
        for key, partitions in self.recorder.rejected():
            plan_materializations(effects, self.context.instance, self.context.run, key, partitions)
