"""Queries that only select columns of one relation: their rows are that relation's rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from vde_dagster.base.names import ModelName

if TYPE_CHECKING:
    from sqlglot import exp

_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Selection:
    """What such a query selects.

    Args:
        source: The relation.
        items: (name, column of the relation) in order; None for a star.
    """

    source: ModelName
    items: tuple[tuple[str, str] | None, ...]

    def columns(self, source: Mapping[str, str]) -> tuple[tuple[str, str], ...] | None:
        """Return (name, column) in order, with stars written out.

        Args:
            source: What the columns of the relation stand for, by their names.

        Returns:
            The columns, or None where one is none of the relation, or two are one or have one name.

        >>> one = Selection(ModelName("a", "b"), (("id", "X"), None))
        >>> one.columns({"y": "p", "z": "q"}) is one.columns({"id": "p", "x": "q"}) is None
        True
        >>> Selection(ModelName("a", "b"), (("id", "X"), ("y", "y"))).columns({"x": "p", "y": "q"})
        (('id', 'p'), ('y', 'q'))
        """
        known = {name.lower(): column for name, column in source.items()}
        found: list[tuple[str, str]] = []
        for item in self.items:
            if item is None:
                found += source.items()
            elif item[1].lower() in known:
                found.append((item[0], known[item[1].lower()]))
            else:
                return None
        names, columns = ({pair[i].lower() for pair in found} for i in (0, 1))
        return tuple(found) if len(names) == len(columns) == len(found) else None


@lru_cache(maxsize=_KEPT)
def selection_of(query: str) -> Selection | None:
    """Read a query that only selects columns of one relation, perhaps under other names.

    Args:
        query: Spark SQL as it is stored: without comments, with at most two parts in names.

    Returns:
        What it selects, or None for any other query.

    >>> selection_of("SELECT id AS number, o.day FROM raw.orders AS o").items
    (('number', 'id'), ('day', 'day'))
    >>> selection_of("SELECT id + 1 AS id FROM raw.orders") is None
    True
    """
    # Most queries do more, which shows before they are parsed.
    if "(" in query or not {"WHERE", "JOIN", "UNION", "GROUP"}.isdisjoint(query.upper().split()):
        return None
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from vde_dagster.sql.reading import read_query

    try:
        tree = read_query(query).tree
    except SqlglotError:
        return None
    if not isinstance(tree, exp.Select) or _has_more(tree, "expressions", "from_"):
        return None
    table = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(table, exp.Table) or _has_more(table, "this", "db", "alias"):
        return None
    alias = table.args.get("alias")
    if alias is not None and _has_more(alias, "this"):
        return None
    items = [_item(item, table) for item in tree.expressions]
    if any(item is False for item in items):
        return None
    quoted = (part.name.replace("`", "``") for part in table.parts)
    source = ModelName.parse(".".join(f"`{part}`" for part in quoted))
    return Selection(source, tuple(item for item in items if item is not False))


def _has_more(node: exp.Expr, *parts: str) -> bool:
    return any(value for key, value in node.args.items() if key not in parts)


def _item(item: exp.Expr, table: exp.Table) -> tuple[str, str] | Literal[False] | None:
    """Return (name, column), None for a star, or False for anything else."""
    from sqlglot import exp

    name = None
    if isinstance(item, exp.Alias):
        name, item = item.alias, item.this
    if isinstance(item, exp.Star):
        return False if name is not None or _has_more(item) else None
    if not isinstance(item, exp.Column) or _has_more(item, "this", "table", "db"):
        return False
    if not _is_qualifier([part.name.lower() for part in item.parts[:-1]], table):
        return False
    if isinstance(item.this, exp.Star):
        return False if name is not None or _has_more(item.this) else None
    return (name or item.name, item.name)


def _is_qualifier(parts: list[str], table: exp.Table) -> bool:
    """Say whether what stands before a column is the table, and no column that has fields."""
    alias = table.args.get("alias")
    if alias is not None:
        return parts in ([], [alias.name.lower()])
    own = [part.name.lower() for part in table.parts]
    return parts in ([], own[1:], own)
