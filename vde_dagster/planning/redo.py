"""What of a table has to be computed again when rows that it is made of were."""

from __future__ import annotations

from typing import NamedTuple

from vde_dagster.planning.cadence import EPOCH, FAR
from vde_dagster.planning.interval import Interval, IntervalSet
from vde_dagster.planning.kinds import meaning_of
from vde_dagster.planning.missing import last_slot
from vde_dagster.planning.snapshot import Snapshot

EVERYTHING = IntervalSet((Interval(EPOCH, FAR),))


class Redo(NamedTuple):
    """What a change of rows asks of a table that is made of them.

    Args:
        intervals: What of the table has to be computed again (UTC).
        changed: Where its own readers see other rows then (UTC).
        widened: Why that is more than whole intervals around the change, or "".
    """

    intervals: IntervalSet
    changed: IntervalSet
    widened: str = ""


NOTHING = Redo(IntervalSet(), IntervalSet())


def redo(snapshot: Snapshot, filled: IntervalSet, changed: IntervalSet) -> Redo:
    """Say what of a table follows a change of what it is made of.

    Nothing beyond what is filled ever does. A table that is made whole is made again whole, into
    the slot that it filled last, and passes the change on as it came: its readers' other ranges
    are as true as they are after every run. A table whose rows stand on its earlier ones follows
    to its end; one that keeps no rows by interval can only be made again from its beginning.

    Args:
        snapshot: The definition that fills the table.
        filled: What the table holds (UTC).
        changed: Where rows of its parents, or of itself, are others (UTC).
    """
    kind = snapshot.model.kind
    if not changed or not filled or meaning_of(kind).filled_once:
        return NOTHING
    cadence = snapshot.cadence
    if not snapshot.is_incremental:
        return Redo(IntervalSet((last_slot(snapshot, filled),)), changed)
    whole = cadence.align_outward(changed & _around(filled, snapshot)) & filled
    if not whole:
        return NOTHING
    if kind.restates_whole:
        why = f"kind {kind.name} can only be computed again from its beginning"
        return Redo(filled, whole, why if filled - whole else "")
    if snapshot.in_order:
        rest = IntervalSet((Interval(whole.ranges[0].start, FAR),))
        after = rest & filled
        return Redo(after, rest, "its rows stand on its earlier ones" if after - whole else "")
    return Redo(whole, whole)


def _around(filled: IntervalSet, snapshot: Snapshot) -> IntervalSet:
    """Return the hull of what is filled: years far from it are not to be aligned."""
    first, last = filled.ranges[0].start, filled.ranges[-1].end
    outward = snapshot.cadence.align_outward(IntervalSet((Interval(first, last),)))
    return outward
