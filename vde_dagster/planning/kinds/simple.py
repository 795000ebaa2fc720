"""Rules of kinds without increments: FULL, VIEW, EMBEDDED, EXTERNAL and standalone audits."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from vde_dagster.base.hashing import digest
from vde_dagster.planning.kinds.base import Meaning, meaning_for
from vde_dagster.project.kinds import Embedded, External, Full, StandaloneAudit, View
from vde_dagster.project.model import Model
from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version

if TYPE_CHECKING:
    from sqlglot import exp


class WholeMeaning(Meaning):
    """Rules of a table that is written as a whole."""

    # Its blocking audits check all of its rows.
    replaces_all = True

    def unique_keys(self, model: Model, version: SemanticVersion) -> tuple[frozenset[str], ...]:
        """Return the keys that the query makes unique, and those that a blocking audit checks."""
        return tuple(dict.fromkeys((*version.unique_keys, *audited_keys(model))))


@meaning_for(Full)
class FullMeaning(WholeMeaning):
    # Fills may compute only the rows of changed keys.
    def refreshes(self, model: Model) -> bool:
        return model.python is None and Full.from_model(model).refresh != "whole"

    def chooses(self, model: Model) -> bool:
        return Full.from_model(model).refresh == "auto"

    def metadata(self, model: Model) -> list[str | None]:
        # The method does not affect the rows. Models that were stored without it keep their hash.
        refresh = Full.from_model(model).refresh
        is_code = model.python is not None and refresh == "auto"  # It always computes all rows.
        return ["refresh", refresh] if refresh != "whole" and not is_code else []


@meaning_for(View, Embedded)
class QueryMeaning(Meaning):
    """Rules for kinds without a table, whose query is inlined into the models that read them."""

    def fill(self, model: Model, rows: str) -> str:
        # A query has no table, so no fill settings are hashed.
        return digest("query", rows)


@meaning_for(External)
class ExternalMeaning(QueryMeaning):
    # Only its name and its column types are known.
    def standalone_version(self, model: Model) -> SemanticVersion:
        return leaf_version(
            ".".join(model.table) or str(model.name),
            {c.name: c.type or "UNKNOWN" for c in model.columns},
        )


@meaning_for(StandaloneAudit)
class AuditMeaning(QueryMeaning):
    # No model reads an audit, so all its properties are metadata.
    def standalone_version(self, model: Model) -> SemanticVersion:
        return SemanticVersion(rows=digest("audit"), columns={}, opaque=None)

    def metadata(self, model: Model) -> list[str | None]:
        return ["standalone", *map(str, model.depends_on), *model.marks]


_ALLOWED = frozenset({"expressions", "from_", "group", "having"})
"""Clauses that an audit's query may have; others, such as WHERE, would leave out rows."""


def audited_keys(model: Model) -> Iterator[frozenset[str]]:
    """Yield the sets of columns that a blocking audit proves to be unique."""
    for audit in model.audits:
        if audit.blocking:
            yield from proven_keys(audit.query)


@lru_cache(maxsize=4096)
def proven_keys(query: str) -> tuple[frozenset[str], ...]:
    """Return the column sets (in lower case) that are unique if the audit `query` finds no rows."""
    # Recognized are queries like the built-in uniqueness audits. They return groups with more than
    # one row, over all rows of `@this_model`. UNION ALL combines several sets of columns.
    if "HAVING" not in query.upper():
        return ()
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import read_query

    try:
        tree = read_query(query).tree
    except SqlglotError:
        return ()
    keys = [_key(select) for select in _selects(tree)]
    return tuple(key for key in keys if key)


def _selects(tree: exp.Expr) -> list[exp.Expr]:
    from sqlglot import exp

    if isinstance(tree, exp.Union):
        plain = _filled_args(tree) <= {"this", "expression"} and tree.args.get("distinct") is False
        return [*_selects(tree.this), *_selects(tree.expression)] if plain else []
    return [tree]


def _key(select: exp.Expr) -> frozenset[str]:
    """Return the columns that an audit's SELECT proves to be unique; empty if it proves nothing."""
    from sqlglot import exp

    if not isinstance(select, exp.Select):
        return frozenset()
    group, having = select.args.get("group"), select.args.get("having")
    if _filled_args(select) - _ALLOWED or not group or _filled_args(group) != {"expressions"}:
        return frozenset()
    if not _reads_the_model(select) or not having or not _is_repeated(having.this):
        return frozenset()
    columns = group.expressions
    if not all(isinstance(c, exp.Column) and not c.args.get("table") for c in columns):
        return frozenset()
    proves = all(_is_one_value(expression.unalias()) for expression in select.expressions)
    return frozenset(column.name.lower() for column in columns) if proves else frozenset()


def _filled_args(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _is_one_value(expression: exp.Expr) -> bool:
    """Return whether an output column certainly has only one value in each group."""
    from sqlglot import exp

    if isinstance(expression, exp.Cast):
        expression = expression.this
    if _counts_rows(expression):
        return True
    return isinstance(expression, exp.Column | exp.Literal)


def _counts_rows(expression: exp.Expr) -> bool:
    from sqlglot import exp

    from vde_dagster.sql.reading import call_name

    counted = expression.expressions
    return (
        call_name(expression) == "count"
        and len(counted) == 1
        and isinstance(counted[0], exp.Star)
        and not _filled_args(counted[0])
    )


def _reads_the_model(select: exp.Select) -> bool:
    from sqlglot import exp

    source = select.args.get("from_")
    table = source.this if source else None
    if not isinstance(table, exp.Table) or _filled_args(table) != {"this"}:
        return False
    return isinstance(table.this, exp.Parameter) and table.this.name.lower() == "this_model"


def _is_repeated(condition: exp.Expr) -> bool:
    from sqlglot import exp

    return (
        isinstance(condition, exp.GT)
        and _counts_rows(condition.this)
        and isinstance(condition.expression, exp.Literal)
        and condition.expression.sql() == "1"
    )
