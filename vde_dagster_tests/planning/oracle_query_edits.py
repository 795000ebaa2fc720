"""Random edits of queries. Nobody says which of them change data: the oracle finds out."""

from __future__ import annotations

import random
from collections.abc import Callable

from sqlglot import exp, parse_one

from vde_dagster_tests.planning.oracle_data import EXTERNAL

QueryEdit = Callable[[exp.Expr, random.Random], "exp.Expr | None"]
_FLIPPED: dict[type[exp.Expr], type[exp.Binary]] = {
    exp.GT: exp.LT,
    exp.LT: exp.GT,
    exp.GTE: exp.LTE,
    exp.LTE: exp.GTE,
}
_COMPARISONS = [exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE]


def _pick(tree: exp.Expr, rng: random.Random, *kinds: type[exp.Expr]) -> exp.Expr | None:
    found = list(tree.find_all(*kinds))
    return rng.choice(found) if found else None


def _select(tree: exp.Expr, rng: random.Random) -> exp.Select | None:
    """The outermost SELECT, or now and then an inner one."""
    if isinstance(tree, exp.Select) and rng.random() < 0.75:
        return tree
    found = _pick(tree, rng, exp.Select)
    return found if isinstance(found, exp.Select) else None


def _own_column(select: exp.Select, rng: random.Random) -> exp.Column | None:
    """A qualified column that the SELECT's own sources have."""
    found = [
        column
        for column in select.find_all(exp.Column)
        if column.table and column.find_ancestor(exp.Select) is select
    ]
    return rng.choice(found) if found else None


def add_column(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    select = _select(tree, rng)
    if select is None or isinstance(select.parent, exp.SetOperation):
        return None
    column = _own_column(select, rng)
    name = column.sql("spark") if column is not None else "1"
    text = rng.choice(
        [
            *(name, name, "1", f"COALESCE({name}, NULL)", "COUNT(*)", f"MAX({name})"),
            *(f"COUNT(*) OVER (PARTITION BY {name})", "EXPLODE(ARRAY(1, 2))"),
        ]
    )
    alias = rng.choice(["n1", "n2", "v", "k"])
    item = parse_one(f"{text} AS {alias}", dialect="spark")
    at = rng.choice([len(select.expressions), rng.randrange(len(select.expressions) + 1)])
    items = list(select.expressions)
    select.set("expressions", [*items[:at], item, *items[at:]])
    return tree


def drop_column(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    select = _select(tree, rng)
    if select is None or len(select.expressions) < 2:
        return None
    items = list(select.expressions)
    items.pop(rng.randrange(len(items)))
    select.set("expressions", items)
    return tree


def rename_column(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    if not isinstance(tree, exp.Select):
        return None
    item = rng.choice(tree.expressions)
    if not isinstance(item, exp.Alias):
        return None
    item.set("alias", exp.to_identifier(rng.choice(["r1", "r2", "w"])))
    return tree


def reorder_columns(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    if not isinstance(tree, exp.Select):
        return None
    items = list(tree.expressions)
    rng.shuffle(items)
    tree.set("expressions", items)
    return tree


def change_item(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    select = _select(tree, rng)
    if select is None:
        return None
    item = rng.choice(select.expressions)
    if not isinstance(item, exp.Alias):
        return None
    text = item.this.sql("spark")
    new = rng.choice([f"COALESCE({text}, NULL)", f"({text})", f"NULLIF({text}, 1)", "1", "NULL"])
    item.set("this", parse_one(new, dialect="spark"))
    return tree


def change_aggregate(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Sum, exp.Min, exp.Max, exp.Count)
    if node is None or not isinstance(node.this, exp.Column):
        return None
    node.replace(rng.choice([exp.Sum, exp.Min, exp.Max, exp.Count])(this=node.this.copy()))
    return tree


def change_literal(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Literal)
    if node is None or node.find_ancestor(exp.Order, exp.Group, exp.Cast) is not None:
        return None
    node.replace(
        exp.Literal.string(rng.choice("abz"))
        if node.is_string
        else exp.Literal.number(rng.randint(0, 3))
    )
    return tree


def change_comparison(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, *_COMPARISONS)
    if node is None or node.find_ancestor(exp.Join):
        return None
    node.replace(rng.choice(_COMPARISONS)(this=node.this.copy(), expression=node.expression.copy()))
    return tree


def add_filter(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    select = _select(tree, rng)
    column = _own_column(select, rng) if select is not None else None
    if select is None or column is None:
        return None
    test = rng.choice([exp.Is, exp.NullSafeEQ])(this=column.copy(), expression=exp.Null())
    condition = test if rng.random() < 0.4 else exp.Not(this=test)
    select.where(condition, copy=False, append=True)
    return tree


def drop_filter(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Where, exp.Having, exp.Qualify)
    if node is None or node.find(exp.Parameter):
        return None
    node.pop()
    return tree


def move_condition(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    """ON to WHERE: the same for inner joins, another thing for outer ones."""
    node = _pick(tree, rng, exp.Join)
    on = node.args.get("on") if node is not None else None
    select = node.parent if node is not None else None
    if node is None or on is None or not isinstance(select, exp.Select):
        return None
    select.where(on.copy(), copy=False, append=True)
    node.set("on", exp.true())
    return tree


def change_join(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Join)
    if node is None or node.args.get("on") is None:
        return None
    node.set("side", rng.choice([None, "LEFT", "RIGHT", "FULL"]))
    return tree


def drop_join(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Join)
    if node is None:
        return None
    node.pop()
    return tree


def add_left_join(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    """To a table as it is, or to something unique on the key."""
    select = _select(tree, rng)
    column = _own_column(select, rng) if select is not None else None
    if select is None or column is None or select.args.get("from_") is None:
        return None
    inner = rng.choice(
        [
            "SELECT k, MAX(x) AS top FROM raw.c GROUP BY k",
            "SELECT DISTINCT k FROM raw.c",
            "SELECT k, x FROM raw.c",
            "SELECT id AS k FROM raw.a",
            "SELECT k, x FROM raw.c LIMIT 1",
        ]
    )
    number = rng.randint(100, 999)
    join = f"LEFT JOIN ({inner}) AS j{number} ON j{number}.k = {column.sql('spark')}"
    parsed = parse_one(f"SELECT 1 FROM t {join}", dialect="spark").args["joins"][0]
    select.append("joins", parsed)
    return tree


def toggle_distinct(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Select, exp.Union)
    if node is None:
        return None
    if isinstance(node, exp.Union):
        node.set("distinct", not node.args.get("distinct"))
    else:
        node.set("distinct", None if node.args.get("distinct") else exp.Distinct())
    return tree


def swap_operands(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.EQ, exp.NEQ, exp.And, exp.Or, exp.Add, exp.Mul)
    if node is None:
        return None
    left, right = node.this, node.expression
    node.set("this", right)
    node.set("expression", left)
    return tree


def flip_comparison(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, *_FLIPPED)
    if node is None:
        return None
    node.replace(_FLIPPED[type(node)](this=node.expression.copy(), expression=node.this.copy()))
    return tree


def swap_union(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.SetOperation)
    if node is None:
        return None
    left, right = node.this.copy(), node.expression.copy()
    node.set("this", right)
    node.set("expression", left)
    return tree


def wrap_query(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    if tree.args.get("with_"):
        return None
    text = tree.sql("spark")
    if rng.random() < 0.5:
        return parse_one(f"WITH w AS ({text}) SELECT * FROM w", dialect="spark")
    return parse_one(f"SELECT * FROM ({text}) AS w", dialect="spark")


def wrap_table(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Table)
    if not isinstance(node, exp.Table) or not node.alias or not node.db:
        return None
    inner = exp.select("*").from_(exp.to_table(f"{node.db}.{node.name}"))
    if rng.random() < 0.3:
        inner = inner.where("k IS NOT NULL")
    node.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias))))
    return tree


def change_limit(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Limit)
    if node is None:
        return None
    node.set("expression", exp.Literal.number(rng.randint(1, 6)))
    return tree


def change_order(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Ordered)
    if node is None:
        return None
    node.set("desc", not node.args.get("desc"))
    node.set("nulls_first", not node.args.get("desc"))
    return tree


def drop_group_key(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Group)
    if node is None or len(node.expressions) < 2:
        return None
    keys = list(node.expressions)
    keys.pop(rng.randrange(len(keys)))
    node.set("expressions", keys)
    return tree


def change_window(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Window)
    if node is None or not node.args.get("partition_by"):
        return None
    node.set("partition_by", [])
    return tree


def change_source(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Table)
    if not isinstance(node, exp.Table) or not node.db:
        return None
    name = rng.choice([*EXTERNAL, "m.t0", "m.t1"])
    namespace, _, short = name.partition(".")
    node.set("this", exp.to_identifier(short))
    node.set("db", exp.to_identifier(namespace))
    return tree


SAFE_FOR_DAYS: tuple[QueryEdit, ...] = (
    *(add_column, drop_column, rename_column, reorder_columns, change_item, change_literal),
    *(change_comparison, add_filter, swap_operands, flip_comparison, add_left_join),
)
"""Edits after which a query is still cut by days."""
QUERY_EDITS: tuple[QueryEdit, ...] = (
    *SAFE_FOR_DAYS,
    *(change_aggregate, drop_filter, move_condition, change_join, drop_join, toggle_distinct),
    *(swap_union, wrap_query, wrap_table, change_limit, change_order, drop_group_key),
    *(change_window, change_source),
)
