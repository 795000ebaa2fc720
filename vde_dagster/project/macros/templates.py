"""Replacement of variables in texts and strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.project.macros import variables
from vde_dagster.sql.trees import placeholder

if TYPE_CHECKING:
    from vde_dagster.project.macros.scope import MacroContext


def filled(expander: MacroContext, text: str) -> str:
    """Replace `@name` and `@{name}` in a text by variables' values; an unknown `@name` stays."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        if found[1] is None and not expander.is_defined(name):
            return found[0]
        return variables.bare(expander.variable(name))

    return variables.IN_TEXT.sub(value, text)


def template(expander: MacroContext, text: str) -> str:
    """Write a text with variables in SQL: a string, or `CONCAT(…)` if it has time variables."""
    parts: list[str] = []
    done = 0
    for found in variables.IN_TEXT.finditer(text):
        key = (found[1] or found[2]).lower()
        if key not in variables.TIME_VARIABLES or key in expander.scope.variables:
            continue
        prefix, _, suffix = key.rpartition("_")
        if suffix in variables.NUMBERS:
            value = f"CAST({placeholder(key)} AS STRING)"
        else:
            value = placeholder(f"{prefix}_{variables.AS_TEXT.get(suffix, suffix)}")
        parts += [variables.quoted_text(filled(expander, text[done : found.start()])), value]
        done = found.end()
    if not parts:
        return variables.quoted_text(filled(expander, text))
    parts.append(variables.quoted_text(filled(expander, text[done:])))
    return f"CONCAT({', '.join(part for part in parts if part != variables.quoted_text(''))})"
