"""For how long things are kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long things are kept.

    Args:
        history_versions: The most definitions of an environment that are kept for a rollback:
            what it showed, in models and tables. Runs that only fill make versions, and none.
        history: How long a version is kept after another replaced it.
        grace: How long anything is kept after the last use of it ended; has to be longer than
            the longest run.
        cap: The largest share of all tables that may be given up at once.
        cap_floor: So many may be given up at once whatever their share.
        orphan_grace: How long a data file is kept that was written and never committed; has to
            be longer than the longest run.
        orphan_cap: The most such files that are deleted at once.
    """

    history_versions: int = 50
    history: timedelta = timedelta(days=30)
    grace: timedelta = timedelta(hours=24)
    cap: float = 0.5
    cap_floor: int = 10
    orphan_grace: timedelta = timedelta(hours=72)
    orphan_cap: int = 10_000

    @property
    def uncommitted_grace(self) -> timedelta:
        """The age from which nobody can commit a data file any more."""
        return max(self.orphan_grace, self.grace)
