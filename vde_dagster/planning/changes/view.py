"""The query of a view that shows how a model came to be what it is."""

from __future__ import annotations

from collections.abc import Sequence

from vde_dagster.base.names import quote
from vde_dagster.planning.changes.columns import ColumnPair
from vde_dagster.planning.changes.query import Step, no_changes, spelled_apart

SUFFIX = "__changes"
"""What the names of such views end with."""


def view_query(
    rows: str | None, pairs: Sequence[ColumnPair], begun: Step, steps: Sequence[str]
) -> str:
    """Write a query that tells a reader of any version how to come to the last one.

    First, under the oldest version that it knows, are a `resync` and all rows of that version as
    inserts. Who has that version or a later one asks for what came after, and reads none of them.

    Args:
        rows: The query that reads the oldest version; None where it showed nothing.
        pairs: The last version's columns, each with the one of the oldest version.
        begun: What is said of the oldest version.
        steps: Queries of the steps since, in the last version's columns.

    >>> view_query(None, [], Step(0, None, 7, None), ["SELECT 1"]).count("UNION ALL")
    1
    """
    last = [pair.after for pair in pairs]
    parts = [no_changes(last, begun, resync=True)]
    if rows is not None:
        listed = ", ".join(
            f"CAST({'NULL' if one.before is None else quote(one.before.name)} AS {one.after.type}) "
            f"AS {quote(one.after.name)}"
            for one in pairs
        )
        insert = begun.marks(chr(39) + "insert" + chr(39))
        parts.append(f"SELECT {insert}, {listed} FROM ({rows}) AS begun")
    return spelled_apart(" UNION ALL ".join([*parts, *steps]))
