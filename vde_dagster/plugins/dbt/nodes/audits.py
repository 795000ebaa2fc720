"""dbt's tests as audits, which run a test's compiled SQL on new rows before publication."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from vde_dagster.api.errors import ProjectError, SourceLocation
from vde_dagster.api.models import Audit
from vde_dagster.api.sql import in_spark
from vde_dagster.api.values import ModelName, quote
from vde_dagster.plugins.dbt.manifest import Node

Render = Callable[[Node, str], tuple[str, dict[ModelName, SourceLocation]]]
"""(test, SQL with `{}` for the test's query) -> (Spark SQL, tables that it reads)."""

_ANY = ("!= 0", "!=0", "> 0", ">0", "<> 0")
_THIS = "@this_model"


def read_audits(
    tests: Sequence[Node], render: Render, dialect: str, trusted: tuple[str, ...]
) -> tuple[tuple[Audit, ...], dict[ModelName, SourceLocation], tuple[str, ...]]:
    """Return tests as audits, the tables that audits read, and descriptions of ignored tests."""
    # A test cannot be read if dbt would query the warehouse to compile it.
    audits: dict[str, Audit] = {}
    reads: dict[ModelName, SourceLocation] = {}
    unread: list[str] = []
    never_null = {_generic_test_column(test, "not_null") for test in tests if _is_proof(test)}
    for test in tests:
        column = _generic_test_column(test, "unique")
        for suffix, form, blocking in _audit_forms(test):
            audit = Audit(test.name + suffix, (), "", blocking)
            if column and column in never_null and _is_proof(test):
                # The other test blocks NULLs, so this query finds the same rows and proves a key.
                audit = replace(audit, query=_unique_query(column))
                read = dict[ModelName, SourceLocation]()
            else:
                try:
                    query, read = render(test, form)
                except ProjectError:
                    name = test.test_metadata.name if test.test_metadata else test.name
                    unread.append(f"tests {name} whose compiled SQL is not a query")
                    break
                audit = replace(audit, query=query, reads=tuple(sorted(read)))
                audit = replace(audit, dialect=dialect, dialect_trust=trusted)
            audits.setdefault(audit.label, audit)
            reads |= read
    return tuple(audits.values()), reads, tuple(unread)


def constraint_audits(node: Node, dialect: str, trusted: frozenset[str]) -> Iterator[Audit]:
    """Yield an audit for each not_null or check constraint of a contract.

    Raises:
        ValueError: An expression is invalid.
    """
    trust = tuple(sorted(trusted))
    yield from not_null_audits(
        [name for name, one in _all_constraints(node) if name and one.get("type") == "not_null"]
    )
    whole = (one for one in node.constraints if one.get("type") == "not_null")
    yield from not_null_audits([str(name) for one in whole for name in one.get("columns") or ()])
    for _, one in _all_constraints(node):
        if one.get("type") == "check" and one.get("expression"):
            condition = in_spark(str(one["expression"]), dialect, trusted)
            query = f"SELECT * FROM {_THIS} WHERE NOT ({condition})"
            arguments = (("constraint", str(one.get("name") or condition)),)
            yield replace(Audit("check", arguments, query), dialect=dialect, dialect_trust=trust)


def read_grains(node: Node) -> tuple[tuple[str, ...], ...]:
    """Return the keys that a contract declares, each as the names of its columns."""
    keys = ("primary_key", "unique")
    whole = [one.get("columns") or () for one in node.constraints if one.get("type") in keys]
    found = [tuple(map(str, columns)) for columns in whole if columns]
    primary = tuple(
        n for n, one in _all_constraints(node) if n and one.get("type") == "primary_key"
    )
    found += [primary] if primary else []
    found += [
        (name,) for name, one in _all_constraints(node) if name and one.get("type") == "unique"
    ]
    return tuple(dict.fromkeys(found))


def _all_constraints(node: Node) -> Iterator[tuple[str, dict[str, Any]]]:
    yield from (("", one) for one in node.constraints)
    yield from ((c.name, one) for c in node.columns.values() for one in c.constraints)


def freshness_audits(node: Node, dialect: str, trusted: frozenset[str]) -> Iterator[Audit]:
    """Yield non-blocking audits that fail if a source's newest rows are too old.

    Raises:
        ValueError: A text is not an expression.
    """
    freshness = node.freshness or {}
    for key in ("warn_after", "error_after"):
        limit = freshness.get(key) or {}
        if not limit.get("count") or not node.loaded_at_field:
            continue
        newest = f"MAX({in_spark(node.loaded_at_field, dialect, trusted)})"
        only = freshness.get("filter")
        where = f" WHERE {in_spark(str(only), dialect, trusted)}" if only else ""
        ago = f"CURRENT_TIMESTAMP() - INTERVAL {int(limit['count'])} {str(limit['period']).upper()}"
        query = (
            f"SELECT {newest} AS loaded_at FROM {_THIS}{where} "
            f"HAVING COALESCE({newest} < {ago}, TRUE)"
        )
        audit = Audit("freshness", (("limit", key),), query, blocking=False)
        yield replace(audit, dialect=dialect, dialect_trust=tuple(sorted(trusted)))


def not_null_audits(columns: Sequence[str]) -> Iterator[Audit]:
    for column in columns:
        query = f"SELECT * FROM {_THIS} WHERE {quote(column)} IS NULL"
        yield Audit("not_null", (("columns", column),), query)


def _unique_query(column: str) -> str:
    name = quote(column)
    return f"SELECT {name}, COUNT(*) AS n_records FROM {_THIS} GROUP BY {name} HAVING COUNT(*) > 1"


def _generic_test_column(test: Node, name: str) -> str | None:
    own = test.test_metadata is not None and test.test_metadata.name == name
    if not own or f"macro.dbt.test_{name}" not in test.depends_on.macros:
        return None
    column = (test.column_name or "").strip('`"')
    return column if column.isidentifier() else None


def _is_proof(test: Node) -> bool:
    """Return whether the test passes only if no row fails."""
    # A filter or a threshold may hide failing rows.
    config = test.config
    thresholds = (str(config.get(key) or _ANY[0]).strip() for key in ("warn_if", "error_if"))
    return (
        str(config.get("severity") or "error").lower() == "error"
        and not config.get("where")
        and str(config.get("fail_calc") or "count(*)") == "count(*)"
        and all(threshold in _ANY for threshold in thresholds)
    )


def _audit_forms(test: Node) -> Iterator[tuple[str, str, bool]]:
    """Yield a test's audits: (suffix of the name, SQL with `{}` for the test, is blocking)."""
    config = test.config
    inner = (
        "{}"
        if not config.get("limit")
        else f"SELECT * FROM ({{}}) AS dbt_rows LIMIT {int(config['limit'])}"
    )
    count = str(config.get("fail_calc") or "count(*)")
    warn, error = (str(config.get(key) or _ANY[0]).strip() for key in ("warn_if", "error_if"))
    fails = str(config.get("severity") or "error").lower() == "error"

    def form(threshold: str) -> str:
        if threshold in _ANY and count == "count(*)":
            return inner
        return (
            f"SELECT * FROM ({inner}) AS dbt_failures "
            f"WHERE (SELECT {count} FROM ({inner}) AS dbt_internal_test) {threshold}"
        )

    if fails:
        yield "", form(error), True
        if warn != error:
            yield "_warning", form(warn), False
    else:
        yield "", form(warn), False
