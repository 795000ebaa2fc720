"""Linear references: a table's changed rows determine how the result of the query changes.

A query's reference to a table is linear if the result is the sum, as a multiset, of the results for
each of the table's rows. Then the table's gained and lost rows give the rows that the result gains
and loses, if all other references stay as they are.

- A SELECT without groups, aggregates, windows, DISTINCT and LIMIT returns rows for each combination
  of source rows. WHERE, outputs and generators look at one combination at a time.
- Both sides of an inner or CROSS JOIN are linear, because every combination has one row of each
  side. In a LEFT, RIGHT, SEMI or ANTI JOIN, only the outer side is linear. An added row of the
  other side may change nothing (a second match in a SEMI JOIN), or may replace a row with NULLs
  (the first match in a LEFT JOIN). No side of a FULL JOIN is linear.
- A reference in a subquery of a condition or an output is not linear, because one row of the
  subquery affects all outer rows that match it. Such a subquery may read tables that did not
  change.
- Both branches of a UNION ALL are linear. A linear query over a linear subquery is linear.

Each changed reference has a step, which begins where the previous step ended. The sum of the steps
is the difference of the results. Each step evaluates the other references again, so their rows must
not depend on the order of evaluation: windows that break ties, `first` and LIMIT are refused.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from sqlglot import exp

from vde_dagster.semantics import spark_functions
from vde_dagster.semantics.refresh import refusals
from vde_dagster.semantics.refresh.affected import CHANGED
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, Qualified, find_table_node
from vde_dagster.semantics.refresh.steps import Relation, write_step
from vde_dagster.semantics.refresh.trees import contains_node, is_aggregate
from vde_dagster.sql.trees import used_args

SIGN = "vde_sign"
"""Column of a derived query: 1 for added rows, -1 for removed rows."""
_PLAIN = {"expressions", "from_", "joins", "where", "laterals", "hint", "order"}
_STEADY = (
    *(exp.Count, exp.CountIf, exp.Sum, exp.Min, exp.Max, exp.Avg, exp.LogicalOr, exp.LogicalAnd),
    *(exp.ApproxDistinct, exp.Median, exp.Stddev, exp.StddevPop, exp.StddevSamp, exp.Variance),
    *(exp.VariancePop, exp.BitwiseXorAgg, exp.BitwiseAndAgg, exp.BitwiseOrAgg, exp.Corr),
    *(exp.Rank, exp.DenseRank, exp.PercentRank, exp.CumeDist),
)
"""Aggregates and window functions with one result for any order of the rows."""
_UNSTEADY = spark_functions.ORDERED_AGGREGATE | spark_functions.TIE_BREAKING


@dataclass(frozen=True, slots=True)
class RowStep:
    """A query for the rows that a result gains or loses when one table changes."""

    reading: int
    tree: exp.Query
    query: Qualified

    def write(self, relation: Relation) -> str:
        return write_step(self.tree, self.query, self.reading, relation, "signed")


@dataclass(frozen=True, slots=True)
class RowSteps:
    """Queries that together return the rows that a result gains or loses.

    Args:
        steps: One query for each reference to a changed table.
    """

    steps: tuple[RowStep, ...]

    def write(self, relation: Relation) -> str:
        """Return Spark SQL for the rows, with 1 (gained) or -1 (lost) in `vde_sign`."""
        return " UNION ALL ".join(f"({step.write(relation)})" for step in self.steps)


def find_row_steps(query: Qualified, changed: Collection[str]) -> RowSteps:
    """Derive queries for the rows that a query's result gains or loses after tables changed.

    Raises:
        NotRefreshableError: The result's changes cannot be computed from a table's changed rows.

    >>> from vde_dagster.semantics.refresh.qualified import qualify
    >>> schema = {"o": {"id": "INT", "c": "INT"}, "c": {"id": "INT", "name": "STRING"}}
    >>> query = qualify("SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id", schema)
    >>> find_row_steps(query, ["o"]).write(lambda table, state: f"{state} {table}")
    '(SELECT o.id AS id, `c`.name AS name, `o`.`vde_sign` AS `vde_sign` FROM (signed o) AS `o` \
LEFT JOIN (earlier c) AS `c` ON o.c = c.id)'
    """
    _check_steady(query.tree)
    readings = [number for number, table in enumerate(query.readings) if table in changed]
    if not readings:
        raise NotRefreshableError("the query reads none of the changed tables")
    return RowSteps(tuple(RowStep(one, _with_sign(query, one), query) for one in readings))


def _with_sign(query: Qualified, reading: int) -> exp.Query:
    root = query.tree.copy()
    leaf = find_table_node(root, reading)
    _Signed(leaf).query(root)
    leaf.set("this", exp.to_identifier(CHANGED))
    return root


class _Signed:
    def __init__(self, leaf: exp.Table) -> None:
        self._leaf = leaf

    def query(self, query: exp.Expr) -> None:
        while isinstance(query, exp.Subquery):
            if used_args(query) - {"this", "alias"}:
                raise NotRefreshableError(refusals.NOT_SUPPORTED, query)
            query = query.this
        if isinstance(query, exp.SetOperation):
            self._set_operation(query)
        elif isinstance(query, exp.Select):
            self._select(query)
        else:
            raise NotRefreshableError("a part of the query is not a SELECT", query)

    def _holds(self, part: exp.Expr | None) -> bool:
        return contains_node(part, self._leaf)

    def _set_operation(self, query: exp.SetOperation) -> None:
        if not isinstance(query, exp.Union) or query.args.get("distinct"):
            raise NotRefreshableError("a set operation compares all rows", query)
        if query.args.get("by_name") or query.args.get("on"):
            raise refusals.unsupported_clause_error(query)
        left, right = query.this, query.expression
        branch, other = (left, right) if self._holds(left) else (right, left)
        self.query(branch)
        while isinstance(other, exp.Subquery) and used_args(other) <= {"this"}:
            other = other.this
        # The other branch stays without rows, because it affects the types of the columns.
        empty = exp.Select(
            expressions=[exp.Star(), exp.alias_(exp.Literal.number(0), SIGN, quoted=True)],
            from_=exp.From(
                this=exp.alias_(exp.Subquery(this=other.copy()), "vde_other", table=True)
            ),
            where=exp.Where(this=exp.false()),
        )
        query.set("expression" if branch is left else "this", exp.Subquery(this=empty))

    def _select(self, select: exp.Select) -> None:
        for name in sorted(used_args(select) - _PLAIN):
            part = select.args[name]
            why = _WHY.get(name, refusals.NOT_SUPPORTED)
            raise NotRefreshableError(why, part if isinstance(part, exp.Expr) else select)
        for node in refusals.computed_nodes(select):
            if isinstance(node, exp.Window):
                raise NotRefreshableError("a window compares rows", node)
            if is_aggregate(node):
                raise NotRefreshableError("an aggregate combines several rows into one", node)
        begin = select.args.get("from_")
        if begin is None:
            raise NotRefreshableError("a part of the query reads no table", select)
        alias = begin.this.alias_or_name if self._holds(begin.this) else ""
        for join in select.args.get("joins") or ():
            if used_args(join) - {"this", "side", "kind", "on"}:
                raise NotRefreshableError("a join has a clause other than ON", join)
            if alias and join.side in ("RIGHT", "FULL"):
                raise NotRefreshableError(
                    f"the changed table is on the left side of a {join.side} JOIN", join
                )
            if not self._holds(join.this):
                continue
            if join.side in ("LEFT", "FULL") or join.kind in ("SEMI", "ANTI"):
                kind = join.kind if join.kind in ("SEMI", "ANTI") else join.side
                raise NotRefreshableError(
                    f"the changed table is on the right side of a {kind} JOIN", join
                )
            alias = join.this.alias_or_name
        source = self._source(select, alias)
        sign = exp.column(SIGN, alias, quoted=True)
        if isinstance(source, exp.Subquery):
            self.query(source.this)
            columns = source.args["alias"].args.get("columns")
            if columns:
                columns.append(exp.to_identifier(SIGN, quoted=True))
        select.append("expressions", exp.alias_(sign, SIGN, quoted=True))

    def _source(self, select: exp.Select, alias: str) -> exp.Expr:
        sources = [select.args["from_"].this, *(j.this for j in select.args.get("joins") or ())]
        found = next((one for one in sources if self._holds(one)), None)
        if found is None:
            raise NotRefreshableError("a subquery of an expression reads the changed table", select)
        if found is not self._leaf and not isinstance(found, exp.Subquery):
            raise NotRefreshableError("a lateral query reads the changed table", found)
        if isinstance(found, exp.Subquery) and used_args(found) - {"this", "alias"}:
            raise NotRefreshableError(refusals.NOT_SUPPORTED, found)
        if not alias:
            raise NotRefreshableError("a subquery has no name", found)
        return found


_WHY = {
    "distinct": "DISTINCT compares all rows",
    "group": "the query groups rows",
    "having": "the query groups rows",
    "limit": "the query takes the first rows",
    "offset": "the query takes the first rows",
    "qualify": "a window compares rows",
}
"""Reasons by clause of a SELECT."""


def _check_steady(tree: exp.Expr) -> None:
    """Raise NotRefreshableError if a part of a query depends on the order of rows."""
    for node in tree.walk():
        if isinstance(node, exp.Limit | exp.Fetch | exp.Offset):
            raise NotRefreshableError("the query takes the first rows", node)
        call = node.this if isinstance(node, exp.Window) else node
        while isinstance(call, exp.Filter | exp.IgnoreNulls | exp.RespectNulls):
            call = call.this
        ordered = isinstance(node, exp.AggFunc | exp.Window) and not isinstance(call, _STEADY)
        if isinstance(call, exp.Anonymous):
            ordered = call.name.lower() in _UNSTEADY
        if ordered:
            name = call.sql("spark").partition("(")[0].lower()
            raise NotRefreshableError(f"the result of {name} may depend on the order of rows", node)
        if isinstance(node, exp.WindowSpec) and node.args.get("kind", "").upper() == "ROWS":
            raise NotRefreshableError("a window of ROWS may depend on the order of rows", node)
