from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.api.kinds import AddedColumn, Kind, Property, Value

if TYPE_CHECKING:
    from sqlglot import exp

    from vde_dagster.api.models import Model


def _read_loaders(value: Value) -> tuple[tuple[str, str], ...] | None:
    """Read `loaders` as (source, cron) pairs. BY_SOURCE gives no pairs, and TOGETHER gives None."""
    word = value.raw.upper().strip("'\"")
    if word in ("BY_SOURCE", "TOGETHER"):
        return () if word == "BY_SOURCE" else None
    if not value.raw.startswith("("):
        hint = "write loaders BY_SOURCE, or loaders (crm = '@hourly')"
        raise value.error(f"'loaders' cannot be '{value.raw}'", hint)
    return tuple((source.lower(), cron.cron()) for source, cron in value.pairs())


_LOADERS = Property(
    "loaders", _read_loaders, {"anyOf": [{"enum": ["BY_SOURCE", "TOGETHER"]}, {"type": "object"}]}
)

_SKIP_NULL = Property.columns("skip_null")

_FILLED = (Kind.LOOKBACK, Kind.BATCH_SIZE, *Kind.RESTATEMENT, *Kind.IN_PLACE)


@dataclass(frozen=True, slots=True)
class FirstSeen(Kind):
    """A table that keeps the earliest row of each key. Intervals can be filled in any order.

    Args:
        key: Output columns that identify a row; NULL in a key column is refused.
        time: The output column with the load date.
        source: The output column with the record source. If times are equal, the row with the least
            source is the earliest.
        loaders: If each source has its own table: the sources that have a cron, each with the cron.
            None if there is one table for all sources.
        stored: Whether the model that combines the sources' tables is a table instead of a view.
        skip_null: Output columns; a row with NULL in one is left out instead of being an error.
    """

    key: tuple[str, ...]
    time: str
    source: str | None = None
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = False
    auto_restatement_cron: str | None = None
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    loaders: tuple[tuple[str, str], ...] | None = Kind.later(None)
    stored: bool = Kind.later(False)
    skip_null: tuple[str, ...] = Kind.later(())
    name: Literal["FIRST_SEEN"] = "FIRST_SEEN"

    summary = "interval by interval; keeps the earliest row of each key, by time, then source"
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    properties = (
        Property.columns("key", required=True),
        Property.column("time", required=True),
        Property.column("source"),
        _LOADERS,
        Property.flag("stored"),
        _SKIP_NULL,
        *_FILLED,
    )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        if given.get("stored") and given.get("loaders") is None:
            raise ValueError(
                "the property 'stored' needs 'loaders'; without loaders the model has one table"
            )
        return cls(**given)

    @property
    def named_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.key, *self.order, *self.skip_null)))

    @property
    def fixed(self) -> tuple[str, ...]:
        return (*self.key, *self.order)

    @property
    def order(self) -> tuple[str, ...]:
        """The columns that determine the earliest row: the time, then the source."""
        return (self.time, *((self.source,) if self.source else ()))

    def expanded_models(
        self, model: Model, output_columns: Callable[[exp.Expr], list[str] | None]
    ) -> Sequence[Model]:
        """Return the model or, with `loaders`, a model per source and a model that unites these."""
        if self.loaders is None:
            return (model,)
        from vde_dagster.plugins.vault.loaders import split_by_source

        # Changes of the sources' tables determine the keys whose earliest row may have changed.
        stored = {"name": "INCREMENTAL_BY_CHANGES", "key": list(self.key)}
        return split_by_source(
            model,
            replace(self, loaders=None, stored=False),
            output_columns,
            whole=Kind.from_json(stored if self.stored else {"name": "VIEW"}),
            key=self.key,
            order=self.order,
            source=self.source,
            crons=dict(self.loaders),
        )


AGAIN, DELETED = "seen_again", "is_deleted"
_ABSENT = ("KEEP", "DELETE")


def _read_absent(value: Value) -> str:
    found = value.text().upper()
    if found not in _ABSENT:
        hint = "write absent DELETE, or absent KEEP"
        raise value.error(f"'absent' cannot be '{value.raw}'", hint)
    return found


def _read_share(value: Value) -> float:
    try:
        share = float(value.text())
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise value.error(f"'{value.raw}' is not a share", f"write a number like {value.name} 0.2")
    return share


@dataclass(frozen=True, slots=True)
class Changes(Kind):
    """A table that keeps the rows that change a key's state. Intervals can be filled in any order.

    Args:
        key: Output columns that identify the object with states; NULL in a key column is refused.
        time: The output column with the load date: DATE, TIMESTAMP, TIMESTAMP_NTZ.
        source: The output column with the record source, which is not compared.
        compare: Output columns whose values are the state; empty for all. Other columns do
            not begin a new state.
        set_key: Output columns that identify a row among the rows of one state; empty if a state is
            one row.
        absent: `DELETE` if a delivery (the rows of one time) deletes the keys that it lacks,
            otherwise `KEEP`.
        most_deleted: The maximum share of the previous delivery's keys that a delivery may delete.
        sequence: Output column that orders states of the same time; None if a key has at most one
            state at a time.
        skip_null: Output columns; a row with NULL in one is left out instead of being an error.
    """

    key: tuple[str, ...]
    time: str
    source: str | None = None
    compare: tuple[str, ...] = ()
    set_key: tuple[str, ...] = ()
    absent: str = "KEEP"
    most_deleted: float = 0.2
    lookback: int = 0
    batch_size: int | None = None
    disable_restatement: bool = False
    auto_restatement_cron: str | None = None
    forward_only: bool = Kind.later(False)
    on_destructive_change: str = Kind.later("error")
    on_additive_change: str = Kind.later("allow")
    sequence: str | None = Kind.later(None)
    skip_null: tuple[str, ...] = Kind.later(())
    name: Literal["CHANGES"] = "CHANGES"

    summary = "interval by interval; keeps each row that differs from the previous row of its key"
    by_intervals = True
    restates_whole = True
    changes_in_place = True
    properties = (
        Property.columns("key", required=True),
        Property.column("time", required=True),
        Property.column("source"),
        Property.columns("compare"),
        Property.columns("set_key"),
        Property.column("sequence"),
        Property("absent", _read_absent, {"type": "string", "enum": list(_ABSENT)}),
        Property("most_deleted", _read_share, {"type": "number", "minimum": 0, "maximum": 1}),
        _SKIP_NULL,
        *_FILLED,
    )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        if "most_deleted" in given and given.get("absent") != "DELETE":
            raise ValueError("the property 'most_deleted' needs 'absent DELETE'")
        if given.get("sequence") and given.get("absent") == "DELETE":
            raise ValueError("a full delivery has one state per key, so it cannot have a sequence")
        kind = cls(**given)
        named = Counter(map(str.lower, kind.identity))
        if twice := [name for name, times in named.items() if times > 1]:
            raise ValueError(
                f"'{twice[0]}' occurs twice in key, time, sequence and set_key; the key identifies "
                "an object with states, and the other columns identify the object's rows"
            )
        return kind

    @property
    def deletes(self) -> bool:
        return self.absent == "DELETE"

    @property
    def named_columns(self) -> tuple[str, ...]:
        source = (self.source,) if self.source else ()
        return tuple(dict.fromkeys((*self.identity, *source, *self.compare, *self.skip_null)))

    @property
    def fixed(self) -> tuple[str, ...]:
        # Rows of partial and of full deliveries mean different things, so they never share a table.
        return (*self.identity, *(["absent DELETE"] * self.deletes))

    @property
    def identity(self) -> tuple[str, ...]:
        """The columns that together identify a row of the table."""
        sequence = (self.sequence,) if self.sequence else ()
        return (*self.key, self.time, *sequence, *self.set_key)

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        """Columns that the kind adds to the table, for repeated states and for deleted keys."""
        sequence = ", sequence: STRING" if self.sequence else ""
        again = AddedColumn(
            AGAIN,
            f"ARRAY<STRUCT<at: TIMESTAMP, source: STRING{sequence}>>",
            "later times at which the same state arrived again",
        )
        gone = AddedColumn(DELETED, "BOOLEAN", "whether the key was gone from this time on")
        return (again, gone) if self.deletes else (again,)
