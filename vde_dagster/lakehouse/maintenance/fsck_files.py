"""Search for missing and damaged files that pointers and kept versions reach.

The check descends from metadata files to manifest lists, manifests and data files. A file that
several snapshots share is read once, and files in object stores are read in parallel. Each damaged
file is reported once, and the check continues with the other files.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.errors import MISSING, DamagedFileError
from vde_dagster.lakehouse.catalogs.catalog import VIEW, Pointer
from vde_dagster.lakehouse.io.files import MetadataFiles, normalized_location, read_metadata
from vde_dagster.lakehouse.io.locations import is_views_own, local_path
from vde_dagster.lakehouse.io.manifests import (
    check_data_file,
    parse_table,
    read_entries,
    read_manifests,
)
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.planning.tables.table import TableRef

if TYPE_CHECKING:
    from pyiceberg.manifest import DataFile


Part = Literal["metadata_file", "manifest_list", "manifest", "data_file"]


@dataclass(frozen=True, slots=True)
class Checked:
    """A table or view to check for missing and damaged files.

    Args:
        table_id: Id of the physical table; None for a view, and for a table that an environment
            has in place of a view.
        is_ours: Whether the pointer is still where vde set it.
    """

    ref: TableRef
    pointer: Pointer
    table_id: str | None = None
    pinned: frozenset[int] = frozenset()
    is_ours: bool = True


@dataclass(frozen=True, slots=True)
class Damage:
    """A missing or damaged file of a table or view.

    Args:
        ref: One of the tables and views that use the file.
        is_current: Whether current readers need the file, and not only a kept version.
    """

    ref: TableRef
    kind: str
    part: Part
    error: DamagedFileError
    is_current: bool


@dataclass(frozen=True, slots=True)
class _Node:
    """A file to check; `above` is the file that refers to it."""

    ref: TableRef
    is_current: bool
    of: Any
    above: str | None = None


READ_BYTES = 1 << 30
"""Maximum bytes of data files whose rows are read again to locate the damaged file."""


def check_files(
    files: MetadataFiles, wanted: Sequence[Checked], *, deep: bool = False, read_bytes: int = 0
) -> tuple[list[Damage], dict[TableRef, Set[int]]]:
    """Check all files of tables and views.

    Args:
        deep: Whether to read the footers of data files.
        read_bytes: Maximum bytes of data files to read completely, if `deep` is set.

    Returns:
        The damaged files, and the pinned snapshots that tables no longer have.
    """
    return _Looking(files, deep, read_bytes).all(wanted)


def check_snapshot(
    files: MetadataFiles,
    metadata: dict[str, Any],
    snapshot_id: int | None,
    what: str,
    *,
    read_bytes: int = 0,
) -> None:
    """Check that all files of an Iceberg snapshot exist and are intact.

    Args:
        read_bytes: Maximum bytes of data files to read completely. After that, only the footers of
            data files are read. If 0, only the existence and size of data files are checked.

    Raises:
        DamagedFileError: A file is missing or damaged.
    """
    looking, ref = _Looking(files, read_bytes > 0, read_bytes), TableRef("", what)
    for snapshot in metadata.get("snapshots", []):
        if int(snapshot["snapshot-id"]) == snapshot_id:
            looking.below([_Node(ref, True, snapshot)])
    if looking.damages:
        raise looking.damages[0].error


class _Looking:
    def __init__(self, files: MetadataFiles, deep: bool, read_bytes: int = 0) -> None:
        self.files, self.deep, self._read_bytes = files, deep, read_bytes
        self.damages: list[Damage] = []

    def all(self, wanted: Sequence[Checked]) -> tuple[list[Damage], dict[TableRef, Set[int]]]:
        lost: dict[TableRef, Set[int]] = {}
        snapshots: list[_Node] = []
        for one, found in zip(wanted, self.files.each(self._metadata, wanted), strict=True):
            if isinstance(found, DamagedFileError):
                damage = Damage(one.ref, one.pointer.kind, "metadata_file", found, True)
                self.damages.append(damage)
            elif found is not None:
                head, there = found
                snapshots += [
                    _Node(one.ref, number == head, snapshot) for number, snapshot in there.items()
                ]
                gone = one.pinned - there.keys()
                if gone:
                    lost[one.ref] = gone
        self.below(snapshots)
        return self.damages, lost

    def below(self, snapshots: Iterable[_Node]) -> None:
        of_list, of_manifest, of_data = (
            lambda snapshot: snapshot.get("manifest-list"),
            lambda manifest: manifest.manifest_path,
            lambda file: file.file_path,
        )

        def listed(node: _Node, what: str) -> Iterable[Any]:
            return read_manifests(self.files, node.of, what)

        lists = _once(snapshots, of_list)
        manifests = _once(self._each(lists, "manifest_list", of_list, listed), of_manifest)
        data = _once(self._each(manifests, "manifest", of_manifest, self._data), of_data)
        sizes = self._listed(data)
        self._each(
            data, "data_file", of_data, lambda node, what: self._data_file(node, what, sizes)
        )

    def _each(
        self,
        nodes: Sequence[_Node],
        part: Part,
        location: Callable[[Any], str | None],
        look: Callable[[_Node, str], Iterable[Any]],
    ) -> list[_Node]:
        def safely(node: _Node) -> Iterable[Any] | DamagedFileError:
            try:
                return look(node, node.ref.name if not node.ref.namespace else str(node.ref))
            except DamagedFileError as error:
                return DamagedFileError(error.what, error.file, error.damage, node.above)

        named: list[_Node] = []
        for node, found in zip(nodes, self.files.each(safely, nodes), strict=True):
            if isinstance(found, DamagedFileError):
                self.damages.append(Damage(node.ref, "TABLE", part, found, node.is_current))
            else:
                above = location(node.of)
                named += [_Node(node.ref, node.is_current, one, above) for one in found]
        return named

    def _metadata(
        self, one: Checked
    ) -> tuple[int | None, dict[int, dict[str, Any]]] | DamagedFileError | None:
        try:
            location, is_view = one.pointer.location, one.pointer.kind == VIEW
            metadata = read_metadata(
                self.files, location, str(one.ref), one.table_id, is_view=is_view
            )
            if is_view:
                return self._view(one, metadata)
            if self.deep:
                parse_table(metadata, location, str(one.ref))
        except DamagedFileError as error:
            return error
        head = head_of(metadata)
        needed = one.pinned | {head}
        return head, {
            int(snapshot["snapshot-id"]): snapshot
            for snapshot in metadata.get("snapshots", [])
            if int(snapshot["snapshot-id"]) in needed
        }

    def _view(self, one: Checked, metadata: dict[str, Any]) -> DamagedFileError | None:
        if one.is_ours and not is_views_own(str(metadata["location"]), one.ref):
            what = f"the metadata file of {one.ref}"
            return DamagedFileError(what, one.pointer.location, "belongs to another view")
        return None

    def _data(self, node: _Node, what: str) -> Collection[DataFile]:
        from pyiceberg.manifest import ManifestEntryStatus

        return [
            entry.data_file
            for entry in read_entries(self.files, node.of, what)
            if entry.status != ManifestEntryStatus.DELETED
        ]

    def _listed(self, data: Iterable[_Node]) -> Mapping[str, int]:
        remote = {
            node.of.file_path.rpartition("/data/")[0]
            for node in data
            if local_path(node.of.file_path) is None and "/data/" in node.of.file_path
        }
        found = self.files.each(
            lambda base: {
                normalized_location(file.location): file.bytes
                for file in self.files.list_files(f"{base}/data")
            },
            sorted(remote),
        )
        return {place: size for one in found for place, size in one.items()}

    def _data_file(self, node: _Node, what: str, sizes: Mapping[str, int]) -> Collection[Any]:
        file: DataFile = node.of
        said = f"a data file of {what}"
        # A file that is not in the listing may have been written since.
        size = sizes.get(normalized_location(file.file_path)) if sizes else None
        if size is None:
            size = self.files.size(file.file_path)
        if size is None:
            raise DamagedFileError(said, file.file_path, MISSING)
        if size != file.file_size_in_bytes:
            told = f"has {size} bytes, but its manifest records {file.file_size_in_bytes}"
            raise DamagedFileError(said, file.file_path, told)
        if self.deep:
            self._read_bytes -= size
            check_data_file(self.files, file, said, whole=self._read_bytes >= 0)
        return ()


def _once(nodes: Iterable[_Node], location: Callable[[Any], str | None]) -> list[_Node]:
    found: dict[str, _Node] = {}
    for node in nodes:
        place = location(node.of)
        if place is None:
            continue  # a snapshot of format 1 that lists its manifests itself
        known = found.get(place)
        # Of equal files, a file that current readers need is preferred.
        if known is None or (node.is_current and not known.is_current):
            found[place] = node
    return list(found.values())
