"""Rewritings of whole queries that keep their rows on any data, before they are hashed.

Lineage, keys and types are read from the query as it was written; only its hash is of this form.
"""

from __future__ import annotations

from vde_dagster.semantics.algebra.nodes import Rel, Terms
from vde_dagster.semantics.simplify.empty_relations import drop_empty
from vde_dagster.semantics.simplify.existence import (
    ask_before_grouping,
    joins_as_exists,
    tests_as_exists,
)
from vde_dagster.semantics.simplify.expressions import simplify_expressions
from vde_dagster.semantics.simplify.filters import move_filters, put_constants, use_presence
from vde_dagster.semantics.simplify.joins import merge_readings, strengthen_joins, weaken_full_joins
from vde_dagster.semantics.simplify.nested_queries import (
    ask_without_limits,
    drop_groupings,
    drop_groupings_of_sets,
    flatten_set_operations,
    keep_failing_sorts,
    merge_limits,
)
from vde_dagster.semantics.simplify.parts import Parts
from vde_dagster.semantics.simplify.totals import merge_totals


def simplify(rel: Rel, terms: Terms) -> None:
    """Bring a query that is read to the end into the form that is hashed, in place."""
    parts = Parts.of(rel, terms)
    drop_empty(parts, said=True)
    ask_without_limits(parts)
    simplify_expressions(parts)
    weaken_full_joins(parts)
    strengthen_joins(parts)
    tests_as_exists(parts)
    drop_groupings(parts)
    flatten_set_operations(parts)
    merge_readings(parts)
    merge_totals(parts)
    move_filters(parts)
    ask_before_grouping(parts)
    drop_groupings_of_sets(joins_as_exists(parts), parts)
    put_constants(parts)
    use_presence(parts)
    drop_empty(parts, said=False)
    merge_limits(parts)
    keep_failing_sorts(parts)
