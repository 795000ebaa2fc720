"""What is known of a model when it is checked."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshot import OutputColumn, Snapshot
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
        audited: The snapshots of what only its audits read, as far as they are there.
    """

    model: Model
    columns: tuple[OutputColumn, ...] | None
    findings: tuple[Finding, ...] = ()
    functions: Collection[str] = ()
    audited: Mapping[ModelName, Snapshot] = field(default_factory=dict)
