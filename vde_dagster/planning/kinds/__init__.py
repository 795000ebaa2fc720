"""The kinds of models and their meaning for plans."""

from vde_dagster.planning.kinds.base import Meaning, meaning_of, register
from vde_dagster.planning.kinds.custom import CustomMeaning
from vde_dagster.planning.kinds.incremental import (
    PartitionMeaning,
    TimeRangeMeaning,
    UnmanagedMeaning,
)
from vde_dagster.planning.kinds.scd_type_2 import ScdMeaning
from vde_dagster.planning.kinds.seed import SeedMeaning
from vde_dagster.planning.kinds.simple import (
    AuditMeaning,
    ExternalMeaning,
    QueryMeaning,
    WholeMeaning,
)
from vde_dagster.planning.kinds.unique_key import UniqueKeyMeaning
from vde_dagster.project.kinds import (
    Custom,
    Embedded,
    External,
    Full,
    IncrementalByPartition,
    IncrementalByTimeRange,
    IncrementalByUniqueKey,
    IncrementalUnmanaged,
    ScdType2ByColumn,
    ScdType2ByTime,
    Seed,
    StandaloneAudit,
    View,
)

register(WholeMeaning(), Full)
register(SeedMeaning(), Seed)
register(QueryMeaning(), View, Embedded)
register(ExternalMeaning(), External)
register(AuditMeaning(), StandaloneAudit)
register(TimeRangeMeaning(), IncrementalByTimeRange)
register(UniqueKeyMeaning(), IncrementalByUniqueKey)
register(ScdMeaning(), ScdType2ByTime, ScdType2ByColumn)
register(PartitionMeaning(), IncrementalByPartition)
register(UnmanagedMeaning(), IncrementalUnmanaged)
register(CustomMeaning(), Custom)

__all__ = ["Meaning", "meaning_of", "register"]
