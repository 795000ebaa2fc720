"""Which constructs of Spark's grammar are understood, and what generators make.

A construct that is in no list makes a query opaque. Functions are in `spark_functions`.
"""

from __future__ import annotations

SYNTAX_CLASSES = frozenset(
    {"Div", "IntDiv", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot", "Like"}
    | {"ILike", "Escape", "Is", "Tuple", "Var", "Kwarg"}
)
"""Classes of SQLGlot's trees that mean what their name and their arguments say."""

GENERATORS = {
    "explode": ("explode", False),
    "explode_outer": ("explode", True),
    "posexplode": ("posexplode", False),
    "posexplode_outer": ("posexplode", True),
    "inline": ("inline", False),
    "inline_outer": ("inline", True),
    "stack": ("stack", False),
    "json_tuple": ("json_tuple", False),
}
"""Functions that make rows, with what they do and whether they are OUTER ones."""
