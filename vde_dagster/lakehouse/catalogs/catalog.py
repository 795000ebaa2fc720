"""The protocol of an Iceberg catalog, and its guarantees.

A catalog stores names and their pointers, each the location of a metadata file. Code above it
(writing files, recording changes in the state, clean-up) is the same for all catalogs, and makes
up for the guarantees that a catalog lacks (see `finish_publication`).
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
    """Changes are part of the state's own transaction, and commit or roll back with it."""

    follows: ClassVar[bool] = False
    together: ClassVar[bool] = True
    keeps_pointers: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Change pointers in the transaction of the state's decision."""
        catalog.swap(swaps, within)


@dataclass(frozen=True, slots=True)
class Following:
    """Changes follow the state's decision; the next process completes unfinished ones.

    Args:
        together: Whether the catalog changes many pointers atomically; otherwise one by one.
        keeps_pointers: Whether pointers of tables and views keep the file names that vde sets.
            Otherwise the catalog writes its own file for each change of a table, and has no views:
            environments exist only in the state.
    """

    together: bool
    keeps_pointers: bool = True
    follows: ClassVar[bool] = True

    def decide(self, catalog: Catalog, swaps: Sequence[Swap], within: Connection) -> None:
        """Make sure that all pointers are still at their expected positions."""
        pointers = catalog.pointers([swap.ref for swap in swaps])
        for swap in swaps:
            swap.require_unmoved(pointers.get(swap.ref))


Form = InTransaction | Following
"""Order in which the state and a catalog change: together, or the catalog after the state."""


@dataclass(frozen=True, slots=True)
class Pointer:
    """The current position of a table or view.

    Args:
        location: The current metadata file.
        kind: `TABLE` or `VIEW`.
        change: Id of vde's last change, in a catalog that writes its own metadata files.
    """

    location: str
    kind: str
    change: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Swap:
    """The change of one pointer.

    Args:
        kind: `TABLE` or `VIEW`.
        before: The required current metadata file; None if the name must not exist.
        after: The next metadata file; None to remove the name.
        becomes: The new kind if a table replaces a view, or a view replaces a table.
        updates: The change of a table since `before`, sent in place of `after` to a catalog that
            writes its own files.
    """

    ref: TableRef
    kind: str
    before: str | None
    after: str | None
    becomes: str | None = None
    updates: Updates = field(default=(), compare=False, repr=False)

    def is_possible(self, pointer: Pointer | None) -> bool:
        """Return whether a pointer is where this change expects it."""
        if pointer is None or self.before is None:
            return pointer is None and self.before is None
        return pointer.location == self.before and pointer.kind == self.kind

    def require_unmoved(self, pointer: Pointer | None) -> None:
        """Raise a PointerMovedError if a pointer is not where this change expects it."""
        if not self.is_possible(pointer):
            raise self.moved()

    def moved(self) -> PointerMovedError:
        """Return the error for a pointer that moved after it was read."""
        return PointerMovedError(self.ref, self.kind)

    def is_done(self, pointer: Pointer | None) -> bool:
        """Return whether a pointer is where this change moves it."""
        if pointer is None or self.after is None:
            return pointer is None and self.after is None
        return self.after in (pointer.location, pointer.change)


class PointerMovedError(ConflictError):
    """A pointer moved after it was read."""

    def __init__(self, ref: TableRef, kind: str) -> None:
        super().__init__(
            f"the {kind.lower()} {ref} was changed by another writer during the publication",
            hint="plan again; if a program other than vde replaces views here, stop it first",
        )
        self.ref = ref
        self.kind = kind


@dataclass(frozen=True, slots=True)
class SparkCatalog:
    """Spark's configuration for a catalog."""

    properties: Mapping[str, str] = field(repr=False)
    packages: tuple[str, ...] = ()
    driver: str | None = None
    database: str | None = None


class ViewMirror(Protocol):
    """Views in a catalog that only show environments and define nothing; see `mirror`."""

    @property
    def wanted(self) -> bool:
        """Whether views are mirrored; otherwise existing mirrored views are removed."""
        ...

    def load(self, ref: TableRef) -> dict[str, Any] | None:
        """Return a view's metadata, or None without such a view."""
        ...

    def write(self, ref: TableRef, before: dict[str, Any] | None, after: dict[str, Any]) -> None:
        """Create or replace a view."""
        ...

    def drop(self, ref: TableRef) -> None:
        """Remove a view, if it exists."""
        ...


class Catalog(Protocol):
    """An Iceberg catalog; a call joins the transaction of the state store given as `within`.

    A `Following` catalog ignores `within`: its changes happen at once.
    """

    @property
    def name(self) -> str:
        """The catalog's name, the same as in Spark."""
        ...

    @property
    def form(self) -> Form:
        """Order of changes to the state and to the catalog."""
        ...

    @property
    def mirror(self) -> ViewMirror | None:
        """Mirrored views, if publications write no views to the catalog."""
        ...

    def pointers(
        self, refs: Iterable[TableRef], within: Connection | None = None
    ) -> dict[TableRef, Pointer]:
        """Look up the pointers of the given names; missing names are left out.

        Raises:
            StoreError: The catalog cannot be reached.
        """
        ...

    def all_pointers(self, within: Connection | None = None) -> dict[TableRef, Pointer]:
        """Return the pointers of all tables and views, by name."""
        ...

    def every_pointer(self) -> list[Pointer]:
        """List the pointers of all tables and views in the catalog's database."""
        ...

    def swap(self, swaps: Sequence[Swap], within: Connection | None = None) -> None:
        """Compare and swap pointers: create, move or remove tables and views.

        Args:
            swaps: The changes; only one unless the catalog changes several together.

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
        """Remove an empty namespace without nested namespaces; return whether it was removed."""
        ...

    def for_spark(self) -> SparkCatalog:
        """Return Spark's configuration for this catalog."""
        ...
