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


def is_small(lakehouse: Lakehouse, task: FillTask, looked: FillInputs) -> bool:
    """Return whether a fill's inputs and table certainly have few rows, by Iceberg's metadata.

    False for Python models, and for queries that can make any number of rows without reading any.
    """
    if task.query is None or _MAKES_ROWS.search(task.query):
        return False
    rows = 0
    for read in looked.reads:
        state = looked.inputs.get(read.key)
        if state is None:
            return False
        found = rows_at(lakehouse.table_metadata(read.ref), state.read_id)
        if found is None:
            return False
        rows += found
    if task.table.created:
        metadata = lakehouse.table_metadata(task.table.ref)
        found = rows_at(metadata, head_of(metadata, task.table.branch))
        if found is None:
            return False
        rows += found
    return rows <= MOST_ROWS
