"""What a forward-only change does to a table that has rows, as values for plans and people."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from vde_dagster.base.instants import instant_text
from vde_dagster.planning.interval import iso
from vde_dagster.planning.table import TableRef


class ColumnChange(NamedTuple):
    """One column that differs from what production's table shows.

    Args:
        column: The output column.
        what: `added`, `restored` (an earlier definition made it), `widened`, `retyped`, `removed`,
            or, where the model's policy ignores the change, `not_added`, `not_retyped`, `kept`.
        was: Its Spark SQL type in the table, as far as it is known.
        becomes: Its type from now on, as far as it is known.
    """

    column: str
    what: str
    was: str | None = None
    becomes: str | None = None

    @property
    def is_destructive(self) -> bool:
        """Whether readers of the column lose values or its type."""
        return self.what in ("removed", "retyped")

    def describe(self) -> str:
        """Say it in a part of a sentence, and what rows that are there show."""
        name = self.column
        if self.what == "added":
            type_ = f" {self.becomes}" if self.becomes else ""
            return f"column {name}{type_} is added, NULL in the rows that are there"
        if self.what == "restored":
            return f"column {name} is shown again, NULL in rows that were filled without it"
        if self.what == "widened":
            return f"column {name} widens from {self.was} to {self.becomes}"
        if self.what == "retyped":
            return (
                f"column {name} changes its type from {self.was} to {self.becomes}, which Iceberg "
                "does not do in place: the rows that are there show NULL"
            )
        if self.what == "removed":
            type_ = f" {self.was}" if self.was else ""
            return f"column {name}{type_} is no longer shown or filled"
        if self.what == "not_retyped":
            return f"column {name} stays {self.was}: its change to {self.becomes} is ignored"
        if self.what == "kept":
            return f"column {name} stays, NULL in new rows: its removal is ignored"
        return f"column {name} is not added: its kind ignores additive changes"


ColumnChanges = tuple[ColumnChange, ...]


@dataclass(frozen=True, slots=True)
class TableChange:
    """How a plan goes on with a table that production shows.

    Args:
        table: The table.
        deploys: Whether the table itself changes; else a branch of it shows the change.
        columns: What changes of the columns.
        effective_from: From when on rows are computed again at the deployment (UTC), or None.
    """

    table: TableRef
    deploys: bool
    columns: ColumnChanges = ()
    effective_from: datetime | None = None

    @property
    def widened(self) -> tuple[ColumnChange, ...]:
        """The columns whose type in the table changes."""
        return tuple(change for change in self.columns if change.what == "widened")

    def sentences(self) -> tuple[str, ...]:
        """Say it for people."""
        if self.deploys:
            first = f"forward-only: {self.table} goes on with the new definition, its rows stay"
            since = self.effective_from
            again = (
                () if since is None else (f"rows from {instant_text(since)} on are computed again",)
            )
        else:
            first = f"forward-only: previewed on a branch of {self.table}, at no copy"
            again = (
                ("types widen at the deployment; the preview has the old ones",)
                if self.widened
                else ()
            )
        changes = (change.describe() for change in self.columns)
        return (first, *changes, *again, *self._after_a_rollback())

    def _after_a_rollback(self) -> tuple[str, ...]:
        """Say what a rollback over the deployment shows."""
        if not self.deploys:
            return ()
        lost = [c.column for c in self.columns if c.what in ("removed", "retyped", "kept")]
        nulls = f", NULL in {', '.join(lost)}" if lost else ""
        which = "filled or computed again" if self.effective_from else "filled"
        text = (
            "a rollback shows the columns of before, and the rows; with --definitions-only it "
            f"keeps those that were {which} by the new definition{nulls}"
        )
        return (text,)

    def to_json(self) -> dict[str, Any]:
        """Return the documented JSON form."""
        return {
            "table": str(self.table),
            "deploys": self.deploys,
            "columns": [
                {"column": c.column, "change": c.what, "from": c.was, "to": c.becomes}
                for c in self.columns
            ],
            "effective_from": iso(self.effective_from) if self.effective_from else None,
        }
