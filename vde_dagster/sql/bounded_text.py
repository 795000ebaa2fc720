"""Casts of other dialects to texts of a length, which Spark reads as casts to STRING."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp

_CUTTING = frozenset(
    {"postgres", "redshift", "tsql", "fabric", "mysql", "materialize", "risingwave"}
)
"""Dialects in which such a cast cuts off what is too long."""


def with_cut_texts(tree: exp.Expr, dialect: str) -> exp.Expr:
    """Write `CAST(a AS VARCHAR(5))` as `CAST(a AS STRING)`, cut where the dialect cuts.

    Args:
        tree: A query or statement, which is changed.
        dialect: SQLGlot dialect that it was written in.
    """
    from sqlglot import exp

    bounded = (exp.DType.VARCHAR, exp.DType.NVARCHAR)
    for cast in reversed(list(tree.find_all(exp.Cast))):  # What is inside comes first.
        if cast.to.this not in bounded or not cast.to.expressions:
            continue
        length = cast.to.expressions[0].this
        cast.set("to", exp.DataType.build("string", dialect="spark"))
        if dialect in _CUTTING and isinstance(length, exp.Literal) and cast is not tree:
            made: exp.Expr = exp.Anonymous(this="LEFT", expressions=[cast.copy(), length.copy()])
            if isinstance(cast.parent, exp.Select) and cast.output_name:
                made = exp.alias_(made, cast.output_name, quoted=True)  # A cast keeps the name.
            cast.replace(made)
    return tree
