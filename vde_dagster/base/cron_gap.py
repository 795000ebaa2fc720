"""How long it is between two ticks of a cron expression."""

from __future__ import annotations

import functools
import itertools
from datetime import datetime, timezone


@functools.cache
def shortest_gap(cron: str) -> float:
    """Return the shortest time between the first ticks of 2024, in seconds.

    Args:
        cron: Five fields.
    """
    from croniter import croniter  # Not every command asks for ticks.

    ticks = croniter(cron, datetime(2023, 12, 31, tzinfo=timezone.utc))
    moments = [ticks.get_next(datetime) for _ in range(6)]
    return float(min((b - a).total_seconds() for a, b in itertools.pairwise(moments)))
