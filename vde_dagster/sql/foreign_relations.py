"""Relations of other dialects as Spark has them: APPLY, STRING_SPLIT, and DuckDB's COLUMNS."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot import exp


def with_spark_relations(tree: exp.Expr) -> str | None:
    """Write relations in their Spark form, in place.

    Args:
        tree: A query or statement, which is changed.

    Returns:
        None; or what it is in there that has no form in Spark.
    """
    from sqlglot import exp

    wanted = (exp.Join, exp.Anonymous, exp.Columns, exp.JSONTable, exp.Select, exp.ReadParquet)
    for node in list(tree.find_all(*wanted)):
        if isinstance(node, exp.JSONTable):
            return "JSON_TABLE"
        if isinstance(node, exp.ReadParquet) and len(node.expressions) > 1:
            return "READ_PARQUET with options"
        if isinstance(node, exp.Select):
            if not node.expressions and not node.args.get("kind"):
                node.select(exp.Literal.number(1), copy=False)  # Rows without columns.
        elif isinstance(node, exp.Join):
            _apply(node)
        elif isinstance(node, exp.Columns):
            if not _is_star(node):
                return "COLUMNS(…)"
            node.replace(node.this)
        elif (
            isinstance(node, exp.Anonymous)
            and isinstance(node.parent, exp.Lateral | exp.Table)
            and node.name.upper() == "STRING_SPLIT"
        ):
            if len(node.expressions) != 2:
                return "STRING_SPLIT with ordinals"
            _split(node)
    return None


def _apply(join: exp.Join) -> None:
    """Write CROSS APPLY and OUTER APPLY as joins to LATERAL subqueries."""
    from sqlglot import exp

    lateral = join.this
    if not isinstance(lateral, exp.Lateral) or lateral.args.get("cross_apply") is None:
        return
    if lateral.args["cross_apply"]:
        join.set("kind", "CROSS")
    else:
        join.set("side", "LEFT")
        join.set("on", exp.true())
    lateral.set("cross_apply", None)


def _split(call: exp.Anonymous) -> None:
    """Write STRING_SPLIT as the rows of SPLIT; no text has no rows in both."""
    from sqlglot import exp

    text, separator = call.expressions
    parts = exp.Explode(this=exp.Split(this=text, expression=separator))
    rows = exp.Select(expressions=[exp.alias_(parts, "value")]).subquery()
    relation = call.parent
    if isinstance(relation, exp.Table):
        rows.set("alias", relation.args.get("alias"))
        relation.replace(rows)
    else:
        call.replace(rows)


def _is_star(columns: exp.Columns) -> bool:
    """Say whether COLUMNS(*) stands where a plain star means the same."""
    from sqlglot import exp

    if not isinstance(columns.this, exp.Star) or columns.this.args.get("except_"):
        return False
    if columns.args.get("unpack"):
        # Others are written with something around each argument, which here is all of them.
        return isinstance(columns.parent, exp.Struct | exp.Coalesce)
    return isinstance(columns.parent, exp.Select)
