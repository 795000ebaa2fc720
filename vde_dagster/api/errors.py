"""Errors, and the places in files that errors refer to.

A plug-in raises the class that fits: the command line prints it with its hint and place and exits
with the class's `exit_code`.
"""

from vde_dagster.errors import (
    ConflictError,
    ExecutionError,
    NoSparkError,
    ProjectError,
    SourceLocation,
    StoreError,
    UsageError,
    VdeError,
    placed,
)

__all__ = [
    "ConflictError",
    "ExecutionError",
    "NoSparkError",
    "ProjectError",
    "SourceLocation",
    "StoreError",
    "UsageError",
    "VdeError",
    "placed",
]
