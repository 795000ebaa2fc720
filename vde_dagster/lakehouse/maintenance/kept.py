"""Checks that a file or folder may be deleted, because nothing that is kept uses it.

The candidates for deletion come from rows of the state, and anyone who can write these rows could
direct the janitor at other files. So a candidate must be below the warehouse's folder, in a place
that only vde writes to. No pointer of the catalog, published view or unfinished publication may
refer to it, and no table may use it as a manifest, data, delete or statistics file of any snapshot.
A table that is being written is left alone, because its next commit is unknown.

The files that a table names are read from its metadata, not from the state. A candidate below a
table's folder is compared with the files of all snapshots of each table that has this folder: the
physical table, and shown tables, which use the physical table's data files. A table that is not in
the ledger may use files of any folder, so the files of its branches and tags are compared with
every candidate. If pointers move during the check, the pointers are read again.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.errors import DamagedFileError
from vde_dagster.lakehouse.catalogs.catalog import TABLE
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.io.inside import flaw_inside, folders_above, is_below, place_key
from vde_dagster.lakehouse.io.manifests import may_name, read_entries, read_manifests
from vde_dagster.lakehouse.publishing.view_ledger import published_files

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


Verdict = Literal["free", "kept", "waiting", "refused"]
_VIEW_FILE = re.compile(r"\.metadata\.json(\.gz)?$|\.gz\.metadata\.json$")
_MOST_TURNS = 5
"""Number of searches after which a deletion is postponed, if tables change during each search."""


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision whether a file or folder may be deleted, with the reason.

    Args:
        verdict: `free` if it may be deleted; `kept` if it is in use; `waiting` if this
            cannot be determined now; `refused` if vde must not delete it.
        reason: Why the verdict is not `free`; otherwise empty.
    """

    verdict: Verdict
    reason: str = ""


_FREE = Ruling("free")


@dataclass(frozen=True, slots=True)
class _TableNames:
    """The files that a table's metadata file refers to.

    Args:
        folder: The table's base location, as `place_key` returns it.
        files: Keys (see `place_key`) of the metadata, statistics and manifest list files.
        heads: Ids of the Iceberg snapshots that branches and tags refer to.
        is_known: Whether the state store records the table in this folder.
        is_readable: Whether the metadata file could be read; if not, `folder` is a guess.
    """

    location: str
    folder: str
    files: frozenset[str] = frozenset()
    snapshots: tuple[dict[str, Any], ...] = ()
    heads: frozenset[int] = frozenset()
    is_known: bool = False
    is_readable: bool = True


@dataclass(slots=True)
class Kept:
    """Checks that no table, view or publication uses a file or folder to delete."""

    lakehouse: LakeHandles
    # Read on first use, and again if pointers moved.
    _tables: dict[str, _TableNames] = field(default_factory=dict)
    _pointers: frozenset[str] = frozenset()

    def rule(self, candidates: Iterable[str], own: Collection[str] = ()) -> dict[str, Ruling]:
        """Decide for each file whether it may be deleted now.

        Args:
            own: Ids of the publications that recorded the candidates. The decision ignores
                references by these publications.

        Raises:
            StoreError: The catalog or the state cannot be reached.
        """
        store, found = self.lakehouse.store, dict[str, Ruling]()
        keys: dict[str, str] = {}
        for one in dict.fromkeys(candidates):
            flaw = flaw_inside(one, self.lakehouse.warehouse)
            if flaw is None:
                keys[one] = place_key(one)
            else:
                found[one] = Ruling("refused", f"it {flaw}")
        views = place_key(self.lakehouse.views_folder(""))
        owners, leased = self._owners(keys), store.leases.tables()
        in_tables = set()
        for one, key in keys.items():
            if owners.get(one) in leased:
                found[one] = Ruling("waiting", "its table is being written")
            elif one in owners or (not is_below(key, views) and _VIEW_FILE.search(one)):
                in_tables.add(key)
            elif not is_below(key, views):
                found[one] = Ruling("refused", "it is not in a folder that vde writes to")
        named = {
            place_key(one)
            for one in (*store.publications.open_files(but=own), *published_files(store.database))
        }
        by_table = self._named_by_tables(in_tables, whole=bool(in_tables))
        for one, key in keys.items():
            if one in found:
                continue
            if key in named:
                found[one] = Ruling("kept", "a published view or an unfinished publication uses it")
            elif key in self._pointers:
                found[one] = Ruling(
                    "kept", "it is the current metadata file of a table or view in the catalog"
                )
            else:
                found[one] = by_table.get(key, _FREE)
        return found

    def rule_folders(
        self, folders: Mapping[str, str], own: Collection[str] = ()
    ) -> dict[str, Ruling]:
        """Decide for each unneeded table whether its folder may be deleted with all files.

        Args:
            folders: The tables' ids by the folders' locations.
            own: Metadata files of the unneeded tables. The decision ignores these files and their
                references.

        Raises:
            StoreError: The catalog or the state cannot be reached.
        """
        store, found = self.lakehouse.store, dict[str, Ruling]()
        keys: dict[str, str] = {}
        for location, table_id in folders.items():
            flaw = flaw_inside(location, self.lakehouse.warehouse)
            if flaw is None and not _folder_has_id(location, table_id):
                flaw = f"is not the folder of the table {table_id}"
            if flaw is None:
                keys[place_key(location)] = location
            else:
                found[location] = Ruling("refused", f"{location} {flaw}")
        self._refresh(whole=True)
        ignored = frozenset(map(place_key, own))

        def keep(files: Iterable[str], by: str) -> None:
            for file in files:
                for above in (file, *folders_above(file)):
                    if above in keys and keys[above] not in found:
                        reason = f"{by} refers to a file in {keys[above]}"
                        found[keys[above]] = Ruling("kept", reason)

        keep(self._pointers - ignored, "the catalog")
        keep(map(place_key, store.publications.open_files()), "an unfinished publication")
        keep(map(place_key, published_files(store.database)), "a published view")
        for names in self._tables.values():
            if place_key(names.location) in ignored:
                continue
            keep([names.folder, *names.files], names.location)
            for key, location in keys.items():
                if is_below(key, names.folder) and location not in found:
                    found[location] = Ruling(
                        "kept", f"{location} is in the folder of another table"
                    )
            if not names.is_known and len(found) < len(folders):
                # Files of other programs may be anywhere, and unreadable from here.
                with suppress(DamagedFileError, OSError, KeyError, ValueError, TypeError):
                    files = self._named_files(names, (), heads=True)
                    keep(map(place_key, files), names.location)
        return {location: found.get(location, _FREE) for location in folders}

    def _owners(self, locations: Iterable[str]) -> dict[str, str]:
        folders: dict[str, list[str]] = {}
        for one in locations:
            above = one.rpartition("/")[0]
            while "/" in above:
                folders.setdefault(above, []).append(one)
                above = above.rpartition("/")[0]
        ids: dict[str, set[str]] = {}
        for folder in folders:
            last = folder.rpartition("/")[2]
            for at in re.finditer("-", last):
                ids.setdefault(last[at.end() :], set()).add(folder)
        found: dict[str, str] = {}
        for table_id, ref in self.lakehouse.store.ledger.places(ids).items():
            made = self.lakehouse.table_location(ref, table_id).rpartition("/")[2]
            for folder in ids[table_id]:
                # Earlier versions used names as they are for folders.
                if folder.endswith((f"/{made}", f"/{ref.name}-{table_id}")):
                    found.update(dict.fromkeys(folders[folder], table_id))
        return found

    def _named_by_tables(self, wanted: Set[str], *, whole: bool) -> dict[str, Ruling]:
        found: dict[str, Ruling] = {}
        in_folder: dict[str, set[str]] = {}
        for key in wanted:
            for above in folders_above(key):
                in_folder.setdefault(above, set()).add(key)
        self._refresh(whole=whole)
        new = [*self._tables.values()] if wanted else []
        # A table that moves during the search is read again.
        for _ in range(_MOST_TURNS):
            for names in new:
                self._look_up(names, in_folder.get(names.folder, set()), wanted, found)
            new = self._refresh(whole=whole)
            if not new:
                return found
        return {**dict.fromkeys(wanted, Ruling("waiting", "tables keep moving")), **found}

    def _look_up(
        self, names: _TableNames, here: Set[str], wanted: Set[str], found: dict[str, Ruling]
    ) -> None:
        # A table of the ledger uses only files in its folder. Other tables may use any of
        # the files.
        asked = (here if names.is_known else wanted) - found.keys()
        if not asked:
            return
        kept = Ruling("kept", f"{names.location} names it")
        found.update(dict.fromkeys(asked & names.files, kept))
        left = asked - names.files
        try:
            if not names.is_readable:
                raise DamagedFileError("the metadata file", names.location, "cannot be read")
            for file in self._named_files(names, left, heads=not here) if left else ():
                if (key := place_key(file)) in asked:
                    found[key] = kept
        except (DamagedFileError, OSError, KeyError, ValueError, TypeError) as error:
            reason = f"a file that may refer to it cannot be read: {error}"
            found.update({key: Ruling("waiting", reason) for key in here if key not in found})

    def _named_files(
        self, names: _TableNames, wanted: Collection[str], *, heads: bool
    ) -> Iterator[str]:
        from pyiceberg.manifest import ManifestEntryStatus

        files, seen = self.lakehouse.files, set[str]()
        endings = {key.rpartition("/")[2] for key in wanted}
        for snapshot in reversed(names.snapshots):
            if heads and int(snapshot["snapshot-id"]) not in names.heads:
                continue
            for manifest in read_manifests(files, snapshot, names.location):
                path = manifest.manifest_path
                if path in seen:
                    continue
                seen.add(path)
                yield path
                if wanted and not may_name(files, path, endings):
                    continue
                for entry in read_entries(files, manifest, names.location):
                    if entry.status != ManifestEntryStatus.DELETED:
                        yield entry.data_file.file_path

    def _refresh(self, *, whole: bool) -> list[_TableNames]:
        pointers = self.lakehouse.catalog.every_pointer()
        self._pointers = frozenset(place_key(one.location) for one in pointers)
        if not whole:
            return []
        tables = {one.location: one for one in pointers if one.kind == TABLE}
        new = [one for one in tables if one not in self._tables]
        read = self.lakehouse.files.each(self._read, new)
        known = self._owners(f"{one.folder_location}/x" for one in read)
        made = [one.names(f"{one.folder_location}/x" in known) for one in read]
        self._tables = {one: names for one, names in self._tables.items() if one in tables}
        self._tables.update(zip(new, made, strict=True))
        return made

    def _read(self, location: str) -> _Read:
        guess = location.rpartition("/metadata/")[0] or location.rpartition("/")[0]
        try:
            metadata = read_metadata(self.lakehouse.files, location, "a table")
        except (DamagedFileError, OSError):
            return _Read(location, guess, None)
        return _Read(location, str(metadata["location"]).rstrip("/"), metadata)


def _folder_has_id(location: str, table_id: str) -> bool:
    return bool(table_id) and location.rstrip("/").rpartition("/")[2].endswith(f"-{table_id}")


@dataclass(frozen=True, slots=True)
class _Read:
    location: str
    folder_location: str
    metadata: Mapping[str, Any] | None

    def names(self, is_known: bool) -> _TableNames:
        if self.metadata is None:
            return _TableNames(
                self.location, place_key(self.folder_location), is_known=is_known, is_readable=False
            )
        listed = [one["metadata-file"] for one in self.metadata.get("metadata-log", ())]
        for kind in ("statistics", "partition-statistics"):
            listed += [one["statistics-path"] for one in self.metadata.get(kind, ())]
        snapshots = tuple(
            {name: one[name] for name in ("snapshot-id", "manifest-list", "summary") if name in one}
            for one in self.metadata.get("snapshots", ())
        )
        listed += [one["manifest-list"] for one in snapshots if "manifest-list" in one]
        refs = self.metadata.get("refs", {}).values()
        return _TableNames(
            self.location,
            place_key(self.folder_location),
            frozenset(map(place_key, listed)),
            snapshots,
            frozenset(int(one["snapshot-id"]) for one in refs),
            is_known,
        )
