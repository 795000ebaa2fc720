"""SQL as text, tokens and trees; and the arguments of macros."""

from vde_dagster.project.macros.calls import SQL
from vde_dagster.project.macros.evaluator import MacroEvaluator
from vde_dagster.sql.edits import Edit, Expanded, apply_edits
from vde_dagster.sql.expressions import in_spark, read_expression
from vde_dagster.sql.reading import read_query
from vde_dagster.sql.scanner import SourceText, Token
from vde_dagster.sql.trees import placeholder

__all__ = [
    "SQL",
    "Edit",
    "Expanded",
    "MacroEvaluator",
    "SourceText",
    "Token",
    "apply_edits",
    "in_spark",
    "placeholder",
    "read_expression",
    "read_query",
]
