"""Aggregates whose new value can be computed from the old value and the changed rows.

`linear` derives the added and removed rows before grouping. The table has each group's old
aggregates, which are updated as follows:

- `count` adds 1 for each added row, and -1 for each removed row.
- `sum` of integers and decimals adds the added values, and subtracts the removed values. Their
  addition is exact, so the order of the rows does not matter. If a sum overflows, Spark raises an
  error; with ANSI off, integers wrap around, and the result is the same in any order. Sums of
  floats are refused, because they depend on the order. A sum is NULL if no value is left, so if
  rows were removed, a count of the same values must be among the outputs.
- `min`, `max`, `bool_and` and `bool_or` combine the old value with the added values. They are
  refused if rows were removed.
- A group ends when its last row is removed, so `count(*)` must be among the outputs if rows were
  removed. A query without GROUP BY always has one row.

A query without GROUP BY has no key, so single groups cannot be computed again. Therefore two more
cases are accepted. If the table's row does not determine the new value at run time, the whole query
is computed.

- A sum after rows were removed, without a count of its values: if the new sum is not 0, values are
  left, so the sum is not NULL.
- A `max` after rows were removed: if all removed values are less than the new value, a row with the
  new value is left. `min`, `bool_and` and `bool_or` are treated in the same way.

Queries with HAVING, DISTINCT or expressions over aggregates are refused.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from sqlglot import exp

from vde_dagster.base.names import quote
from vde_dagster.semantics.refresh.linear import SIGN, RowSteps, find_row_steps
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, Qualified
from vde_dagster.semantics.refresh.refusals import ONE_SET, SEVERAL_SETS
from vde_dagster.semantics.refresh.steps import Relation
from vde_dagster.semantics.refresh.trees import has_exact_equality
from vde_dagster.sql.trees import used_args

Merge = Literal["sum", "min", "max"]
_PLAIN = {"expressions", "from_", "joins", "where", "group", "laterals", "hint", "order"}
_INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
_EXTREMES: dict[type[exp.Expr], Merge] = {
    exp.Max: "max",
    exp.LogicalOr: "max",
    exp.Min: "min",
    exp.LogicalAnd: "min",
}


@dataclass(frozen=True, slots=True)
class MergeableAggregate:
    """An aggregate column whose new value follows from its old value and the changed rows.

    Args:
        column: The output column, in lower case.
        merge: Aggregate function that combines the old value with the values of changed rows.
        counts: Whether the aggregate is a count.
        counted: For a sum, the output column that counts the same values; empty if missing.
        open: Whether some changes leave the new value unknown; then the whole query is computed.
    """

    column: str
    merge: Merge
    counts: bool
    counted: str
    type: str
    # A sum is then unknown if it is 0. A `max` is unknown if it is at most as great as a removed
    # value, and a `min` is unknown if it is at least as great as a removed value.
    open: bool = False

    @property
    def removed_values_column(self) -> str:
        """Column with the removed values of an open `max` or `min`; empty for other aggregates."""
        return f"vde_went_{self.column}" if self.open and self.merge != "sum" else ""


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """Queries that compute how changed rows change the aggregates of each group.

    Args:
        key: Output columns that the query groups by, in lower case; empty without GROUP BY.
        count: The output column with `count(*)`; empty if missing.
        values: Spark SQL of the value that one row of `rows` contributes, by output column.
    """

    key: tuple[str, ...]
    totals: tuple[MergeableAggregate, ...]
    count: str
    rows: RowSteps
    values: Mapping[str, str]

    def write(self, relation: Relation) -> str:
        """Return a query with one row per changed row: the group's key, and the values to merge."""
        listed = ", ".join(f"{value} AS {quote(name)}" for name, value in self.values.items())
        return f"SELECT {listed} FROM ({self.rows.write(relation)}) AS changed"


def find_group_steps(
    query: Qualified, changed: Collection[str], *, only_added: bool, types: Mapping[str, str]
) -> GroupSteps:
    """Derive queries for the values that changed rows contribute to a query's groups.

    Args:
        only_added: Whether the changed tables only gained rows.
        types: Column types of the table that stores the result, by lower-case name.

    Raises:
        NotRefreshableError: An aggregate's new value cannot be computed from its old value and the
            changes.

    >>> from vde_dagster.semantics.refresh.qualified import qualify
    >>> query = qualify("SELECT c, sum(n) AS n FROM o GROUP BY c", {"o": {"c": "INT", "n": "INT"}})
    >>> find_group_steps(query, ["o"], only_added=True, types={"c": "INT", "n": "BIGINT"}).values
    {'c': '`c`', 'n': 'CAST(IF(vde_sign > 0, CAST(`vde_0` AS BIGINT), -CAST(`vde_0` AS BIGINT)) AS BIGINT)'}
    """  # noqa: E501
    made = _Groups(query, only_added, types)
    return replace(made.steps(), rows=find_row_steps(made.before_grouping(), changed))


class _Groups:
    def __init__(self, query: Qualified, only_added: bool, types: Mapping[str, str]) -> None:
        tree = query.tree
        if not isinstance(tree, exp.Select):
            raise NotRefreshableError("the query is not a single SELECT", tree)
        for clause in sorted(used_args(tree) - _PLAIN):
            part = tree.args[clause]
            part = part if isinstance(part, exp.Expr) else tree
            raise NotRefreshableError("groups cannot be merged because of a clause", part)
        group = tree.args.get("group")
        if group is not None and used_args(group) - {"expressions"}:
            raise NotRefreshableError(SEVERAL_SETS, group, ONE_SET)
        self._query, self._tree, self._only_added = query, tree, only_added
        self._by: list[exp.Expr] = group.expressions if group is not None else []
        self._types = {name.lower(): type_ for name, type_ in query.types(tree).items()}
        self._stored = types
        self._inner: dict[str, exp.Expr] = {}
        self._inner_types: Mapping[str, str] = {}

    def before_grouping(self) -> Qualified:
        """Return a query for the keys and the aggregates' arguments, without GROUP BY."""
        tree = self._tree.copy()
        for clause in ("group", "order"):
            tree.set(clause, None)
        listed = [exp.alias_(one.copy(), name, quoted=True) for name, one in self._inner.items()]
        tree.set("expressions", listed or [exp.alias_(exp.Literal.number(1), "one")])
        return Qualified(tree, self._query.readings, self._query.schema)

    def steps(self) -> GroupSteps:
        # The caller adds the rows.
        key: list[str] = []
        found: list[tuple[str, exp.Expr, exp.Expr | None]] = []
        for output in self._tree.selects:
            name, value = output.alias_or_name.lower(), output.unalias()
            if value in self._by:
                self._inner[name] = value
                key.append(name)
                if not has_exact_equality(self._types.get(name, "")):
                    raise NotRefreshableError(f"groups cannot be compared by {name}")
            else:
                found.append((name, *_argument(value)))
            if _written(self._types.get(name, "?")) != _written(self._stored.get(name, "")):
                raise NotRefreshableError(
                    f"the stored table and the query have different types for {name}"
                )
        if not found:
            raise NotRefreshableError("the query has no aggregate")
        if any(all(one != self._inner[name] for name in key) for one in self._by):
            raise NotRefreshableError("the query does not return all columns that it groups by")
        if len({*key, *(name for name, *_ in found)}) < len(self._tree.selects):
            raise NotRefreshableError("two output columns have the same name")
        for number, (_, _, argument) in enumerate(found):
            if argument is not None:
                self._inner[f"vde_{number}"] = argument
        self._inner_types = self._query.types(self.before_grouping().tree)
        counted = {argument: name for name, call, argument in found if isinstance(call, exp.Count)}
        values = {name: quote(name) for name in key}
        totals = []
        for number, (name, call, argument) in enumerate(found):
            totals.append(self._total(name, call, argument, counted))
            values |= self._values(totals[-1], call, argument, f"vde_{number}")
        rows = counted.get(None, "")
        if not self._only_added and self._by and not rows:
            raise NotRefreshableError("rows were removed, and count(*) is not among the outputs")
        return GroupSteps(tuple(key), tuple(totals), rows, RowSteps(()), values)

    def _total(
        self,
        name: str,
        call: exp.Expr,
        argument: exp.Expr | None,
        counted: Mapping[exp.Expr | None, str],
    ) -> MergeableAggregate:
        type_ = self._types.get(name, "")
        if isinstance(call, exp.Count):
            return MergeableAggregate(name, "sum", True, "", type_)
        if isinstance(call, exp.Sum):
            open_ = not self._only_added and argument not in counted
            if open_ and self._by:
                raise NotRefreshableError(
                    f"rows were removed, and no output counts the values summed in {name}"
                )
            return MergeableAggregate(name, "sum", False, counted.get(argument, ""), type_, open_)
        if not self._only_added and self._by:
            raise NotRefreshableError(f"rows were removed, and {name} may come from a removed row")
        if not has_exact_equality(type_):
            raise NotRefreshableError(f"values of {name} cannot be compared")
        return MergeableAggregate(
            name, _EXTREMES[type(call)], False, "", type_, not self._only_added
        )

    def _values(
        self, total: MergeableAggregate, call: exp.Expr, argument: exp.Expr | None, inner: str
    ) -> dict[str, str]:
        value, type_ = quote(inner), self._types[total.column]
        if isinstance(call, exp.Count):
            value = SIGN if argument is None else f"IF({value} IS NULL, 0, {SIGN})"
        elif isinstance(call, exp.Sum):
            has = self._inner_types.get(inner, "")
            if has not in _INTEGERS and not has.startswith("DECIMAL("):
                raise NotRefreshableError(f"sums of {has or 'unknown'} values are not exact")
            value = f"CAST({value} AS BIGINT)" if has in _INTEGERS else value
            value = f"IF({SIGN} > 0, {value}, -{value})"
        elif total.removed_values_column:
            came, went = (f"CASE WHEN {SIGN} {sign} 0 THEN {value} END" for sign in "><")
            return {
                total.column: f"CAST({came} AS {type_})",
                total.removed_values_column: f"CAST({went} AS {type_})",
            }
        return {total.column: f"CAST({value} AS {type_})"}


def _written(type_: str) -> str:
    return type_.upper().replace(" ", "")


def _argument(value: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return an output's aggregate and its argument. `count(*)` has the argument None.

    Raises NotRefreshableError for outputs that are not aggregates that can be merged.
    """
    condition: exp.Expr | None = None
    if isinstance(value, exp.Filter):
        condition, value = value.expression.this, value.this
    argument = value.this
    if isinstance(argument, exp.Distinct):
        raise NotRefreshableError("an aggregate compares values", value)
    # COUNT_IF becomes COUNT, and a condition becomes a CASE in the argument.
    if isinstance(value, exp.CountIf):
        value = exp.Count(this=exp.Star())
        condition = argument if condition is None else exp.and_(condition.copy(), argument.copy())
        argument = exp.Star()
    if not isinstance(value, (exp.Count, exp.Sum, *_EXTREMES)):
        raise NotRefreshableError(
            "an output is neither a GROUP BY column nor count, sum, min or max", value
        )
    if value.expressions:
        raise NotRefreshableError("an aggregate compares values", value)
    if isinstance(argument, exp.Star | exp.Literal) and isinstance(value, exp.Count):
        argument = None
    if condition is not None:
        inner = exp.Literal.number(1) if argument is None else argument
        argument = exp.Case(ifs=[exp.If(this=condition.copy(), true=inner.copy())])
    return value, argument


def merge_query(
    key: Sequence[str],
    totals: Sequence[MergeableAggregate],
    count: str,
    old: str,
    contributions: str,
) -> str:
    """Write Spark SQL for the rows of the changed groups after the changes.

    The column `vde_lost` is true for groups with impossible new values, such as a negative count,
    or with unknown values (see `MergeableAggregate.open`). `vde_gone` is true for groups that lost
    their last row.

    Args:
        key, totals, count: See `GroupSteps`.
        old: Query for the stored rows of the changed groups.
        contributions: Query for the changed rows' values, from `GroupSteps.write`.
    """
    names = [*key, *(total.column for total in totals)]
    listed = ", ".join(map(quote, names))
    extremes = [total for total in totals if total.removed_values_column]
    none = "".join(
        f", CAST(NULL AS {one.type}) AS {quote(one.removed_values_column)}" for one in extremes
    )
    went = "".join(f", {quote(one.removed_values_column)}" for one in extremes)
    merged = [quote(name) for name in key]
    merged += (f"{one.merge}({quote(one.column)}) AS {quote(one.column)}" for one in totals)
    merged += (
        f"{one.merge}({quote(one.removed_values_column)}) AS {quote(one.removed_values_column)}"
        for one in extremes
    )
    grouped = f" GROUP BY {', '.join(map(quote, key))}" if key else ""
    inner = (
        f"SELECT {', '.join([*merged, 'sum(vde_old) AS vde_old'])} FROM "
        f"(SELECT {listed}, 1 AS vde_old{none} FROM ({old}) AS old UNION ALL "
        f"SELECT {listed}, 0 AS vde_old{went} FROM ({contributions}) AS new) AS both{grouped}"
    )
    counts = [quote(total.column) for total in totals if total.counts]
    lost = ["vde_old > 1" if key else "vde_old <> 1", *(f"{one} < 0" for one in counts)]
    values = [quote(name) for name in key]
    for one in extremes:
        removed = quote(one.removed_values_column)
        beyond = f"{quote(one.column)} {'>' if one.merge == 'max' else '<'} {removed}"
        lost.append(f"({removed} IS NOT NULL AND NOT coalesce({beyond}, false))")
    for total in totals:
        column = value = quote(total.column)
        if total.open and not total.removed_values_column:
            lost.append(f"{column} = 0")
        if total.counted:
            value = f"IF({quote(total.counted)} = 0, NULL, {column})"
            lost.append(f"({quote(total.counted)} = 0 AND {column} <> 0)")
        values.append(f"CAST({value} AS {total.type}) AS {column}")
    gone = f"{quote(count)} = 0" if key and count else "false"
    lost += (f"({gone} AND {one} <> 0)" for one in counts if gone != "false")
    return (
        f"SELECT {', '.join(values)}, coalesce({' OR '.join(lost)}, false) AS vde_lost, "
        f"{gone} AS vde_gone FROM ({inner}) AS merged"
    )
