"""What statements say of their model's own table: `@this_model`, and the parts of its name."""

from __future__ import annotations

from vde_dagster.base.names import split_identifier

TABLE_PARTS = {
    "catalog_name": "this_model_catalog",
    "schema_name": "this_model_schema",
    "table_name": "this_model_table",
}
"""The variables that a template's parts stand for."""
KIND_NAME = "model_kind_name"
"""The variable that holds the name of the model's kind."""
STAGE = "runtime_stage"
"""The variable that says what a text is for; see `in_stage`."""
EVALUATING, PROMOTING, AUDITING, TESTING = "evaluating", "promoting", "auditing", "testing"


def this_model_values(table: str) -> dict[str, str]:
    """Return SQL text by variable.

    Args:
        table: The quoted name that `@this_model` stands for; a fourth part is a branch.
    """
    parts = split_identifier(table)[:3]
    padded = [""] * (3 - len(parts)) + list(parts)
    return {"this_model": table} | {
        variable: f"'{part}'" for variable, part in zip(TABLE_PARTS.values(), padded, strict=True)
    }
