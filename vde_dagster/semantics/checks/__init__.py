"""Checks for mistakes in bound queries. A check never changes a query's version.

A query is reported as refused only if Spark certainly refuses it. Unknown types are reported only
in translated queries. `vde_dagster_tests/spark/test_mistakes_on_spark.py` verifies this.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from vde_dagster.semantics.binding.binder import Binder
from vde_dagster.semantics.checks.expressions import CROSSED, expression_findings
from vde_dagster.semantics.checks.interval_filters import interval_filter_findings
from vde_dagster.semantics.checks.operands import Origin
from vde_dagster.semantics.checks.other_dialects import dialect_findings
from vde_dagster.semantics.checks.queries import make_finding, output_findings, ungrouped_findings
from vde_dagster.semantics.checks.refused_forms import refused_forms
from vde_dagster.semantics.errors import Finding, mistake_offset


def find_mistakes(
    tree: exp.Expr, binder: Binder, outputs: Sequence[str] | None, origin: Origin
) -> tuple[Finding, ...]:
    """Run all checks on a bound query, and return the mistakes that they find.

    Args:
        outputs: The names of the query's output columns, or None if they are unknown.
        origin: The dialect that the query was translated from.
    """
    found: dict[Finding, None] = {}
    for noted in binder.noted:
        if noted.rule == "ungrouped":
            found.update(dict.fromkeys(ungrouped_findings(binder, noted)))
        else:
            found[make_finding(noted, binder)] = None
    parts = [part for part in tree.walk() if part.__class__ not in _WITHOUT_CHECKS]
    found.update(dict.fromkeys(refused_forms(parts)))
    found.update(dict.fromkeys(output_findings(tree, outputs)))
    found.update(dict.fromkeys(expression_findings(parts)))
    found.update(dict.fromkeys(interval_filter_findings(parts)))
    found.update(dict.fromkeys(dialect_findings(parts, origin)))
    return tuple(sorted(found, key=lambda one: (one.line or 0, one.column or 0)))


_WITHOUT_CHECKS = frozenset({exp.Identifier, exp.Column})
"""Classes of most nodes of a query, which no check examines."""


def is_in_written_query(one: Finding, query: str) -> bool:
    """Return False for a finding about a comma in FROM if the text has CROSS JOIN in its place."""
    # A finding about a join by a comma does not hold for CROSS JOIN, which has the same tree.
    offset = mistake_offset(query, one)
    return one.rule != CROSSED or (offset is not None and query[:offset].rstrip().endswith(","))
