"""What each kind of model means for plans."""

from vde_dagster.planning.kinds.base import Meaning, meaning_of, register
from vde_dagster.planning.kinds.incremental import TimeRange, UniqueKey
from vde_dagster.planning.kinds.queries import Outside, Query
from vde_dagster.planning.kinds.whole import SeedFile, Whole
from vde_dagster.project.kinds import (
    Embedded,
    External,
    Full,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    Seed,
    View,
)

register(Whole(), Full)
register(SeedFile(), Seed)
register(Query(), View, Embedded)
register(Outside(), External)
register(TimeRange(), IncrementalByTimeRange)
register(UniqueKey(), IncrementalByUniqueKey)

__all__ = ["Meaning", "meaning_of", "register"]
