"""Reasons for changes and work in a plan, as codes; `reports/reasons.py` has their sentences."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from vde_dagster.base.names import ModelName


class ReasonCode(str, Enum):
    """The kind of a reason, such as a changed column."""

    # The model itself.
    # The comment at each code lists what `Reason.names` contains.
    ADDED = "added"
    REMOVED = "removed"
    UNREADABLE = "unreadable"
    KIND = "kind"  # the earlier and the new kind
    PHYSICAL_VERSION = "physical_version"  # the new version
    ROWS = "rows"  # the clauses of the query that changed, if they are known
    ROWS_NOT_UNDERSTOOD = "rows_not_understood"
    ROWS_MAY_DIFFER = "rows_may_differ"
    COLUMN_COMPUTED = "column_computed"  # the column
    COLUMNS_COMPUTED = "columns_computed"  # the columns
    COLUMN_RENAMED = "column_renamed"  # the earlier and the new name
    COLUMN_ADDED = "column_added"  # the column, and an earlier column with the same values
    COLUMN_REMOVED = "column_removed"  # the column
    AUDITS = "audits"
    LAYOUT = "layout"
    NO_EFFECT = "no_effect"
    # Models that it reads.
    PARENT_ROWS = "parent_rows"
    PARENT_NOT_UNDERSTOOD = "parent_not_understood"
    PARENT_COLUMN = "parent_column"  # the parent's column, its earlier name or "", the own column
    PARENT_COLUMN_ROWS = "parent_column_rows"  # the same, but the own model; `detail`: its use
    PARENT_COLUMNS = "parent_columns"  # the parent's columns
    # The work on its table.
    HISTORY_RESTARTS = "history_restarts"
    PREVIEWED = "previewed"  # environments
    CATCHES_UP = "catches_up"
    BEFORE_CRON = "before_cron"
    BECOMES_TABLE = "becomes_table"
    PARTS = "parts"  # interval units that were filled in part; `detail`: the unit that fills them
    # A run computes it even if its inputs are unchanged; for these, names of views in between.
    NEVER_SKIPPED = "never_skipped"
    OWN_STATEMENTS = "own_statements"
    PYTHON = "python"
    NOT_UNDERSTOOD = "not_understood"
    READS_CLOCK = "reads_clock"  # `detail`: the word of the query
    DATES_OF_TEXTS = "dates_of_texts"


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for a change of a model, or for work on its table.

    Args:
        names: The names that the reason's code requires.
        parent: The parent that causes the change or the work, if a parent is the cause.
        detail: Further text that the code requires.
        upstream: The model with the original change, if that is another model.
    """

    code: ReasonCode
    names: tuple[str, ...] = ()
    parent: ModelName | None = None
    detail: str = ""
    upstream: ModelName | None = None


StoredReason = Reason | str
"""A reason in a plan; plans stored before reasons had codes contain the sentence instead."""
