"""INCREMENTAL_BY_UNIQUE_KEY: a table with one row per key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from vde_dagster.project.kinds.base import InPlace, Kind, Property, later
from vde_dagster.project.kinds.incremental import (
    BATCH_SIZE,
    IN_PLACE,
    LOOKBACK,
    RESTATEMENT,
    ChangesInPlace,
)
from vde_dagster.project.kinds.merge_clauses import (
    ALL,
    Clause,
    named_in,
    read_keys,
    read_merge_filter,
    read_when_matched,
)


@dataclass(frozen=True, slots=True)
class IncrementalByUniqueKey(ChangesInPlace):
    """Filled interval by interval; rows are merged on a key.

    Args:
        unique_key: Output columns that identify a row; NULLs count as equal.
        lookback: How many earlier intervals each new one fills again.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        key_expressions: Spark SQL over output columns that identifies a row beside them.
        when_matched: What becomes of rows whose key is there, the first clause that holds; all
            columns are replaced when there is none. Columns are those of `source` and `target`.
        merge_filter: Condition over `source` and `target` without which a row of the table is no
            match, or empty.
        merge_columns: Output columns that these name.
        disable_restatement: Whether production keeps what is filled for good.
        auto_restatement_cron: When production's runs fill it again by themselves, or None.
        forward_only: Whether every change is made in place, and rows that are there stay.
        on_destructive_change: What to do when such a change removes or retypes columns.
        on_additive_change: What to do when it adds or widens columns.
    """

    unique_key: tuple[str, ...]
    lookback: int = 0
    batch_size: int | None = None
    key_expressions: tuple[str, ...] = later(())
    when_matched: tuple[Clause, ...] = later(())
    merge_filter: str = later("")
    merge_columns: tuple[str, ...] = later(())
    disable_restatement: bool = later(False)
    auto_restatement_cron: str | None = later(None)
    forward_only: bool = later(False)
    on_destructive_change: str = later("error")
    on_additive_change: str = later("allow")
    name: Literal["INCREMENTAL_BY_UNIQUE_KEY"] = "INCREMENTAL_BY_UNIQUE_KEY"

    summary = "interval by interval; rows are merged on the key"
    restates_whole = True
    properties = (
        Property(
            "unique_key",
            read_keys,
            {"type": ["string", "array"], "items": {"type": "string"}},
            required=True,
            names_columns=True,
            shown="`unique_key` (columns or expressions)",
        ),
        Property("when_matched", read_when_matched, {"type": "string"}),
        Property("merge_filter", read_merge_filter, {"type": "string"}),
        LOOKBACK,
        BATCH_SIZE,
        *RESTATEMENT,
        *IN_PLACE,
    )

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind; the key comes as columns and expressions."""
        values = dict(given)
        columns, expressions = values.pop("unique_key")
        clauses: tuple[Clause, ...] = values.get("when_matched", ())
        sided = [text for condition, _ in clauses for text in [condition] if text]
        sided += [text for _, sets in clauses for _, text in sets if text != ALL]
        sided += [values["merge_filter"]] if values.get("merge_filter") else []
        named = [column for _, sets in clauses for column, _ in sets if column != ALL]
        named += named_in((*expressions, *sided))
        by_name = {name.lower(): name for name in reversed(named)}
        return cls(
            unique_key=columns,
            key_expressions=expressions,
            merge_columns=tuple(sorted(by_name.values())),
            **values,
        )

    @property
    def named_columns(self) -> tuple[str, ...]:
        """The key, and what decides how rows are merged."""
        known = {name.lower() for name in self.unique_key}
        others = (name for name in self.merge_columns if name.lower() not in known)
        return (*self.unique_key, *others)

    @property
    def assignments(self) -> tuple[tuple[str, str], ...]:
        """Those of `when_matched`."""
        every = (pair for _, assigned in self.when_matched for pair in assigned)
        return tuple((column, text) for column, text in every if column != ALL)

    @property
    def conditions(self) -> tuple[str, ...]:
        """Those of `when_matched`, and `merge_filter`."""
        every = (*(condition for condition, _ in self.when_matched), self.merge_filter)
        return tuple(text for text in every if text)

    @property
    def in_place(self) -> InPlace:
        """What its properties say; the key has to stay, how rows are merged may change."""
        key = (*self.unique_key, *self.key_expressions)
        # What is made of the table's own values is another one when it is merged once more.
        adds_up = any(
            "target." in value.lower() for _, assigned in self.when_matched for _, value in assigned
        )
        before = super(IncrementalByUniqueKey, self).in_place
        return replace(before, fixed=key, refills=not adds_up)
