"""Columns of the tables that macros name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vde_dagster.base.names import ModelName
from vde_dagster.errors import UsageError

if TYPE_CHECKING:
    from vde_dagster.project.macros.known_columns import Columns
    from vde_dagster.project.macros.scope import MacroContext
    from vde_dagster.project.table_names import TableNames


def relation_columns(expander: MacroContext, relation: str) -> Columns:
    """Return the columns of a table that is an argument of a macro.

    Raises:
        ColumnsWantedError: The columns are not known yet.
        ProjectError: The name is invalid, or the macro's scope has no `known_columns`.
    """
    scope = expander.scope
    if scope.names is None or scope.known_columns is None:
        raise expander.error(f"the columns of {relation} are not known here")
    try:
        name = scope.names.read(relation.strip())
    except UsageError as problem:
        raise expander.error(problem.message, problem.hint) from None
    if len(ModelName.split(relation.strip())) == 1:
        name = _add_schema(name, expander.source.text, scope.names)
    mistake = expander.error(
        f"the columns of {name} are not known when the project is loaded",
        "declare them: in the model's header, or in external_models.yaml",
    )
    return scope.known_columns.find(name, mistake) or {}


def _add_schema(name: ModelName, text: str, names: TableNames) -> ModelName:
    last = rf"[`\"]?{re.escape(name.name)}\b"
    written = re.findall(rf"\b(?:FROM|JOIN)\s+((?:[\w`\"]+\s*\.\s*)+{last})", text, re.IGNORECASE)
    parts = (re.sub(r"[`\"\s]", "", one).split(".") for one in written)
    found = {names.model_name_or_none(one) for one in parts} - {None}
    return found.pop() or name if len(found) == 1 else name
