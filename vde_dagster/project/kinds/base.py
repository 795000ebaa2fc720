"""The base class of model kinds, kinds without properties, and the registry of kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

from vde_dagster.base.plugins import Seam

if TYPE_CHECKING:
    from vde_dagster.errors import ProjectError
    from vde_dagster.project.model import Model
    from vde_dagster.project.properties.header import Value
    from vde_dagster.project.reading.columns import ColumnsOf


Json = Any


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a kind: `kind NAME (property value, …)`.

    Args:
        read: Reads its value; raises ProjectError at the value's place.
        schema: JSON Schema of the value in a Python model's dictionary.
        names_columns: Whether its value names columns, which are written without quotes.
    """

    name: str
    read: Callable[[Value], Any]
    schema: Mapping[str, Any]
    required: bool = False
    names_columns: bool = False


def columns_property(name: str, *, required: bool = False) -> Property:
    """Return a property whose value names one or more columns."""
    schema = {"type": ["string", "array"], "items": {"type": "string"}}
    return Property(name, _read_columns, schema, required=required, names_columns=True)


def _read_columns(value: Value) -> tuple[str, ...]:
    names = value.texts()
    if not all(names) or not names:
        raise no_column(value)
    return names


def no_column(value: Value) -> ProjectError:
    """Return the mistake of a property that should name a column and names none."""
    return value.error(
        f"property '{value.name}' names no column", f"write {value.name} (column, …)"
    )


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that a kind gives its tables; the query may not have one of its name."""

    name: str
    type: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class IntervalColumn:
    """The output column that tells the rows of one interval from those of others.

    Args:
        format: strftime format of the column when it is text, else None.
    """

    name: str
    format: str | None = None


POLICIES = ("error", "warn", "allow", "ignore")


class Kind:
    """A kind of model, which decides how its table is filled: a frozen dataclass, `name` its last
    field.

    The core asks a kind these questions and never which one it is. What a kind means for plans is
    in `planning.kinds`, how its tables are written in `spark.strategies`.

    Attributes:
        aliases: Older names, which headers may use, too.
        summary: How its tables are filled, for the documentation.
        properties: What may be written in its brackets.
        ignored: Properties that are accepted and say nothing.
        needs: Properties that its models have to give.
        has_query: Whether its models are queries or code.
        is_shown: Whether environments have views of its models.
        is_external: Whether others write its tables.
        is_read: Whether models can read its models.
        by_intervals: Whether its tables are filled by intervals of time, not whole.
        in_order: Whether intervals are filled one after the other, without gaps, never backwards,
            as their rows depend on those that are there.
        restates_whole: Whether a range can only be filled again with everything from the first
            filled interval on.
        lookback: How many earlier intervals each new one fills again; like the next, a field of
            kinds that let people set it.
        batch_size: The most intervals that one job fills, or None for as many as are missing.
        batch_concurrency: How many such jobs may run at the same time, or None for one.
        disable_restatement: Whether production keeps what is filled for good: its sources may have
            it no longer.
        auto_restatement_cron: Five fields: production's first run after each tick fills what is
            filled again; None for never.
        auto_restatement_intervals: How many of the last intervals it fills, or None for all.
        changes_in_place: Whether its tables can go on with another definition.
        forward_only: Whether every change of its models is made so.
        on_destructive_change: What to do when columns go or change their type: one of `POLICIES`.
        on_additive_change: The same when columns are added or widen.
    """

    __slots__ = ()

    name: str
    aliases: ClassVar[tuple[str, ...]] = ()
    summary: ClassVar[str]
    properties: ClassVar[tuple[Property, ...]] = ()
    ignored: ClassVar[frozenset[str]] = frozenset()
    needs: ClassVar[tuple[str, ...]] = ()
    has_query: ClassVar[bool] = True
    allows_python: ClassVar[bool] = True
    owns_table: ClassVar[bool] = True
    is_shown: ClassVar[bool] = True
    is_external: ClassVar[bool] = False
    is_audited: ClassVar[bool] = True
    is_read: ClassVar[bool] = True
    by_intervals: ClassVar[bool] = False
    in_order: ClassVar[bool] = False
    restates_whole: ClassVar[bool] = False
    lookback: int = 0
    batch_size: int | None = None
    batch_concurrency: int | None = None
    disable_restatement: bool = False
    auto_restatement_cron: str | None = None
    auto_restatement_intervals: int | None = None
    changes_in_place: ClassVar[bool] = False
    forward_only: bool = False
    on_destructive_change: str = "error"
    on_additive_change: str = "allow"

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Kind:
        """Make the kind from the values of its properties, as `Property.read` returned them.

        Raises:
            ValueError: They cannot go together; the message says why.
        """
        return cls(**given)

    def made_of(self, model: Model, columns_of: ColumnsOf) -> Sequence[Model]:
        """Return the models that stand for one of this kind: itself, in most kinds.

        Args:
            columns_of: Tells the columns of a table that the model reads; raises NotToldError.
        """
        return (model,)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Output columns that its properties name."""
        return ()

    @property
    def assignments(self) -> tuple[tuple[str, str], ...]:
        """Assignments of a merge: (output column, Spark SQL over `source` and `target`)."""
        return ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Conditions of merging, as Spark SQL over columns of `source` and `target`."""
        return ()

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        """Columns that its tables have and its models' queries have not."""
        return ()

    @property
    def interval_column(self) -> IntervalColumn | None:
        """The column that tells intervals apart; None when rows do not say where they belong."""
        return None

    def with_time_format(self, text: str | None) -> Kind:
        """Return the kind with a format of text times, where it needs one and has none."""
        return self

    @property
    def fixed(self) -> tuple[str, ...]:
        """Columns and expressions that tell rows apart.

        They stay when a table changes in place, as do the types of columns in them.
        """
        return self.named_columns

    @property
    def by_partitions(self) -> bool:
        """Whether the table's partitions tell its rows apart, too."""
        return False

    @property
    def refills(self) -> bool:
        """Whether an interval can be filled again beside others; else its rows are added again."""
        return True

    @property
    def files(self) -> tuple[str, ...]:
        """Files of the project that its models are made of, relative to the root."""
        return ()

    @property
    def text(self) -> str:
        """The kind with its properties, as it is hashed."""
        hashed: list[str] = []
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            value, later_ = getattr(self, item.name), item.metadata.get(_LATER)
            if not later_ or (later_ != _STORED and value != item.default):
                hashed.append(f"{item.name}={value!r}")
        return f"{type(self).__qualname__}({', '.join(hashed)})"


_LATER = "later"
_STORED = "stored"


def later(default: Any, *, hashed: bool = True) -> Any:
    """Return a field of a kind that was stored before it had the field.

    At its default it is in no hash, so that nothing that exists changes.

    Args:
        default: What kinds have that were stored before.
        hashed: Whether other values are in hashes.
    """
    return field(default=default, metadata={_LATER: _LATER if hashed else _STORED})


KindClass = TypeVar("KindClass", bound="type[Kind]")


@dataclass(slots=True)
class Registry:
    """The kinds that there are, in the order in which people are told of them.

    Args:
        by_name: Those of the product.
        unwritten: Those that no header names: how a model is defined decides.
        plugins: Those of other distributions.
    """

    by_name: dict[str, type[Kind]] = field(default_factory=dict)
    unwritten: dict[str, type[Kind]] = field(default_factory=dict)
    plugins: Seam[type[Kind]] = field(default_factory=lambda: Seam("kinds"))

    def add(self, *kinds: type[Kind]) -> None:
        """Let kinds be used in headers, Python models and JSON."""
        for kind in kinds:
            self.by_name[kind_name(kind)] = kind

    def named(self, name: str) -> type[Kind] | None:
        """Return the kind that a header calls by a name, or by an older one."""
        found = (kind for kind in self.by_name.values() if name in kind.aliases)
        return self.by_name.get(name) or next(found, None) or self.plugins.find(name)


KINDS = Registry()


def kind_name(kind: type[Kind]) -> str:
    """Return the name by which headers call a kind."""
    names: dict[str, dataclasses.Field[str]] = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return str(names["name"].default)


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, the product's and those that are installed."""
    return (*KINDS.by_name, *KINDS.plugins.names())


def column_properties() -> frozenset[str]:
    """Return the properties, of whatever kind that is used, whose values name columns."""
    return frozenset(
        item.name
        for kind in (*KINDS.by_name.values(), *KINDS.plugins.loaded())
        for item in kind.properties
        if item.names_columns
    )


def kind_from_json(data: Json) -> Kind:
    """Read a kind from its fields, as JSON has them, with its `name`.

    Raises:
        UsageError: The kind is of a distribution that is not installed any more, or is broken.
    """
    values = {key: as_tuples(value) for key, value in data.items() if key != "name"}
    name = data["name"]
    kind = KINDS.by_name.get(name) or KINDS.unwritten.get(name) or KINDS.plugins.require(name)
    return kind(**values)


def as_tuples(value: Json) -> Any:
    """Make tuples of the lists that JSON has in their place, at every depth."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value


def kind_schema() -> dict[str, Any]:
    """Return the JSON Schema of a kind as Python models write it: a name, or a dictionary."""
    kinds = {**KINDS.plugins.working(), **KINDS.by_name}
    bare = [name for name, kind in kinds.items() if not _required(kind)]
    return {"anyOf": [{"enum": bare}, *(_schema(kind) for kind in kinds.values())]}


def _schema(kind: type[Kind]) -> dict[str, Any]:
    properties = {item.name: dict(item.schema) for item in kind.properties}
    return {
        "type": "object",
        "description": kind.summary,
        "properties": {"name": {"const": kind_name(kind)}, **properties},
        "required": ["name", *_required(kind)],
        "additionalProperties": False,
    }


def _required(kind: type[Kind]) -> list[str]:
    return [item.name for item in kind.properties if item.required]


@dataclass(frozen=True, slots=True)
class Full(Kind):
    """Rebuilt whole, once per cron tick."""

    name: Literal["FULL"] = "FULL"

    summary = "whole, in one commit"


@dataclass(frozen=True, slots=True)
class View(Kind):
    """A query without a table of its own: every environment's view holds it."""

    name: Literal["VIEW"] = "VIEW"

    summary = (
        "no table: readers inline the query, the environment's view holds it; it has no interval, "
        "so time variables are refused"
    )
    allows_python = False
    owns_table = False
    ignored = frozenset({"materialized"})


@dataclass(frozen=True, slots=True)
class Embedded(Kind):
    """A query that is only ever inlined into its readers: neither a table nor a view."""

    name: Literal["EMBEDDED"] = "EMBEDDED"

    summary = (
        "neither table nor view: readers inline it; its time variables are those of its reader"
    )
    allows_python = False
    owns_table = False
    is_shown = False
    is_audited = False


@dataclass(frozen=True, slots=True)
class External(Kind):
    """A table that other programs write; models only read it.

    Args:
        partial: Whether the table may have columns that are not declared.
    """

    partial: bool = later(False)
    name: Literal["EXTERNAL"] = "EXTERNAL"

    summary = "by others"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_external = True


@dataclass(frozen=True, slots=True)
class StandaloneAudit(Kind):
    """A check in the graph: it reads models, nobody reads it, and it has neither table nor view."""

    name: Literal["AUDIT"] = "AUDIT"

    summary = "a check of its own, neither table nor view"
    has_query = False
    allows_python = False
    owns_table = False
    is_shown = False
    is_read = False
