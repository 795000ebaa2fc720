"""What a query means: row and column versions, column lineage, output types.

The functions read SQL and never run it. `analyze` gives everything from one reading;
`semantic_version` and `column_lineage` are its parts. Importing this package does not import
SQLGlot; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.version import (
    CANONICALISER_VERSION,
    SemanticVersion,
    canonicaliser,
    leaf_version,
    opaque_version,
    restrict,
    values_version,
)

if TYPE_CHECKING:
    from vde_dagster.semantics._sqlglot import canonical_text
    from vde_dagster.semantics.analysis import Analysis, analyze, column_lineage, semantic_version
    from vde_dagster.semantics.lineage import ColumnLineage, IndirectSource, Source
    from vde_dagster.semantics.python_source import PythonVersion, python_version

_LAZY = {
    "Analysis": "analysis",
    "analyze": "analysis",
    "column_lineage": "analysis",
    "semantic_version": "analysis",
    "canonical_text": "_sqlglot",
    "ColumnLineage": "lineage",
    "IndirectSource": "lineage",
    "Source": "lineage",
    "PythonVersion": "python_source",
    "python_version": "python_source",
}

__all__ = [
    "CANONICALISER_VERSION",
    "Analysis",
    "ColumnLineage",
    "IndirectSource",
    "PythonVersion",
    "SemanticError",
    "SemanticVersion",
    "Source",
    "analyze",
    "canonical_text",
    "canonicaliser",
    "column_lineage",
    "leaf_version",
    "opaque_version",
    "python_version",
    "restrict",
    "semantic_version",
    "values_version",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{module}"), name)
