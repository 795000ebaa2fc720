"""Which of a model's missing intervals may be filled yet: its signals', and what they hold back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.planning.interval import IntervalSet
from vde_dagster.planning.snapshot import Snapshot

Ready = Callable[[Snapshot, IntervalSet], IntervalSet]
"""Returns the part of a model's missing intervals that its signals let pass (whole units)."""


@dataclass(slots=True)
class Readiness:
    """Asks the signals of one plan's models, parents first.

    What a signal holds back holds its children back, too: an incremental model in the same range,
    one that is made whole altogether.

    Args:
        ready: Asks the signals; None lets everything pass.
    """

    ready: Ready | None = None
    held: dict[ModelName, IntervalSet] = field(default_factory=dict)

    def let_pass(self, snapshot: Snapshot, missing: IntervalSet) -> IntervalSet:
        """Return what of a model's missing intervals may be filled.

        Args:
            snapshot: The model; its parents have been asked about before.
            missing: Its missing intervals (UTC).
        """
        held = IntervalSet()
        for parent in snapshot.parents:
            held = held | self.held.get(parent, IntervalSet())
        passing = missing
        if held:
            around = snapshot.cadence.align_outward(held)
            passing = missing - around if snapshot.is_incremental else IntervalSet()
        if passing and snapshot.model.signals and self.ready is not None:
            passing = self.ready(snapshot, passing)
        if passing and snapshot.in_order:
            # What stands on earlier intervals cannot leave one out.
            first = passing.ranges[0]
            at_once = first.start == missing.ranges[0].start
            passing = IntervalSet((first,)) if at_once else IntervalSet()
        kept = (missing - passing) | (held if not snapshot.has_table else IntervalSet())
        if kept:
            self.held[snapshot.name] = kept
        return passing
