from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp
from sqlglot.expressions import Expr, Identifier, Literal, Table


def find_tables_read(tree: exp.Expr) -> Iterator[exp.Table]:
    """Yield the tables that a query reads: no CTEs, table functions, hints or parameters."""
    withs = _CteResolver()
    for table in _tables(tree):
        if not isinstance(table.this, exp.Identifier) or not table.name:
            continue
        if table.find_ancestor(exp.Hint) is not None or withs.is_cte(table):
            continue
        yield table


def _tables(tree: exp.Expr) -> list[exp.Table]:
    # SQLGlot's walk visits all nodes and takes twice as long.
    ends = {Identifier, Literal, str, bool, type(None)}
    nodes = [tree]
    for node in nodes:
        for value in node.args.values():
            if value.__class__ is list:
                nodes += [item for item in value if isinstance(item, Expr)]
            elif value.__class__ not in ends and isinstance(value, Expr):
                nodes.append(value)
    return [node for node in nodes if isinstance(node, Table)]


class _CteResolver:
    def __init__(self) -> None:
        self._known: dict[int, tuple[dict[str, int], dict[int, int]]] = {}

    def is_cte(self, table: exp.Table) -> bool:
        if table.args.get("db"):
            return False
        name = table.name.lower()
        below: exp.Expr = table
        inside: exp.CTE | None = None
        node = table.parent
        while node is not None:
            if isinstance(node, exp.CTE):
                inside = node
            elif isinstance(node, exp.With):
                first, places = self._cte_places(node)
                place = first.get(name)
                # A CTE is visible to the query that owns the WITH, to later CTEs of this WITH, and
                # with RECURSIVE to itself.
                here = places[id(inside)] + bool(node.args.get("recursive"))
                if place is not None and place < here:
                    return True
            else:
                owned = node.args.get("with_")
                owner = owned if isinstance(owned, exp.With) and owned is not below else None
                if owner is not None and name in self._cte_places(owner)[0]:
                    return True
            below, node = node, node.parent
        return False

    def _cte_places(self, with_: exp.With) -> tuple[dict[str, int], dict[int, int]]:
        known = self._known.get(id(with_))
        if known is None:
            first: dict[str, int] = {}
            for place, cte in enumerate(with_.expressions):
                first.setdefault(cte.alias.lower(), place)
            places = {id(cte): place for place, cte in enumerate(with_.expressions)}
            known = self._known[id(with_)] = first, places
        return known
