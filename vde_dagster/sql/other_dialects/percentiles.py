"""Rewrites of percentiles of DuckDB and PostgreSQL to Spark's function PERCENTILE.

SQLGlot (30.30) writes `percentile_cont` as `percentile_approx`, which does not interpolate. In
Spark and PostgreSQL the result is a DOUBLE. In DuckDB it has the argument's type, except for
integers, and is rounded for a DECIMAL, so only integers and DOUBLE are accepted.

Sources: PostgreSQL's manual 9.21, table 9.62; DuckDB 1.4 itself.
"""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from vde_dagster.sql.other_dialects.building import call

_SAME_TYPE = ("tinyint", "smallint", "int", "bigint", "double")
_REFUSED = "percentile_cont of duckdb is translated only for integers and DOUBLE: cast its sort key"


def can_rewrite(node: exp.Expr, dialect: str) -> bool:
    if not isinstance(node, exp.PercentileCont):
        return False
    ordered, fraction = _sort_key(node), _fraction(node)
    is_called_so = dialect == "duckdb" or node.args.get("expression") is None
    return (
        dialect in ("duckdb", "postgres")
        and is_called_so
        and ordered is not None
        and isinstance(fraction, exp.Literal)
        and not fraction.is_string
    )


def rewrite_percentile(node: exp.Expr, dialect: str) -> exp.Expr | None:
    """Rewrite `percentile_cont(p) WITHIN GROUP (ORDER BY x)` or DuckDB's `quantile_cont(x, p)`."""
    inner = node.this if isinstance(node, exp.WithinGroup) else node
    if isinstance(node.parent, exp.WithinGroup) or not isinstance(inner, exp.PercentileCont):
        return None
    if not can_rewrite(inner, dialect):
        return None
    ordered, fraction = _sort_key(inner), _fraction(inner)
    assert ordered is not None
    assert fraction is not None
    # NULLS FIRST and NULLS LAST are dropped, because all engines ignore NULLs in percentiles.
    value, share = ordered.this.copy(), Decimal(fraction.name)
    if dialect == "duckdb":
        types = [exp.Literal.string(name) for name in _SAME_TYPE]
        known = exp.In(this=call("TYPEOF", value), expressions=types)
        refused = call("RAISE_ERROR", exp.Literal.string(_REFUSED))
        value = call("IF", known, value, refused)
    if ordered.args.get("desc"):
        share = 1 - share
    return exp.Quantile(this=value, quantile=exp.Literal.number(str(share)))


def _sort_key(node: exp.PercentileCont) -> exp.Ordered | None:
    if node.args.get("expression") is not None:
        return exp.Ordered(this=node.this)
    group = node.parent
    orders = group.expression.expressions if isinstance(group, exp.WithinGroup) else []
    return orders[0] if len(orders) == 1 else None


def _fraction(node: exp.PercentileCont) -> exp.Expr | None:
    fraction: exp.Expr | None = node.args.get("expression") or node.this
    return fraction
