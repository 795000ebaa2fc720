"""Of which columns of which tables digests are worth their while: those that a skip may ask for."""

from __future__ import annotations

from vde_dagster.planning.plan import Plan
from vde_dagster.planning.repeatable import may_be_skipped, why_always
from vde_dagster.planning.resolver import Resolver
from vde_dagster.planning.sources import Columns, tables_read

MOST_SETS = 8
"""With more readers than that, of other columns each, only all columns have a digest."""

MOST_DIGESTS = 32
"""The most that one fill computes; one of more ranges has one digest for all of them."""


def digest_sets(plan: Plan, resolver: Resolver, catalog: str) -> dict[str, tuple[Columns, ...]]:
    """Return the sets of columns that models of a plan read of its tables, by table id.

    All columns together are always one of them, for readers to come. Tables that no model reads
    which may be skipped have none.

    Args:
        plan: The plan.
        resolver: What names stand for in it.
        catalog: The Spark catalog's name.
    """
    target = {name: plan.snapshots[entry.snapshot_id] for name, entry in plan.entries.items()}
    found: dict[str, set[Columns]] = {}
    for snapshot in target.values():
        if not may_be_skipped(snapshot) or why_always(snapshot, target) is not None:
            continue
        for read in tables_read(snapshot, resolver, catalog):
            if not read.external:
                found.setdefault(read.key, set()).add(read.columns)
    return {key: _limited(sets) for key, sets in found.items()}


def _limited(sets: set[Columns]) -> tuple[Columns, ...]:
    some = sorted(columns for columns in sets if columns is not None)
    return (None,) if len(some) >= MOST_SETS else (None, *some)
