"""Every check of a model, one after the other."""

from __future__ import annotations

from collections.abc import Mapping

from vde_dagster.base.names import ModelName
from vde_dagster.planning.checks.audits import audited_columns
from vde_dagster.planning.checks.filling import (
    commits_of,
    parts_of_partitions,
    reads_itself,
    unfiltered,
)
from vde_dagster.planning.checks.grammar import refused_by_spark
from vde_dagster.planning.checks.idle import idle_properties, idle_stages, idle_statements
from vde_dagster.planning.checks.known import Known
from vde_dagster.planning.checks.merges import merged_again, merged_values
from vde_dagster.planning.checks.named_columns import named_columns, transforms, undeclared
from vde_dagster.planning.checks.queries import double_quoted, query_problems
from vde_dagster.planning.checks.time_columns import read_in_other_zone, time_columns
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.problem import Problem

_CHECKS = (
    refused_by_spark,
    query_problems,
    double_quoted,
    named_columns,
    transforms,
    undeclared,
    audited_columns,
    reads_itself,
    unfiltered,
    parts_of_partitions,
    time_columns,
    read_in_other_zone,
    merged_values,
    merged_again,
    commits_of,
    idle_properties,
    idle_statements,
    idle_stages,
)


def check_model(known: Known, parents: Mapping[ModelName, Snapshot]) -> tuple[Problem, ...]:
    """Look for mistakes in one model.

    Args:
        known: The model and what is known of it.
        parents: The snapshots of what it reads.
    """
    found = [problem for check in _CHECKS for problem in check(known, parents)]
    return tuple(sorted(dict.fromkeys(found), key=lambda one: one.location.order))
