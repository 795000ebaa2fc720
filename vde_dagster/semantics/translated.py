"""Checks of operators in translated audits, statements, keys and tests.

Operators in a model's query are checked during its analysis instead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from vde_dagster.semantics._sqlglot import parse
from vde_dagster.semantics.analysis import Schema, analyze
from vde_dagster.semantics.checks.operands import RULE, Origin
from vde_dagster.semantics.checks.other_dialects import dialect_findings
from vde_dagster.semantics.errors import Finding, SemanticError
from vde_dagster.sql.other_dialects import SPARKS
from vde_dagster.sql.other_dialects.writing import query_sql


def find_operators(
    text: str, schema: Schema, origin: Origin, functions: Collection[str] = ()
) -> tuple[Finding, ...]:
    """Report operators of another dialect whose result may differ on Spark.

    Args:
        text: Spark SQL of a query or a statement; a text that cannot be parsed has no findings.
        functions: User functions in addition to Spark's own.
    """
    if origin.dialect in SPARKS:
        return ()
    try:
        tree = parse(text)
    except SemanticError:
        return ()
    found: dict[str, Finding] = {}
    queries = list(_outermost_queries(tree))
    for query in queries:
        sql = text if query is tree else query_sql(query)
        for one in _in_query(sql, schema, origin, functions):
            found.setdefault(one.message, one)
    inside = {id(node) for query in queries for node in query.walk()}
    for one in dialect_findings((n for n in tree.walk() if id(n) not in inside), origin):
        found.setdefault(one.message, one)
    return tuple(found.values())


def _in_query(
    sql: str, schema: Schema, origin: Origin, functions: Collection[str]
) -> Iterator[Finding]:
    try:
        findings = analyze(sql, schema, functions=functions, origin=origin).findings
    except SemanticError:
        findings = tuple(dialect_findings(parse(sql).walk(), origin))
    return (one for one in findings if one.rule == RULE)


def _outermost_queries(tree: exp.Expr) -> Iterator[exp.Query]:
    if isinstance(tree, exp.Query):
        yield tree
        return
    for child in tree.iter_expressions():
        yield from _outermost_queries(child)
