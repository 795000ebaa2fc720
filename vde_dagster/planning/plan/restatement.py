"""Restatement of filled intervals and their descendants, on request or by a model's cron."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError
from vde_dagster.planning.environments.environment import PRODUCTION
from vde_dagster.planning.intervals.cadence import EPOCH, FAR
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.plan.affected_intervals import (
    NOTHING,
    AffectedIntervals,
    Widening,
    affected_intervals,
    changed_parent_ranges,
)
from vde_dagster.planning.plan.audits_due import choose_audits_again
from vde_dagster.planning.plan.missing_intervals import last_units, units_around
from vde_dagster.planning.plan.plan import Plan, PlanKind, PlannedModel
from vde_dagster.planning.plan.plan_options import PlanOptions
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.selection import Changed as ChangedFiles
from vde_dagster.project.selection import select


class RefusalCode(str, Enum):
    """Reasons why a restatement leaves out a table."""

    PRODUCTION_TABLE = "production_table"
    FROM_FILE = "from_file"
    ADDS_TO_PREVIEW = "adds_to_preview"
    DISABLED = "disabled"


@dataclass(frozen=True, slots=True)
class Refusal:
    """A model that a restatement selects or affects but does not compute again.

    Args:
        tool: The tool whose project defines the model, as in `Model.tool`.
    """

    name: ModelName
    code: RefusalCode
    kind: str
    tool: str = ""


@dataclass(frozen=True, slots=True)
class WidenedModel:
    """A model that a restatement computes for more intervals than were requested.

    Args:
        first: Start of the first interval (UTC).
    """

    name: ModelName
    first: datetime
    why: Widening
    kind: str


@dataclass(frozen=True, slots=True)
class Restatement:
    """A plan that fills intervals again, and models to report with the plan.

    Args:
        refused: Models that the plan does not compute again.
        extended: Models that the plan computes for more intervals than were requested.
        chosen: Names of the models that the user selected.
    """

    plan: Plan
    refused: tuple[Refusal, ...]
    extended: tuple[WidenedModel, ...]
    chosen: Set[ModelName] = frozenset()


def restate(
    plan: Plan,
    wanted: Mapping[ModelName, IntervalSet],
    protected: Set[str],
    *,
    fills_missing: bool = False,
    beside: bool = False,
) -> Restatement:
    """Change a run's plan so that it computes ranges of some models and their descendants again.

    Args:
        wanted: The ranges to compute again (UTC).
        protected: Ids of tables that the environment may not write.
        fills_missing: Whether to also fill intervals in these ranges that were never filled.
        beside: Whether the run's own work stays in the plan.
    """
    # Descendants are computed in whole intervals of their cadence, also through views. No model is
    # computed beyond its filled ranges.
    seen = _RestatementProgress(plan, protected)
    models = tuple(
        seen.restate(model, wanted.get(model.name, IntervalSet()), fills_missing, beside)
        for model in plan.models
    )
    models = choose_audits_again(models, plan.snapshots, beside=beside)
    changed = replace(plan, models=models, restates=seen.changed)
    return Restatement(changed, tuple(seen.refused), tuple(seen.extended))


def restate_published(
    run: Plan, options: PlanOptions, protected: Set[str], changed: ChangedFiles | None = None
) -> Restatement:
    """Change a run's plan into the restatement that `--restate-model` requests.

    Args:
        options: The models and the range; by default, everything that is filled.
        protected: Ids of tables that the environment may not write.
        changed: Returns which files differ from a branch, for patterns that use git.

    Raises:
        UsageError: A pattern selects nothing, or an option cannot be combined with a restatement.
    """
    for spelt, given in (
        ("--select", options.select),
        ("--skip-backfill", options.skip_backfill),
        ("--empty-backfill", options.empty_backfill),
        ("--backfill-model", options.backfill),
        ("--min-intervals", options.min_intervals),
        ("--ignore-cron", options.ignore_cron),
        ("--no-gaps", options.no_gaps),
        ("--remove-models", options.remove_models),
        ("--forward-only", options.forward_only),
        ("--allow-destructive-model", options.allow_destructive),
        ("--allow-additive-model", options.allow_additive),
    ):
        if given:
            raise UsageError(
                f"--restate cannot be combined with {spelt}: it only computes published intervals "
                "again",
                hint=f"leave {spelt} out, or plan the changes separately, without --restate",
            )
    models = {name: run.snapshots[e.snapshot_id].model for name, e in run.entries.items()}
    chosen = select(models, options.restate, changed)
    if not chosen:
        raise UsageError(
            f"'{' '.join(options.restate)}' selects no model to restate",
            hint="select models that the environment shows, by name or pattern",
        )
    asked = IntervalSet((Interval(run.start or EPOCH, run.end or FAR),))
    restated = restate(
        replace(run, kind=PlanKind.RESTATEMENT), dict.fromkeys(chosen, asked), protected
    )
    return replace(restated, chosen=chosen)


def require_same_ranges(run: Plan, shown: Mapping[ModelName, PhysicalTable]) -> None:
    """Raise UsageError if a model's new table lacks ranges that the shown table has filled."""
    # A run assigns another table to a model if a parent's table was replaced, for example by a
    # preview, after production stopped showing the table that it shared with the environment.
    for model in run.models:
        before = shown.get(model.name)
        if model.table is None or before is None or model.table.id == before.id:
            continue
        if before.available - model.table.available:
            raise UsageError(
                f"'{run.environment}' would lose filled ranges of {model.name}: the model gets "
                "another table, which a restatement does not fill",
                hint=f"fill it first: vde run {run.environment}",
            )


class _RestatementProgress:
    def __init__(self, plan: Plan, protected: Set[str]) -> None:
        self.plan, self.protected = plan, protected
        self.changed: dict[ModelName, IntervalSet] = {}
        self.by_table: dict[str, IntervalSet] = {}
        self.refused: list[Refusal] = []
        self.extended: list[WidenedModel] = []

    def restate(
        self, model: PlannedModel, asked: IntervalSet, fills_missing: bool, beside: bool
    ) -> PlannedModel:
        """Return a model with ranges to compute again; record ranges that change for readers."""
        idle = model
        if not beside:
            idle = replace(
                model, builds=False, intervals=IntervalSet(), skips=None, catches_up=False
            )
        if model.snapshot_id is None:
            return idle
        snapshot = self.plan.snapshots[model.snapshot_id]
        change = asked | changed_parent_ranges(snapshot, self.changed)
        if model.table is not None:
            # Of two models with one table the second shows what is computed for the first.
            change = change | self.by_table.get(model.table.id, IntervalSet())
        if not change:
            return idle
        if model.table is None:
            self.changed[snapshot.name] = change
            return idle
        found = self._affected(model, snapshot, change, bool(asked))
        intervals = found.intervals
        if fills_missing:
            intervals = intervals | units_around(snapshot, model.intervals, change)
        if not intervals:
            return idle
        if found.widened:
            first, kind = found.intervals.ranges[0].start, snapshot.model.kind.name
            self.extended.append(WidenedModel(snapshot.name, first, found.widened, kind))
        if found.intervals:
            self.changed[snapshot.name] = self.by_table[model.table.id] = found.changed
        if beside:
            intervals = intervals | model.intervals
        built = replace(model, builds=True, intervals=intervals)
        # Who asks for it to be computed again has a reason that no comparison knows.
        again = found.intervals
        return replace(built, restate=True, skippable=False, skips=None) if again else built

    def _affected(
        self, model: PlannedModel, snapshot: Snapshot, change: IntervalSet, asked: bool
    ) -> AffectedIntervals:
        assert model.table is not None
        found = affected_intervals(snapshot, model.table.intervals, change)
        refused = self._refusal(snapshot, model.table)
        if refused is None:
            return found
        # That a restatement of a parent ends here is expected, unless it was disabled by hand.
        if found.intervals if refused is RefusalCode.DISABLED else asked:
            own = snapshot.model
            self.refused.append(Refusal(own.name, refused, own.kind.name, own.tool))
        return NOTHING

    def _refusal(self, snapshot: Snapshot, table: PhysicalTable) -> RefusalCode | None:
        kind = snapshot.model.kind
        if table.id in self.protected:
            return RefusalCode.PRODUCTION_TABLE
        if meaning_of(kind).filled_once:
            return RefusalCode.FROM_FILE
        if table.preview is not None and not kind.refills:
            return RefusalCode.ADDS_TO_PREVIEW
        if self.plan.environment == PRODUCTION and kind.disable_restatement:
            return RefusalCode.DISABLED
        return None


def limit_to_model(plan: Plan, name: ModelName, ranges: IntervalSet) -> Plan:
    """Limit a run's plan to the missing intervals of one model in the given ranges (UTC)."""
    # Whole units are filled. If the model fills intervals in order, earlier intervals are included.
    models = []
    for model in plan.models:
        chosen = IntervalSet()
        if model.name == name and model.snapshot_id is not None:
            snapshot = plan.snapshots[model.snapshot_id]
            chosen = units_around(snapshot, model.intervals, ranges)
            if chosen and snapshot.in_order:
                # Whoever asks for a range gets the earlier ones, too, which it stands on.
                upto = Interval(model.intervals.ranges[0].start, chosen.ranges[-1].end)
                chosen = model.intervals & IntervalSet((upto,))
        again = model.catches_up and bool(chosen)
        models.append(replace(model, builds=bool(chosen), intervals=chosen, catches_up=again))
    return replace(plan, models=choose_audits_again(models, plan.snapshots))


@dataclass(frozen=True, slots=True)
class DueRestatement:
    """A restatement that is due after a tick of a model's cron, or after a model's end.

    Args:
        at: The tick that triggers the restatement (UTC).
        last: Number of latest intervals, or None for all filled intervals.
    """

    at: datetime
    last: int | None


@dataclass(frozen=True, slots=True)
class RestatementTick:
    """The latest tick that requires a restatement, and the ranges to restate.

    Args:
        at: Time of the tick (UTC).
        intervals: Ranges of a due restatement that were last filled before its tick.
    """

    at: datetime
    intervals: IntervalSet


def due_restatements(snapshot: Snapshot, now: datetime) -> tuple[DueRestatement, ...]:
    """Return the restatements that a model's cron or its end requires at an instant (UTC)."""
    found = [_after_the_end(snapshot, now)]
    if (cron := snapshot.model.kind.auto_restatement_cron) is not None:
        tick = replace(snapshot.cadence, cron=cron).last_tick(now)
        found.insert(0, DueRestatement(tick, snapshot.model.kind.auto_restatement_intervals))
    return tuple(wish for wish in found if wish is not None)


def _after_the_end(snapshot: Snapshot, now: datetime) -> DueRestatement | None:
    """Return a restatement of a model's last intervals, if the model's end has passed."""
    # After the end no interval becomes due whose lookback would include these intervals, but late
    # rows can still arrive. Models that can only be computed again as a whole are left out.
    kind, cadence = snapshot.model.kind, snapshot.cadence
    end, lookback = snapshot.model.end_at(now), kind.lookback
    if end is None or not lookback or kind.restates_whole or snapshot.in_order:
        return None
    first, due = cadence.unit.ceil(end), cadence.due_until(now)
    if due <= first:
        return None
    left = lookback + 1 - cadence.unit.count(Interval(first, due))
    return DueRestatement(cadence.last_tick(now), left) if left > 0 else None


def restate_since_ticks(
    snapshot: Snapshot,
    filled: IntervalSet,
    asked: Iterable[DueRestatement],
    fills: Iterable[tuple[Interval, datetime]],
) -> RestatementTick:
    """Return the ranges that due restatements fill again, and the latest tick.

    A restatement leaves out ranges that were filled at or after the tick of that restatement.

    Args:
        asked: The model's due restatements, at least one.
        fills: All earlier fills and their times (UTC).
    """
    asked, log = tuple(asked), tuple(fills)
    intervals = IntervalSet()
    for wish in asked:
        newer = IntervalSet.of(interval for interval, at in log if at >= wish.at)
        intervals = intervals | (last_units(snapshot, filled, wish.last) - newer)
    return RestatementTick(max(wish.at for wish in asked), intervals)
