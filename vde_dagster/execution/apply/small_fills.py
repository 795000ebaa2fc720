"""Fills that read few rows: a new JVM runs them faster without compiling their queries."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.execution.apply.skipping import FillInputs
from vde_dagster.lakehouse.metadata.commit_summaries import rows_at
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.engine_tasks import FillTask

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse

MOST_ROWS = 20_000
_MAKES_ROWS = re.compile(r"\b(range|sequence|recursive|repeat|array_repeat)\b", re.IGNORECASE)


def is_small(lakehouse: Lakehouse, task: FillTask, before: FillInputs) -> bool:
    """Return whether a fill's inputs and table certainly have few rows, by Iceberg's metadata.

    False for Python models, and for queries that can make any number of rows without reading any.
    """
    if task.query is None or _MAKES_ROWS.search(task.query):
        return False
    # An input without a state is no table of this catalog.
    if any(read.key not in before.inputs for read in before.reads):
        return False
    refs = [read.ref for read in before.reads] + [task.table.ref] * task.table.created
    metadata = lakehouse.tables_metadata(refs)
    if any(ref not in metadata for ref in refs):
        return False
    rows = [rows_at(metadata[read.ref], before.inputs[read.key].read_id) for read in before.reads]
    if task.table.created:
        own = metadata[task.table.ref]
        rows.append(rows_at(own, head_of(own, task.table.branch)))
    known = [one for one in rows if one is not None]
    return len(known) == len(rows) and sum(known) <= MOST_ROWS
