"""Edits of queries: some keep the meaning, most change it. The tests do not ask which."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

from sqlglot import exp, parse_one

Edit = Callable[[exp.Expr, random.Random], exp.Expr | None]

_FLIPPED = {exp.GT: exp.LT, exp.LT: exp.GT, exp.GTE: exp.LTE, exp.LTE: exp.GTE}
_COMPARISONS = [exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE]
_AGGREGATES = [exp.Sum, exp.Min, exp.Max, exp.Count]


def _pick(tree: exp.Expr, rng: random.Random, *kinds: type[exp.Expr]) -> exp.Expr | None:
    found = list(tree.find_all(*kinds))
    return rng.choice(found) if found else None


def _is_named(table: exp.Expr) -> bool:
    """Whether it is a table, and no function."""
    return isinstance(table.this, exp.Identifier)


def rename_aliases(text: str, rng: random.Random) -> str:
    """Table aliases are unique in generated queries, so they can be renamed everywhere."""
    return re.sub(r"\bt(\d+)\b", rng.choice([r"z\1", r"q\1_x"]), text)


def swap_operands(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.EQ, exp.NEQ, exp.And, exp.Or, exp.Add, exp.Mul, exp.NullSafeEQ)
    if node is None:
        return None
    left, right = node.this, node.expression
    node.set("this", right)
    node.set("expression", left)
    return tree


def swap_any_operands(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Sub, exp.GT, exp.LT, exp.GTE, exp.LTE)
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


def add_parentheses(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Column, exp.Binary)
    if node is None or isinstance(node.parent, (exp.Paren, exp.Dot)):
        return None
    node.replace(exp.Paren(this=node.copy()))
    return tree


def wrap_table(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Table)
    if node is None or not node.alias or node.args.get("joins") or not _is_named(node):
        return None
    inner = exp.select("*").from_(exp.to_table(node.name))
    node.replace(exp.Subquery(this=inner, alias=exp.TableAlias(this=exp.to_identifier(node.alias))))
    return tree


def wrap_query(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    text = tree.sql("spark")
    names = [s.alias_or_name for s in tree.selects]
    if not all(names):
        return None  # an item in parentheses has no name to be called by
    rng.shuffle(names)
    if rng.random() < 0.4:
        names = names[: rng.randint(1, len(names))]
    listed = rng.choice(["*", ", ".join(f"w.{n}" for n in names)])
    if rng.random() < 0.5 and not tree.args.get("with_"):
        return parse_one(f"WITH w AS ({text}) SELECT {listed} FROM w", dialect="spark")
    where = rng.choice(["", "", f" WHERE w.{names[0]} IS NOT NULL"])
    return parse_one(f"SELECT {listed} FROM ({text}) AS w{where}", dialect="spark")


def add_filter(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Select)
    column = _pick(node, rng, exp.Column) if node is not None else None
    if node is None or column is None or column.find_ancestor(exp.Select) is not node:
        return None
    assert isinstance(node, exp.Select)
    node.where(exp.Is(this=column.copy(), expression=exp.Null()), copy=False, append=True)
    return tree


def drop_filter(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Where, exp.Having)
    if node is None:
        return None
    node.pop()
    return tree


def on_to_where(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    """The same for inner joins, another thing for outer ones."""
    node = _pick(tree, rng, exp.Join)
    on = node.args.get("on") if node is not None else None
    select = node.parent if node is not None else None
    if on is None or not isinstance(select, exp.Select) or node is None:
        return None
    select.where(on.copy(), copy=False, append=True)
    node.set("on", None if not node.side else exp.true())
    return tree


def where_to_on(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Join)
    select = node.parent if node is not None else None
    where = select.args.get("where") if isinstance(select, exp.Select) else None
    on = node.args.get("on") if node is not None else None
    if where is None or on is None or node is None:
        return None
    node.set("on", exp.and_(on.copy(), where.this.copy()))
    where.pop()
    return tree


def change_join(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Join)
    if node is None or node.args.get("on") is None or node.args.get("kind") in ("SEMI", "ANTI"):
        if node is not None and node.args.get("kind") in ("SEMI", "ANTI"):
            node.set("kind", "ANTI" if node.args["kind"] == "SEMI" else "SEMI")
            return tree
        return None
    node.set("kind", None)
    node.set("side", rng.choice([None, "LEFT", "RIGHT", "FULL"]))
    return tree


def swap_first_join(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    """Exchange FROM and the first join's table: the same for inner joins."""
    node = _pick(tree, rng, exp.Select)
    joins = node.args.get("joins") if node is not None else None
    if not joins or node is None or joins[0].args.get("kind") in ("SEMI", "ANTI"):
        return None
    from_ = node.args["from_"]
    first, second = from_.this, joins[0].this
    if not isinstance(first, exp.Table) or first.args.get("joins"):
        return None
    from_.set("this", second.copy())
    joins[0].set("this", first.copy())
    if rng.random() < 0.5 and joins[0].side in ("LEFT", "RIGHT"):
        joins[0].set("side", "RIGHT" if joins[0].side == "LEFT" else "LEFT")
    return tree


def swap_joins(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Select)
    joins = node.args.get("joins") if node is not None else None
    if not joins or len(joins) < 2 or node is None:
        return None
    node.set("joins", [joins[1].copy(), joins[0].copy(), *[j.copy() for j in joins[2:]]])
    return tree


def change_literal(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Literal)
    if node is None or node.find_ancestor(exp.Order, exp.Group) is not None:
        return None
    new = exp.Literal.string("b") if node.is_string else exp.Literal.number(rng.randint(0, 3))
    node.replace(new)
    return tree


def change_comparison(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, *_COMPARISONS)
    if node is None:
        return None
    node.replace(rng.choice(_COMPARISONS)(this=node.this.copy(), expression=node.expression.copy()))
    return tree


def change_aggregate(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, *_AGGREGATES)
    if node is None or isinstance(node.this, (exp.Star, exp.Distinct)):
        return None
    node.replace(rng.choice(_AGGREGATES)(this=node.this.copy()))
    return tree


def toggle_distinct(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Select, exp.SetOperation)
    if node is None:
        return None
    if isinstance(node, exp.SetOperation):
        if isinstance(node, exp.Union):
            node.set("distinct", not node.args.get("distinct"))
            return tree
        return None
    node.set("distinct", None if node.args.get("distinct") else exp.Distinct())
    return tree


def change_set_operation(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.SetOperation)
    if node is None:
        return None
    if rng.random() < 0.5:
        left, right = node.this.copy(), node.expression.copy()
        node.set("this", right)
        node.set("expression", left)
        return tree if not isinstance(right, exp.SetOperation) else None
    new = rng.choice([exp.Union, exp.Intersect, exp.Except])(**node.copy().args)
    new.set("distinct", True)
    if node is tree:
        return new
    node.replace(new)
    return tree


def swap_columns(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    columns = list(tree.find_all(exp.Column))
    if len(columns) < 2:
        return None
    one, two = rng.sample(columns, 2)
    if one.find_ancestor(exp.Select) is not two.find_ancestor(exp.Select):
        return None
    text = two.copy()
    two.replace(one.copy())
    one.replace(text)
    return tree


def and_or(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.And, exp.Or)
    if node is None:
        return None
    new = exp.Or if isinstance(node, exp.And) else exp.And
    node.replace(new(this=node.this.copy(), expression=node.expression.copy()))
    return tree


def negate(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.EQ, exp.GT, exp.LTE, exp.In, exp.Exists, exp.And, exp.Or, exp.Is)
    if node is None:
        return None
    times = rng.choice([1, 2])
    new: exp.Expr = node.copy()
    for _ in range(times):
        new = exp.Not(this=exp.Paren(this=new))
    node.replace(new)
    return tree


def reorder_outputs(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    if not isinstance(tree, exp.Select) or len(tree.expressions) < 2:
        return None
    if tree.args.get("order") or tree.args.get("group"):
        return None
    items = [e.copy() for e in tree.expressions]
    rng.shuffle(items)
    tree.set("expressions", items[: rng.randint(1, len(items))])
    return tree


def change_window(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Window)
    if node is None:
        return None
    if node.args.get("partition_by"):
        node.set("partition_by", [])
        return tree
    column = _pick(tree, rng, exp.Column)
    if column is None or column.find_ancestor(exp.Select) is not node.find_ancestor(exp.Select):
        return None
    node.set("partition_by", [column.copy()])
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
    keys = [e.copy() for e in node.expressions]
    keys.pop(rng.randrange(len(keys)))
    node.set("expressions", keys)
    return tree


def change_table(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Table)
    if node is None or not _is_named(node):
        return None
    node.set("this", exp.to_identifier(rng.choice(["a", "b", "c"])))
    return tree


def between_to_and(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Between)
    if node is None:
        return None
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    node.replace(exp.Paren(this=exp.And(this=low, expression=high)))
    return tree


def add_output(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    node = _pick(tree, rng, exp.Select)
    if not isinstance(node, exp.Select) or isinstance(node.parent, exp.SetOperation):
        return None
    extra = rng.choice(["1", "COUNT(*)", "RANK() OVER (ORDER BY 1)"])
    column = _pick(node, rng, exp.Column)
    if column is not None and rng.random() < 0.6:
        extra = column.sql("spark")
    return tree if node.select(f"{extra} AS extra", copy=False, dialect="spark") else None


def change_list(tree: exp.Expr, rng: random.Random) -> exp.Expr | None:
    """A list with one element twice, or in another order."""
    node = _pick(tree, rng, exp.Array)
    if node is None:
        return None
    listed = [e.copy() for e in node.expressions]
    more = [*listed, rng.choice(listed).copy()]
    node.set("expressions", more if rng.random() < 0.5 else listed[::-1])
    return tree


EDITS: list[Edit] = [
    *(swap_operands, swap_any_operands, flip_comparison, add_parentheses, wrap_table, wrap_query),
    *(add_filter, drop_filter, on_to_where, where_to_on, change_join, swap_first_join, swap_joins),
    *(change_literal, change_comparison, change_aggregate, toggle_distinct, change_set_operation),
    *(swap_columns, and_or, negate, reorder_outputs, change_window, change_order),
    *(drop_group_key, change_table, between_to_and, add_output, change_list),
]


def mutate(text: str, rng: random.Random) -> tuple[str, str] | None:
    """A changed query and the edit's name, or None when the edit does not fit."""
    if rng.random() < 0.05:
        return rename_aliases(text, rng), "rename_aliases"
    edit = rng.choice(EDITS)
    try:
        tree = edit(parse_one(text, dialect="spark"), rng)
    except AttributeError:
        return None
    if tree is None:
        return None
    changed = tree.sql("spark")
    return (changed, edit.__name__) if changed != text else None
