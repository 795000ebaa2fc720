"""Base class of model kinds, their properties, and the registry of kinds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

from vde_dagster.base.plugins import Seam
from vde_dagster.base.texts import suggest

if TYPE_CHECKING:
    from vde_dagster.errors import ProjectError
    from vde_dagster.project.property_value import Value


Json = Any
K = TypeVar("K", bound="Kind")


class HasKind(Protocol):
    """A value with a field `kind`, such as a model."""

    @property
    def kind(self) -> Kind:
        """Kind of the model."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a kind in a header: `kind NAME (property value, …)`.

    Args:
        read: Reads the property's value; raises ProjectError at the value's place.
        schema: JSON Schema of the value in a Python model's dictionary.
        names_columns: Whether its value names columns.
        has_default: Whether the setting `model_defaults` applies to it.
    """

    name: str
    read: Callable[[Value], Any]
    schema: Mapping[str, Any]
    required: bool = False
    names_columns: bool = False
    has_default: bool = True

    @staticmethod
    def flag(name: str) -> Property:
        """Define a property that is true or false."""
        return Property(name, lambda value: value.boolean(), {"type": "boolean"})

    @staticmethod
    def number(name: str, least: int = 1) -> Property:
        """Define a property that is a whole number, which must be at least `least`."""
        schema = {"type": "integer", "minimum": least}
        return Property(name, lambda value: value.integer(least), schema)

    @staticmethod
    def column(name: str, *, required: bool = False) -> Property:
        """Define a property whose value is the name of one column."""
        schema = {"type": "string"}
        return Property(name, lambda value: value.text(), schema, required, names_columns=True)

    @staticmethod
    def word(name: str, words: Sequence[str], what: str, plural: str) -> Property:
        """Define a property whose value is one of the given words, in lower case."""

        def read(value: Value) -> str:
            word = value.text().lower()
            if word not in words:
                raise value.error(f"'{word}' is not a {what}", suggest(word, words, plural))
            return word

        return Property(name, read, {"type": "string", "enum": list(words)})

    @staticmethod
    def columns(name: str, *, required: bool = False) -> Property:
        """Define a property whose value is one or more names of columns."""
        schema = {"type": ["string", "array"], "items": {"type": "string"}}
        return Property(name, _read_columns, schema, required, names_columns=True)


def _read_columns(value: Value) -> tuple[str, ...]:
    names = value.texts()
    if not all(names) or not names:
        raise no_column(value)
    return names


def no_column(value: Value) -> ProjectError:
    """Create the error for a property without the name of a column."""
    return value.error(
        f"property '{value.name}' names no column", f"write {value.name} (column, …)"
    )


@dataclass(frozen=True, slots=True)
class AddedColumn:
    """A column that a kind adds to the tables of its models, such as `valid_from`."""

    name: str
    type: str
    description: str | None = None


@dataclass(frozen=True, slots=True)
class IntervalColumn:
    """Output column that assigns rows to intervals, with its strftime format if it is text."""

    name: str
    format: str | None = None


_LATER = "later"
_STORED = "stored"
_ABSENT = "absent"
POLICIES = ("error", "warn", "allow", "ignore")


def _policy(name: str) -> Property:
    return Property.word(name, POLICIES, "policy", "policies")


class Kind:
    """Kind of model, which defines how its table is filled.

    Subclasses are frozen dataclasses whose last field is `name`.

    Attributes:
        aliases: Older names, which headers may also use.
        summary: How its tables are filled, for the documentation.
        properties: Properties that are written in brackets after its name.
        ignored: Properties that are accepted without effect.
        needs: Required properties of its models.
        has_query: Whether its models have a query or code.
        is_shown: Whether environments have views of its models.
        is_external: Whether other programs write its tables.
        is_read: Whether other models can read its models.
        by_intervals: Whether its tables are filled by intervals of time, not as a whole.
        in_order: Whether batches are filled in ascending order, one at a time, without gaps.
        restates_whole: Whether restating a range refills everything from the first interval on.
        lookback: Number of earlier intervals that are filled again with each new interval.
        batch_size: Maximum number of intervals per job; if None, `spark.batch_bytes` may limit it.
        batch_concurrency: Maximum number of concurrent jobs; None for one.
        disable_restatement: Whether production never restates the models.
        auto_restatement_cron: Cron expression: production's first run after each tick restates
            filled intervals; None for never.
        auto_restatement_intervals: Number of latest intervals to restate; None for all.
        changes_in_place: Whether its tables can be reused in place with another definition.
        forward_only: Whether every change of its models is made in place.
        on_destructive_change: Policy for removed columns and changed types: one of `POLICIES`.
        on_additive_change: Policy for added and widened columns.
        LOOKBACK: Property `lookback`; kinds with this field can add it to `properties`.
        REFRESH: Property `refresh`; kinds with this field can add it to `properties`.
        RESTATEMENT: Properties `disable_restatement` and `auto_restatement_cron`.
        IN_PLACE: Property `forward_only`, and properties for the two policies.
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

    LOOKBACK: ClassVar = Property.number("lookback", 0)
    BATCH_SIZE: ClassVar = Property.number("batch_size")
    BATCH_CONCURRENCY: ClassVar = Property.number("batch_concurrency")
    # The default in `model_defaults` is that of FULL models.
    REFRESH: ClassVar = dataclasses.replace(
        Property.word("refresh", ("whole", "changes"), "way to refresh", "ways"), has_default=False
    )
    RESTATEMENT: ClassVar = (
        Property.flag("disable_restatement"),
        Property("auto_restatement_cron", lambda value: value.cron(), {"type": "string"}),
    )
    IN_PLACE: ClassVar = (
        Property.flag("forward_only"),
        _policy("on_destructive_change"),
        _policy("on_additive_change"),
    )

    @classmethod
    def from_model(cls: type[K], model: HasKind) -> K:
        """Return a model's kind, which must be of this class."""
        assert isinstance(model.kind, cls)
        return model.kind

    @staticmethod
    def from_json(data: Json) -> Kind:
        """Create a kind of any class from its JSON fields, such as `{"name": "VIEW"}`.

        Raises:
            UsageError: The kind's distribution is not installed, or is broken.
        """
        values = {key: as_tuples(value) for key, value in data.items() if key != "name"}
        kind = KINDS.require(data["name"])
        fields = dataclasses.fields(kind)  # type: ignore[arg-type]
        absent = {f.name: f.metadata[_ABSENT] for f in fields if _ABSENT in f.metadata}
        return kind(**{**absent, **values})

    @staticmethod
    def named(name: str, **properties: Any) -> Kind:
        """Create a kind from its name in headers and the values of its properties.

        Raises:
            UsageError: The kind's distribution is not installed, or is broken.
            ValueError: The values cannot be combined; the message has the reason.
        """
        return KINDS.require(name).from_properties(properties)

    @staticmethod
    def later(default: Any, *, hashed: bool = True, absent: Any = ...) -> Any:
        """Declare a field that was added after models of the kind had been stored.

        Args:
            hashed: Whether hashes include the field's value if it differs from `absent`.
            absent: Value for models that were stored without the field; by default `default`.
        """
        # Models that were stored without the field keep their hashes.
        value = default if absent is ... else absent
        return field(
            default=default, metadata={_LATER: _LATER if hashed else _STORED, _ABSENT: value}
        )

    @classmethod
    def from_properties(cls, given: Mapping[str, Any]) -> Kind:
        """Create the kind from its properties in a header, as read by `Property.read`.

        Raises:
            ValueError: The values cannot be combined; the message has the reason.
        """
        return cls(**given)

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Output columns that the kind's properties name, such as the time column."""
        return ()

    @property
    def assignments(self) -> tuple[tuple[str, str], ...]:
        """Assignments of a merge: (output column, Spark SQL over `source` and `target`)."""
        return ()

    @property
    def conditions(self) -> tuple[str, ...]:
        """Merge conditions, as Spark SQL over columns of `source` and `target`."""
        return ()

    @property
    def key_of_rows(self) -> tuple[str, ...]:
        """Output columns by which fills merge rows, so that a table has at most one row per key."""
        return ()

    def expression_queries(self, table: str) -> Mapping[str, str]:
        """Return, by property, a query of its Spark SQL expressions over the model's rows.

        Checks find operators of another dialect in these queries.

        Args:
            table: Quoted name of the model's table.
        """
        return {}

    @property
    def added_columns(self) -> tuple[AddedColumn, ...]:
        """Columns that the kind adds to the columns of a model's query."""
        return ()

    @property
    def interval_column(self) -> IntervalColumn | None:
        """Column that assigns each row to an interval, or None if the table has no such column."""
        return None

    def with_time_format(self, text: str | None) -> Kind:
        """Return the kind with `text` as the format of a time column that has no format."""
        return self

    @property
    def fixed(self) -> tuple[str, ...]:
        """Columns, key expressions and options that a new definition must keep to reuse a table.

        The types of these columns must stay, too.
        """
        return self.named_columns

    @property
    def by_partitions(self) -> bool:
        """Whether a fill replaces whole partitions."""
        return False

    @property
    def refills(self) -> bool:
        """Whether an interval can be filled again without duplicate rows."""
        return True

    @property
    def files(self) -> tuple[str, ...]:
        """Project files that a model of the kind consists of, relative to the root."""
        return ()

    @property
    def text(self) -> str:
        """The kind with the values of its fields as text, for hashing."""
        hashed: list[str] = []
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            value, later_ = getattr(self, item.name), item.metadata.get(_LATER)
            if not later_ or (later_ != _STORED and value != item.metadata[_ABSENT]):
                hashed.append(f"{item.name}={value!r}")
        return f"{type(self).__qualname__}({', '.join(hashed)})"


@dataclass(slots=True)
class Registry:
    """The available kinds of models, in the order of the documentation.

    Args:
        by_name: Built-in kinds.
        unwritten: Kinds that a header cannot name.
        plugins: Kinds from plug-ins.
    """

    by_name: dict[str, type[Kind]] = field(default_factory=dict)
    unwritten: dict[str, type[Kind]] = field(default_factory=dict)
    plugins: Seam[type[Kind]] = field(default_factory=lambda: Seam("kinds"))

    def add(self, *kinds: type[Kind]) -> None:
        """Register kinds for headers, Python models and JSON."""
        for kind in kinds:
            self.by_name[kind_name(kind)] = kind

    def named(self, name: str) -> type[Kind] | None:
        """Return the kind with a name or alias, or None for an unknown name."""
        found = (kind for kind in self.by_name.values() if name in kind.aliases)
        return self.by_name.get(name) or next(found, None) or self.plugins.find(name)

    def require(self, name: str) -> type[Kind]:
        """Return the kind for a name that was stored in the state.

        Raises:
            UsageError: The kind's distribution is not installed, or is broken.
        """
        return self.by_name.get(name) or self.unwritten.get(name) or self.plugins.require(name)


KINDS = Registry()


def kind_name(kind: type[Kind]) -> str:
    """Return the name that a header uses for a kind, such as `FULL`."""
    names: dict[str, dataclasses.Field[str]] = {f.name: f for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return str(names["name"].default)


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds that headers can name."""
    return (*KINDS.by_name, *KINDS.plugins.names())


def column_properties() -> frozenset[str]:
    """Return the names of properties whose values are columns.

    The result covers built-in kinds, and kinds of plug-ins that are loaded.
    """
    return frozenset(
        item.name
        for kind in (*KINDS.by_name.values(), *KINDS.plugins.loaded())
        for item in kind.properties
        if item.names_columns
    )


def as_tuples(value: Json) -> Any:
    """Convert lists to tuples at every depth."""
    return tuple(as_tuples(item) for item in value) if isinstance(value, list) else value


def kind_schema() -> dict[str, Any]:
    """Return the JSON Schema of the value of `kind` in Python models."""
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
