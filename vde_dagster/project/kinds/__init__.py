"""Kinds of models, which define how a model's table is filled."""

from vde_dagster.project.kinds.base import (
    KINDS,
    AddedColumn,
    Kind,
    Property,
    column_properties,
    kind_names,
)
from vde_dagster.project.kinds.custom import Custom
from vde_dagster.project.kinds.incremental import (
    IncrementalByPartition,
    IncrementalByTimeRange,
    IncrementalUnmanaged,
)
from vde_dagster.project.kinds.scd_type_2 import ScdType2, ScdType2ByColumn, ScdType2ByTime
from vde_dagster.project.kinds.seed import Seed
from vde_dagster.project.kinds.simple import Embedded, External, Full, StandaloneAudit, View
from vde_dagster.project.kinds.unique_key import IncrementalByUniqueKey

KINDS.add(Full, View, Embedded, Seed, External, IncrementalByTimeRange, IncrementalByUniqueKey)
KINDS.add(ScdType2ByTime, ScdType2ByColumn)
KINDS.add(IncrementalByPartition, IncrementalUnmanaged, Custom)
KINDS.unwritten["AUDIT"] = StandaloneAudit
