"""What an Iceberg catalog has to do, and what it can promise.

A catalog keeps names and where each is at: its pointer, a metadata file. Everything above it (who
writes files, what the state records with a change, what is cleaned up) is the same for all; what
a catalog cannot promise is made up for there (see `finish_publication`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.metadata.changes import Updates
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from sqlalchemy import Connection


VIEW = "VIEW"
TABLE = "TABLE"


@dataclass(frozen=True, slots=True)
class InTransaction:
    """Changes are part of the state's own transaction, with which they happen or not."""

    follows: ClassVar[bool] = False
    together: ClassVar[bool] = True
    keeps_pointers: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Change pointers with the state's decision."""
        catalog.swap(swaps, within)


@dataclass(frozen=True, slots=True)
class Following:
    """Changes follow what the state has decided; whoever comes next finishes them.

    Args:
        together: Whether any number of changes happen all together or not at all, else one by one.
        keeps_pointers: Whether a pointer names the metadata file that it was swapped to, be it a
            view's. Where it is not so, the catalog makes each change of a table in a file of its
            own, and has no views: an environment is what the state says.
    """

    together: bool
    keeps_pointers: bool = True
    follows: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Make sure that pointers, which follow, are where the changes demand them."""
        require_unmoved(catalog.pointers([swap.ref for swap in swaps]), swaps)


Form = InTransaction | Following
"""The form in which a catalog promises that what is published together shows together."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where a table or view is at.

    Args:
        change: The metadata file that its last change of ours was made from, where the catalog
            makes changes in files of its own.
    """

    location: str
    kind: str
    change: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Swap:
    """One pointer's change.

    Args:
        before: The metadata file that it has to be at; None when there may be no such name.
        after: The one that it goes to; None to remove it.
        becomes: What it is from then on, where a table takes a view's place or a view a table's.
        updates: The change of a table from `before`, which a catalog that makes changes in files
            of its own is sent in place of `after`.
    """

    ref: TableRef
    kind: str
    before: str | None
    after: str | None
    becomes: str | None = None
    updates: Updates = field(default=(), compare=False, repr=False)

    def is_possible(self, pointer: Pointer | None) -> bool:
        """Say whether a pointer is where this change demands it."""
        if pointer is None or self.before is None:
            return pointer is None and self.before is None
        return pointer.location == self.before and pointer.kind == self.kind

    def is_done(self, pointer: Pointer | None) -> bool:
        """Say whether a pointer is where this change puts it."""
        if pointer is None or self.after is None:
            return pointer is None and self.after is None
        return self.after in (pointer.location, pointer.change)


class PointerMovedError(ConflictError):
    """A pointer is not where it was read."""

    def __init__(self, ref: TableRef, kind: str) -> None:
        super().__init__(
            f"the {kind.lower()} {ref} was changed by somebody else during the publication",
            hint="plan again; if a program other than vde replaces views here, stop it first",
        )
        self.ref = ref
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SparkCatalog:
    """How Spark reaches a catalog."""

    properties: Mapping[str, str] = field(repr=False)
    packages: tuple[str, ...] = ()
    driver: str | None = None
    database: str | None = None


class ViewMirror(Protocol):
    """Views that follow environments in a catalog where they decide nothing; see `mirror`."""

    @property
    def wanted(self) -> bool:
        """Whether there are to be any; otherwise those that were are taken away."""
        ...

    def load(self, ref: TableRef) -> dict[str, Any] | None:
        """Return a view's metadata, or None where there is none."""
        ...

    def write(self, ref: TableRef, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """Make a view, or make another one of it."""
        ...

    def drop(self, ref: TableRef) -> None:
        """Remove a view, if it is there."""
        ...


class Catalog(Protocol):
    """An Iceberg catalog; `within` is a transaction of the state store to take part in.

    One that is `Following` leaves `within` alone: its changes happen at once.
    """

    @property
    def name(self) -> str:
        """The catalog's name, the same as in Spark."""
        ...

    @property
    def form(self) -> Form:
        """The form of its promise."""
        ...

    @property
    def mirror(self) -> ViewMirror | None:
        """Views that follow environments, where publications keep none there."""
        ...

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Look up the pointers of the given names; absent ones are left out.

        Raises:
            StoreError: The catalog cannot be reached.
        """
        ...

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """List every table and view."""
        ...

    def every_pointer(self) -> list[Pointer]:
        """List the pointers of all tables and views, also of catalogs in the same database."""
        ...

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Compare and swap pointers: create, move or remove tables and views.

        Args:
            swaps: The changes; no more than one where the catalog does not make several together.

        Raises:
            PointerMovedError: One of them is not at `before`; nothing was changed.
            StoreError: The catalog cannot be reached; the changes may have happened.
        """
        ...

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        """Return those of the namespaces that the catalog has."""
        ...

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        """Create namespaces, each with its properties, that the catalog has not yet."""
        ...

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace that holds nothing, nor a namespace below it; say whether it did."""
        ...

    def for_spark(self) -> SparkCatalog:
        """Say how Spark reaches it."""
        ...


def require_unmoved(pointers: Mapping[TableRef, Pointer], swaps: Sequence[Swap]) -> None:
    """Raise a PointerMovedError where a pointer is not where its change demands it."""
    for swap in swaps:
        if not swap.is_possible(pointers.get(swap.ref)):
            raise PointerMovedError(swap.ref, swap.kind)
