"""What is known of a model when it is checked."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from vde_dagster.planning.snapshot import OutputColumn
from vde_dagster.project.model import Model
from vde_dagster.semantics.finding import Finding


@dataclass(frozen=True, slots=True)
class Known:
    """A model with what its query means.

    Args:
        model: The model.
        columns: Its output columns, those that its kind adds included; None where they are not
            all known.
        findings: What is wrong in its query.
        functions: Functions that Spark's sessions have beside its own.
    """

    model: Model
    columns: tuple[OutputColumn, ...] | None
    findings: tuple[Finding, ...] = ()
    functions: Collection[str] = ()
