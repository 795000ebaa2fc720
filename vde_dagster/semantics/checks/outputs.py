"""Output columns without a name of their own, and several of one name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from sqlglot import exp

from vde_dagster.semantics.calls import called
from vde_dagster.semantics.finding import Finding, finding
from vde_dagster.semantics.functions import GENERATORS

UNNAMED = "unnamed"
REPEATED = "repeated"
_MOST = 20
"""How many of a query's columns are told; who generates thousands has the same mistake in all."""


def output_findings(tree: exp.Expr, names: Sequence[str] | None) -> Iterator[Finding]:
    """Look at the SELECT list that names a query's columns.

    Args:
        tree: The query.
        names: The names of all output columns with stars expanded, or None.
    """
    select = _naming(tree)
    if select is None:
        return
    items = select.expressions
    for item in [item for item in items if not _has_name(item)][:_MOST]:
        yield finding(UNNAMED, item, f"the column {_shown(item)} has no name", "name it: … AS name")
    if names is None:
        names = [item.alias_or_name.lower() for item in items if _has_name(item)]
    if len(set(names)) < len(names):
        counts = Counter(names)
        for name in [name for name, count in counts.items() if count > 1 and name][:_MOST]:
            yield _repeated(items, name)


def _repeated(items: list[exp.Expr], name: str) -> Finding:
    same = [item for item in items if item.alias_or_name.lower() == name and _has_name(item)]
    star = next((item for item in items if _is_star(item)), None)
    where = same[-1] if same else star if star is not None else items[-1]
    from_star = star is not None and len(same) < 2
    hint = f"leave one out of the star: * EXCEPT ({name})" if from_star else "rename one: … AS name"
    return finding(REPEATED, where, f"two output columns are called '{name}'", hint)


def _naming(e: exp.Expr) -> exp.Select | None:
    while not isinstance(e, exp.Select):
        if not isinstance(e, exp.Subquery | exp.SetOperation) or not isinstance(e.this, exp.Query):
            return None
        e = e.this
    return e


def _is_star(e: exp.Expr) -> bool:
    return not isinstance(e, exp.Alias) and e.is_star


def _has_name(e: exp.Expr) -> bool:
    """Whether Spark gives a column a name that a reader could have foreseen."""
    if isinstance(e, exp.Alias | exp.Aliases | exp.Column) or _is_star(e):
        return True
    if isinstance(e, exp.Paren):
        return _has_name(e.this)
    if isinstance(e, exp.Cast):
        return isinstance(e.this.unnest(), exp.Column)
    if isinstance(e, exp.Dot):
        return not isinstance(e.expression, exp.Func) and _has_name(e.this)
    if isinstance(e, exp.Literal):
        return not e.is_string and e.this[-1:] not in "'\""
    return called(e) in GENERATORS


def _shown(e: exp.Expr) -> str:
    name = called(e)
    return f"{name}(…)" if name and " " not in name else "of an expression"
