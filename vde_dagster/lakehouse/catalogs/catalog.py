"""The protocol of an Iceberg catalog, and its guarantees.

A catalog maps names of tables and views to pointers. A pointer is the location of the current
metadata file. Publishing and cleanup are the same for all catalogs, and compensate for guarantees
that a catalog does not give (see `finish_publication`).
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
    """Describes a catalog that changes its pointers within the state's own transaction."""

    follows: ClassVar[bool] = False
    together: ClassVar[bool] = True
    keeps_pointers: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Change the pointers as part of `within`, the transaction that records a publication."""
        catalog.swap(swaps, within)


@dataclass(frozen=True, slots=True)
class Following:
    """Describes a catalog that changes its pointers after the state has decided a publication.

    Args:
        together: Whether the catalog can change many pointers atomically, not only one by one.
        keeps_pointers: Whether the current metadata file of a table is the one that vde wrote. If
            False, the catalog writes its own file for each change of a table.
    """

    # If a process ends between decision and change, the next process completes the changes.
    together: bool
    # If False, the catalog has no views of vde, and environments exist only in the state.
    keeps_pointers: bool = True
    follows: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Raise PointerMovedError if a pointer is not at the file that a swap expects."""
        pointers = catalog.pointers([swap.ref for swap in swaps])
        for swap in swaps:
            swap.require_unmoved(pointers.get(swap.ref))


Form = InTransaction | Following
"""Order in which the state and a catalog change: together, or the catalog after the state."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The pointer of a table or view.

    Args:
        location: The current metadata file.
        kind: `TABLE` or `VIEW`.
        change: Id of vde's last change; None unless the catalog writes its own metadata files.
    """

    location: str
    kind: str
    change: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Swap:
    """The change of one pointer.

    Args:
        before: The metadata file at which the pointer must be; None if the name must not exist.
        after: The new metadata file; None to remove the name.
        becomes: The new kind if a table replaces a view, or a view replaces a table.
        updates: The difference between `before` and `after`. A catalog that writes its own files
            receives these updates in place of `after`.
    """

    ref: TableRef
    kind: str
    before: str | None
    after: str | None
    becomes: str | None = None
    updates: Updates = field(default=(), compare=False, repr=False)

    def is_possible(self, pointer: Pointer | None) -> bool:
        """Return whether a pointer is at `before`."""
        if pointer is None or self.before is None:
            return pointer is None and self.before is None
        return pointer.location == self.before and pointer.kind == self.kind

    def require_unmoved(self, pointer: Pointer | None) -> None:
        """Raise a PointerMovedError unless a pointer is at `before`."""
        if not self.is_possible(pointer):
            raise self.moved()

    def moved(self) -> PointerMovedError:
        """Build the error for a pointer that has moved away from `before`."""
        return PointerMovedError(self.ref, self.kind)

    def is_done(self, pointer: Pointer | None) -> bool:
        """Return whether a pointer is at `after`."""
        if pointer is None or self.after is None:
            return pointer is None and self.after is None
        return self.after in (pointer.location, pointer.change)


class PointerMovedError(ConflictError):
    """A pointer moved after it was read."""

    def __init__(self, ref: TableRef, kind: str) -> None:
        super().__init__(
            f"the {kind.lower()} {ref} was changed by another writer meanwhile",
            hint="plan again; if a program other than vde replaces views in this catalog, "
            "stop that program first",
        )
        self.ref = ref
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SparkCatalog:
    """Spark's configuration for a catalog.

    Args:
        packages: Maven coordinates of the jars that the catalog needs.
        driver: Java class that the catalog needs, such as a JDBC driver.
    """

    properties: Mapping[str, str] = field(repr=False)
    packages: tuple[str, ...] = ()
    driver: str | None = None
    database: str | None = None


class ViewMirror(Protocol):
    """Reads, writes and drops copies of an environment's views in a catalog."""

    @property
    def wanted(self) -> bool:
        """Whether the project mirrors views."""
        ...

    def load(self, ref: TableRef) -> dict[str, Any] | None:
        """Return a view's metadata, or None if the view does not exist."""
        ...

    def write(self, ref: TableRef, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """Create or replace a view."""
        ...

    def drop(self, ref: TableRef) -> None:
        """Remove a view, if it exists."""
        ...


class Catalog(Protocol):
    """An Iceberg catalog.

    `within` is a transaction of the state store. An `InTransaction` catalog makes a change as part
    of this transaction; a `Following` catalog ignores `within` and makes the change at once.
    """

    @property
    def name(self) -> str:
        """The catalog's name, which is also its name in Spark."""
        ...

    @property
    def form(self) -> Form:
        """`InTransaction` or `Following`: whether pointers change with the state or after it."""
        ...

    @property
    def mirror(self) -> ViewMirror | None:
        """Access to copies of views, or None if publications write the views themselves."""
        ...

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Look up the pointers of the given names. Missing names are left out.

        Raises:
            StoreError: The catalog cannot be reached.
        """
        ...

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """Return the pointers of all tables and views, by name."""
        ...

    def every_pointer(self) -> list[Pointer]:
        """List all pointers in the catalog's database, which may hold other catalogs, too."""
        ...

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Create, move or remove tables and views by comparing and swapping their pointers.

        Args:
            swaps: The changes; exactly one if the catalog cannot change several pointers together.

        Raises:
            PointerMovedError: A pointer is not at `before`; nothing was changed.
            StoreError: The catalog cannot be reached; the changes may have happened.
        """
        ...

    def namespaces(self, names: Iterable[str], within: Connection | None = None) -> set[str]:
        """Return the given namespaces that exist in the catalog."""
        ...

    def create_namespaces(
        self, namespaces: Mapping[str, Mapping[str, str]], within: Connection | None = None
    ) -> None:
        """Create missing namespaces, each with its properties."""
        ...

    def drop_namespace(self, name: str, within: Connection | None = None) -> bool:
        """Remove a namespace if it is empty. Return whether it was removed."""
        ...

    def for_spark(self) -> SparkCatalog:
        """Return Spark's configuration for this catalog."""
        ...
