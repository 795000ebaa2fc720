"""The dialects that views are written in beside Spark SQL, each with its writer.

Another dialect is a module with two functions like those of `planning.trino`, and a line here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from vde_dagster.planning import trino
from vde_dagster.planning.pinned import PinnedTable
from vde_dagster.planning.table import TableRef


@dataclass(frozen=True, slots=True)
class ViewWriter:
    """How views are written in one dialect.

    Args:
        select: Writes the query that reads a table: from the table, its (output column, physical
            column) in output order, the catalog's name in the dialect, and the state of the table
            to read, or None for what it is.
        query: Translates a query: from Spark SQL, the (column, Spark SQL type) of its result, the
            catalog's name in Spark and that in the dialect; None where the dialect has none.
    """

    select: Callable[[TableRef, Iterable[tuple[str, str]], str, PinnedTable | None], str]
    query: Callable[[str, Iterable[tuple[str, str]], str, str], str | None]


WRITERS: Mapping[str, ViewWriter] = {
    "trino": ViewWriter(trino.trino_select, trino.trino_query),
}
"""By the dialect's name in Iceberg's view metadata, in the order of representations."""
