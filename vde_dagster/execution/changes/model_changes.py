"""What is said of the changes of a model, and the query that returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from vde_dagster.base.names import ModelName
from vde_dagster.planning.changes.columns import ColumnEvent

Method = Literal["nothing", "commits", "lineage", "versions", "resync", "steps"]


@dataclass(frozen=True, slots=True)
class ModelChanges:
    """What changed in a model from one version of an environment to another.

    Who has the rows of the earlier version, makes `events` of its columns, takes away the rows
    that are `delete` or `update_before` and adds those that are `insert` or `update_after`, has the
    rows of the later one.

    Args:
        environment: The environment.
        model: The model.
        since: The earlier version's number; 0 for the time before any.
        until: The later version's.
        publication_id: The publication that made the later version.
        method: How they are found.
        why: For `resync`, why they cannot be told, so that the view has to be read anew.
        events: What changed of its columns.
        key: Columns by which images of one row are paired, or none.
        columns: (name, Spark SQL type) of the answer.
        query: Spark SQL that returns them; any session with the project's catalog can run it.
        steps: Where each version is told for itself, what each changed, of those that did.
    """

    environment: str
    model: ModelName
    since: int
    until: int
    publication_id: str
    method: Method
    why: str | None
    events: tuple[ColumnEvent, ...]
    key: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    query: str
    steps: tuple[ModelChanges, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "environment": self.environment,
            "model": str(self.model),
            "from": self.since,
            "to": self.until,
            "publication": self.publication_id,
            "method": self.method,
            "why": self.why,
            "columns_changed": [event.to_json() for event in self.events],
            "key": list(self.key),
            "steps": [
                {
                    "ordinal": ordinal,
                    "to": step.until,
                    "publication": step.publication_id,
                    "method": step.method,
                    "key": list(step.key),
                }
                for ordinal, step in enumerate(self.steps)
            ],
        }
