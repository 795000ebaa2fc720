"""The meaning of a query: row and column versions, column lineage, output types.

The functions read SQL and never run it. `analyze` gives everything from one reading;
`semantic_version` and `column_lineage` are its parts. Importing this package does not import
SQLGlot; the first call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vde_dagster.semantics.errors import SemanticError, offset_of
from vde_dagster.semantics.versions.version import (
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
    from vde_dagster.semantics.versions.lineage import ColumnLineage, IndirectSource, Source

_LAZY = {
    "Analysis": "vde_dagster.semantics.analysis",
    "analyze": "vde_dagster.semantics.analysis",
    "column_lineage": "vde_dagster.semantics.analysis",
    "semantic_version": "vde_dagster.semantics.analysis",
    "canonical_text": "vde_dagster.semantics._sqlglot",
    "ColumnLineage": "vde_dagster.semantics.versions.lineage",
    "IndirectSource": "vde_dagster.semantics.versions.lineage",
    "Source": "vde_dagster.semantics.versions.lineage",
}

__all__ = [
    "CANONICALISER_VERSION",
    "Analysis",
    "ColumnLineage",
    "IndirectSource",
    "SemanticError",
    "SemanticVersion",
    "Source",
    "analyze",
    "canonical_text",
    "canonicaliser",
    "column_lineage",
    "leaf_version",
    "offset_of",
    "opaque_version",
    "restrict",
    "semantic_version",
    "values_version",
]


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(module), name)
