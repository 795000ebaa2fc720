"""SQLMesh's decorators: what they note is told from the product's own where the two differ."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from vde_dagster.project.macros.registry import F, noting_model


def model(name: str = "", is_sql: bool = False, **options: Any) -> Callable[[F], F]:
    """Make a Python function a model, with SQLMesh's conventions.

    `end` is the last instant of the interval, variables come as keywords, and the context has
    SQLMesh's methods.

    Args:
        name: The model's name; may be left out where paths give names.
        is_sql: Whether the function returns SQL.
        options: The properties of a model.
    """
    line = sys._getframe(1).f_lineno
    given = {"kind": None, "columns": {}, **options, "is_sql": is_sql}
    given["columns"] = given["columns"] or {}
    # None is not the same as an empty list: tables that the code names are looked for.
    given["depends_on"] = tuple(given.get("depends_on") or ())
    return noting_model(name, given, line, for_sqlmesh=True)
