"""Aggregates whose new value follows from the old value and from the rows that came or went.

The rows before grouping change as `linear` derives. With n the old and d the changed rows of a
group, an aggregate of both is computed from the aggregate of n, which the table has:

- `count` adds 1 for each row that came, and -1 for each that went.
- `sum` of integers and decimals adds the values that came, and subtracts those that went. These
  types have exact addition: if no sum overflows, the result is the sum of all rows in any order,
  and if one does, Spark raises an error (with ANSI off, integers wrap around in any order alike).
  Sums of floats depend on the order. A sum is NULL if no value is left, so after rows went, a count
  of the same values must be among the outputs.
- `min`, `max`, `bool_and` and `bool_or` of what was there and of what came, if no row went.
- A group ends when its last row goes, so after rows went, `count(*)` must be among the outputs. A
  query without GROUP BY has one row at all times.

HAVING, DISTINCT, and expressions of aggregates are not derived.
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
from vde_dagster.semantics.refresh.trees import has_exact_equality, set_args, unalias

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
class Total:
    """An output column with an aggregate.

    Args:
        column: The output column, in lower case.
        merge: Aggregate that merges the old value with values of the changes.
        counts: Whether it counts rows or values.
        counted: The output column with the number of values of a sum, or empty.
        type: Spark SQL type.
    """

    column: str
    merge: Merge
    counts: bool
    counted: str
    type: str


@dataclass(frozen=True, slots=True)
class GroupSteps:
    """Queries that together return what changes add to each group's aggregates.

    Args:
        key: Output columns that a query groups by, in lower case; empty without GROUP BY.
        count: The output column with the number of a group's rows, or empty.
        values: By output column, Spark SQL of what a row of `rows` adds to it.
    """

    key: tuple[str, ...]
    totals: tuple[Total, ...]
    count: str
    rows: RowSteps
    values: Mapping[str, str]

    def write(self, relation: Relation) -> str:
        """Return Spark SQL of the contributions, one row for each changed row before grouping."""
        listed = ", ".join(f"{value} AS {quote(name)}" for name, value in self.values.items())
        return f"SELECT {listed} FROM ({self.rows.write(relation)}) AS changed"


def find_group_steps(
    query: Qualified, changed: Collection[str], *, only_added: bool, types: Mapping[str, str]
) -> GroupSteps:
    """Derive what changes of tables add to the groups of a query.

    Args:
        changed: Tables that changed, as the schema names them.
        only_added: Whether these tables only gained rows.
        types: The types of the table's columns, by output column in lower case.

    Raises:
        NotRefreshableError: Some aggregate's new value does not follow from its old one.

    >>> from vde_dagster.semantics.refresh.qualified import qualify
    >>> query = qualify("SELECT c, sum(n) AS n FROM o GROUP BY c", {"o": {"c": "INT", "n": "INT"}})
    >>> find_group_steps(query, ["o"], only_added=True, types={"c": "INT", "n": "BIGINT"}).values
    {'c': '`c`', 'n': 'CAST(IF(vde_sign > 0, CAST(`vde_0` AS BIGINT), -CAST(`vde_0` AS BIGINT)) \
AS BIGINT)'}
    """
    made = _Groups(query, only_added, types)
    return replace(made.steps(), rows=find_row_steps(made.before_grouping(), changed))


class _Groups:
    """Takes the outputs of a grouped query apart: what it groups by, and aggregates."""

    def __init__(self, query: Qualified, only_added: bool, types: Mapping[str, str]) -> None:
        tree = query.tree
        if not isinstance(tree, exp.Select):
            raise NotRefreshableError("it is not a single SELECT", tree)
        for clause in sorted(set_args(tree) - _PLAIN):
            part = tree.args[clause]
            part = part if isinstance(part, exp.Expr) else tree
            raise NotRefreshableError("a clause follows its aggregates", part)
        group = tree.args.get("group")
        if group is not None and set_args(group) - {"expressions"}:
            raise NotRefreshableError(SEVERAL_SETS, group, ONE_SET)
        self._query, self._tree, self._only_added = query, tree, only_added
        self._by: list[exp.Expr] = group.expressions if group is not None else []
        self._types = {name.lower(): type_ for name, type_ in query.types(tree).items()}
        self._stored = types
        self._inner: dict[str, exp.Expr] = {}
        self._inner_types: Mapping[str, str] = {}

    def before_grouping(self) -> Qualified:
        """Return the query of the rows that are grouped: their keys and arguments."""
        tree = self._tree.copy()
        for clause in ("group", "order"):
            tree.set(clause, None)
        listed = [exp.alias_(one.copy(), name, quoted=True) for name, one in self._inner.items()]
        tree.set("expressions", listed or [exp.alias_(exp.Literal.number(1), "one")])
        return Qualified(tree, self._query.readings, self._query.schema)

    def steps(self) -> GroupSteps:
        """Return the steps, without the rows."""
        key: list[str] = []
        found: list[tuple[str, exp.Expr, exp.Expr | None]] = []
        for output in self._tree.selects:
            name, value = output.alias_or_name.lower(), unalias(output)
            if value in self._by:
                self._inner[name] = value
                key.append(name)
                if not has_exact_equality(self._types.get(name, "")):
                    raise NotRefreshableError(f"groups cannot be compared by {name}")
            else:
                found.append((name, *_argument(value)))
            if _written(self._types.get(name, "?")) != _written(self._stored.get(name, "")):
                raise NotRefreshableError(f"the table has another type for {name}")
        if not found or any(all(one != self._inner[name] for name in key) for one in self._by):
            raise NotRefreshableError("it does not return all columns that it groups by")
        if len({*key, *(name for name, *_ in found)}) < len(self._tree.selects):
            raise NotRefreshableError("two outputs have one name")
        for number, (_, _, argument) in enumerate(found):
            if argument is not None:
                self._inner[f"vde_{number}"] = argument
        self._inner_types = self._query.types(self.before_grouping().tree)
        counted = {argument: name for name, call, argument in found if isinstance(call, exp.Count)}
        values = {name: quote(name) for name in key}
        totals = []
        for number, (name, call, argument) in enumerate(found):
            totals.append(self._total(name, call, argument, counted))
            values[name] = self._value(name, call, argument, f"vde_{number}")
        rows = counted.get(None, "")
        if not self._only_added and self._by and not rows:
            raise NotRefreshableError("rows went, and count(*) is not among its outputs")
        return GroupSteps(tuple(key), tuple(totals), rows, RowSteps(()), values)

    def _total(
        self,
        name: str,
        call: exp.Expr,
        argument: exp.Expr | None,
        counted: Mapping[exp.Expr | None, str],
    ) -> Total:
        type_ = self._types.get(name, "")
        if isinstance(call, exp.Count):
            return Total(name, "sum", True, "", type_)
        if isinstance(call, exp.Sum):
            if not self._only_added and argument not in counted:
                raise NotRefreshableError(f"rows went, and no output counts the values of {name}")
            return Total(name, "sum", False, counted.get(argument, ""), type_)
        merge = _EXTREMES[type(call)]
        if not self._only_added:
            raise NotRefreshableError(f"rows went, and {name} may be from one of these")
        if not has_exact_equality(type_):
            raise NotRefreshableError(f"values of {name} cannot be compared")
        return Total(name, merge, False, "", type_)

    def _value(self, name: str, call: exp.Expr, argument: exp.Expr | None, inner: str) -> str:
        """Write what a changed row contributes to an aggregate."""
        if isinstance(call, exp.Count):
            value = SIGN if argument is None else f"IF({quote(inner)} IS NULL, 0, {SIGN})"
        elif isinstance(call, exp.Sum):
            has = self._inner_types.get(inner, "")
            if has not in _INTEGERS and not has.startswith("DECIMAL("):
                raise NotRefreshableError(f"sums of {has or 'unknown'} values are not exact")
            value = f"CAST({quote(inner)} AS BIGINT)" if has in _INTEGERS else quote(inner)
            value = f"IF({SIGN} > 0, {value}, -{value})"
        else:
            value = quote(inner)
        return f"CAST({value} AS {self._types[name]})"


def _written(type_: str) -> str:
    return type_.upper().replace(" ", "")


def _argument(value: exp.Expr) -> tuple[exp.Expr, exp.Expr | None]:
    """Return an aggregate, with COUNT for all kinds of it, and its argument; None for `count(*)`.

    Raises:
        NotRefreshableError: An output is something else, or an aggregate that cannot be merged.
    """
    condition: exp.Expr | None = None
    if isinstance(value, exp.Filter):
        condition, value = value.expression.this, value.this
    argument = value.this
    if isinstance(argument, exp.Distinct):
        raise NotRefreshableError("an aggregate compares values", value)
    if isinstance(value, exp.CountIf):
        value = exp.Count(this=exp.Star())
        condition = argument if condition is None else exp.and_(condition.copy(), argument.copy())
        argument = exp.Star()
    if not isinstance(value, (exp.Count, exp.Sum, *_EXTREMES)):
        raise NotRefreshableError(
            "an output is neither grouped by nor count, sum, min or max", value
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
    key: Sequence[str], totals: Sequence[Total], count: str, old: str, contributions: str
) -> str:
    """Write the rows of groups after changes, in Spark SQL.

    `vde_lost` marks groups that contradict the table's rows, and `vde_gone` groups that ended.

    Args:
        key, totals, count: As in `GroupSteps`.
        old: Query of the table's rows of these groups.
        contributions: Query of what changes add.
    """
    names = [*key, *(total.column for total in totals)]
    listed = ", ".join(map(quote, names))
    merged = [quote(name) for name in key]
    merged += (f"{one.merge}({quote(one.column)}) AS {quote(one.column)}" for one in totals)
    grouped = f" GROUP BY {', '.join(map(quote, key))}" if key else ""
    inner = (
        f"SELECT {', '.join([*merged, 'sum(vde_old) AS vde_old'])} FROM "
        f"(SELECT {listed}, 1 AS vde_old FROM ({old}) AS old UNION ALL "
        f"SELECT {listed}, 0 AS vde_old FROM ({contributions}) AS new) AS both{grouped}"
    )
    counts = [quote(total.column) for total in totals if total.counts]
    lost = ["vde_old > 1" if key else "vde_old <> 1", *(f"{one} < 0" for one in counts)]
    values = [quote(name) for name in key]
    for total in totals:
        column = value = quote(total.column)
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
