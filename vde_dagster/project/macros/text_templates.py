"""Variables inside texts: `@'dt=@{start_ds}'`, `@SQL('@x + 1')`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.project.macros.time_variables import TIME_VARIABLES
from vde_dagster.sql.trees import placeholder

if TYPE_CHECKING:
    from vde_dagster.project.macros.expansion import Expander

IN_TEXT = re.compile(r"@\{\s*(\w+)\s*\}|@(\w+)")


def filled(expander: Expander, text: str) -> str:
    """Fill the variables into a text; what is no variable stays, as in an address."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if found[1] is None and not expander.knows(name):
            return found[0]
        return expander.bare(expander.variable(name))

    return IN_TEXT.sub(value, text)


def template(expander: Expander, text: str) -> str:
    """Return a string with its variables filled in, those of the run's times included."""
    parts: list[str] = []
    done = 0
    for found in IN_TEXT.finditer(text):
        key = (found[1] or found[2]).lower()
        if key not in TIME_VARIABLES or key in expander.scope.variables:
            continue
        parts += [quoted_text(filled(expander, text[done : found.start()])), _as_text(key)]
        done = found.end()
    if not parts:
        return quoted_text(filled(expander, text))
    parts.append(quoted_text(filled(expander, text[done:])))
    return f"CONCAT({', '.join(part for part in parts if part != quoted_text(''))})"


def quoted_text(text: str) -> str:
    """Write a text as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def _as_text(variable: str) -> str:
    """Return a time variable as a text, in which instants look as in SQLMesh."""
    prefix, _, suffix = variable.rpartition("_")
    name = {"dt": "tstz", "dtntz": "ts", "date": "ds"}.get(suffix)
    if name is not None:
        return placeholder(f"{prefix}_{name}")
    return (
        placeholder(variable)
        if suffix in ("ds", "ts", "tstz")
        else (f"CAST({placeholder(variable)} AS STRING)")
    )
