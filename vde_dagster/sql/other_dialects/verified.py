"""Lists of functions of other dialects whose translations have the same results on Spark.

`python -m benchmarks.dialect_grid --write` writes the lists. It runs DuckDB, PostgreSQL, Trino and
GoogleSQL (BigQuery's dialect) over a grid of values. For Snowflake, Redshift, SQL Server and MySQL,
the values come from the vendors' documentation. Other dialects have no list.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

from sqlglot import exp

from vde_dagster.sql.other_dialects import SPARKS, Unwritable

FILE = Path(__file__).parent / "verified.txt"
_SYNTAX = (
    *(exp.Cast, exp.Connector, exp.Case, exp.If, exp.Exists, exp.Array, exp.Struct, exp.Unnest),
    *(exp.Explode, exp.ReadParquet, exp.JSONTable, exp.Columns, exp.Dot),
)
"""Classes such as `Case` that `signature` skips, although SQLGlot derives most from `Func`."""


def signature(node: exp.Expr) -> str | None:
    """Return a function's name with the names of its given arguments; None for other nodes.

    >>> from sqlglot import parse_one
    >>> signature(parse_one("substr(a, 1)")), signature(parse_one("foo(a, 1)"))
    ('SUBSTRING(this, start)', 'foo/2')
    """
    if isinstance(node, exp.TryCast):
        if node.to.this in exp.DataType.TEXT_TYPES:
            return None  # Every value has a text.
        return f"TRY_CAST({node.to.this.value})"
    if isinstance(node, exp.Anonymous):
        return f"{node.name.lower()}/{len(node.expressions)}"
    if not isinstance(node, exp.Func) or isinstance(node, _SYNTAX):
        return None
    given = [
        name for name, value in node.args.items() if isinstance(value, exp.Expr | list) and value
    ]
    order = [*(name for name in node.arg_types if name in given)]
    return f"{node.sql_name()}({', '.join(order)})"


def function_name(node: exp.Expr) -> str:
    """Return a function's name as written in the setting `dialect_trust`."""
    key = signature(node) or ""
    return key.partition("(")[0].partition("/")[0].lower()


@cache
def verified_functions(dialect: str) -> frozenset[str]:
    """Return a dialect's verified signatures, if any.

    The list of `spark` has the names of Spark's own functions.
    """
    lines = FILE.read_text(encoding="utf-8").splitlines()
    return frozenset(
        key for name, _, key in (line.partition(" ") for line in lines) if name == dialect
    )


_LISTS = {"athena": "trino", "fabric": "tsql"}
"""Dialects that have another dialect's functions, according to their vendors."""


def find_unverified(tree: exp.Expr, dialect: str, trusted: frozenset[str]) -> Unwritable | None:
    """Return the error for the first function that is not verified, or None."""
    if dialect in SPARKS or "*" in trusted:
        return None
    known = verified_functions(_LISTS.get(dialect, dialect))
    for node in tree.walk():
        key = signature(node)
        if key is None or key in known:
            continue
        name = function_name(node)
        if name in trusted or not trusted.isdisjoint(_spellings(node)):
            continue
        # A function without a class in SQLGlot keeps its name in the translation. If Spark has no
        # function of this name, it is a user function or is refused later.
        if isinstance(node, exp.Anonymous) and name not in verified_functions("spark"):
            continue
        problem = Unwritable(f"{name}() of {dialect} is not known to mean the same on Spark")
        problem.function = name
        return problem.at_node(node)
    return None


def _spellings(node: exp.Expr) -> list[str]:
    return [name.lower() for name in node.sql_names()] if isinstance(node, exp.Func) else []
