"""First step of a publication: finds the changes and creates the content of new metadata files."""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.base.texts import listed
from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Catalog, Pointer, Swap
from vde_dagster.lakehouse.io.files import encode_metadata, read_metadata
from vde_dagster.lakehouse.io.locations import next_file, next_name, view_location
from vde_dagster.lakehouse.metadata.changes import apply_updates
from vde_dagster.lakehouse.metadata.commit_summaries import growth_between
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.lakehouse.metadata.view_metadata import definition_hash, new_view_metadata
from vde_dagster.lakehouse.publishing.pins import PreparedPins, head_in, prepare_pins
from vde_dagster.lakehouse.publishing.publication import (
    Holding,
    Publication,
    TableMove,
    announced_file,
    table_moves,
)
from vde_dagster.lakehouse.publishing.shown_tables import SHOWN, Made, metadata_in_place_of_view
from vde_dagster.lakehouse.publishing.view_ledger import PublishedView, published_views
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.mirror import view_of_another
from vde_dagster.state.environments.pins import Head
from vde_dagster.state.environments.publications import PublishedFile

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


@dataclass(frozen=True, slots=True)
class PreparedPublication:
    """The changes and files of a publication, computed before its transaction begins.

    Args:
        announced: The changes to store, so that another process can finish the publication.
        sources: See `Differences`.
    """

    swaps: tuple[Swap, ...]
    files: tuple[tuple[str, bytes], ...]
    published: tuple[PublishedView, ...]
    dropped: tuple[TableRef, ...]
    namespaces: tuple[str, ...]
    announced: tuple[PublishedFile, ...]
    pins: PreparedPins
    holding: tuple[PreparedHolding, ...] = ()
    sources: Mapping[TableRef, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PreparedHolding:
    """A `Holding` with the views and pins of its new version, computed before the transaction."""

    holding: Holding
    published: tuple[PublishedView, ...]
    pins: PreparedPins


@dataclass(frozen=True, slots=True)
class Differences:
    """Lists the views that a publication must create, replace or drop in the catalog.

    Args:
        changed: Definitions that the catalog does not have, each with the current pointer.
        dropped: Views to drop, each with the current pointer.
        taken: By view name, the error for a name that already belongs to another object.
        sources: The current metadata file of each physical table that is published as a table in
            place of a view, by the physical table's name.
    """

    changed: tuple[tuple[ViewDefinition, Pointer | None], ...]
    dropped: tuple[tuple[TableRef, Pointer | None], ...]
    hashes: dict[TableRef, str]
    taken: dict[TableRef, ConflictError]
    sources: Mapping[TableRef, str]

    @property
    def swaps(self) -> list[Swap]:
        """Catalog changes that remove the dropped views."""
        return [Swap(ref, at.kind, at.location, None) for ref, at in self.dropped if at is not None]


def view_place(definition: ViewDefinition) -> TableRef:
    return TableRef(definition.namespace, definition.name)


def differences(
    catalog: Catalog,
    connection: Connection,
    definitions: Sequence[ViewDefinition],
    dropped: Sequence[TableRef],
    environment: str,
    moved: Mapping[TableRef, Made] = MappingProxyType({}),
) -> Differences:
    """Compare view definitions with the catalog, without reading any file.

    A name is taken if another environment uses it, if the catalog has an object of this name that
    vde did not publish, or if it is the name of a shown table that another program wrote to.

    Args:
        dropped: Views to remove. Views that vde did not publish stay.
        moved: Tables that this publication moves.
    """
    wanted = {view_place(definition): definition for definition in definitions}
    shown = [one.shows.ref for one in definitions if one.shows is not None]
    if shown and catalog.form.follows:
        raise ConflictError(
            "virtual_environment_mode dev_only needs a catalog in the state database",
            hint='write virtual_environment_mode = "full"',
        )
    now = catalog.pointers(shown, connection) if shown else {}
    sources = {ref: pointer.location for ref, pointer in now.items()}
    sources |= {ref: made.swap.after or "" for ref, made in moved.items()}
    hashes = {ref: _hash(definition, sources) for ref, definition in wanted.items()}
    refs = [*wanted, *dropped]
    pointers = catalog.pointers(refs, connection)
    ledger = published_views(connection, catalog.name, refs=refs)
    changed: list[tuple[ViewDefinition, Pointer | None]] = []
    taken: dict[TableRef, ConflictError] = {}
    for ref, definition in wanted.items():
        pointer, known = pointers.get(ref), ledger.get(ref)
        kind = TABLE if definition.shows else VIEW
        if pointer is None:
            changed.append((definition, None))
        elif known is None or (_ours(pointer, known) is None and kind == VIEW):
            taken[ref] = ConflictError(
                f"the catalog has a {pointer.kind.lower()} {ref} that vde did not publish",
                hint="rename or drop that object, or give the model another name; vde changes "
                "only its own objects",
            )
        elif known.environment != environment:
            taken[ref] = view_of_another(ref, known.environment)
        elif _ours(pointer, known) is None:
            taken[ref] = ConflictError(
                f"another program wrote to {ref}, a table that vde publishes in place of a view; "
                "no model has the new rows",
                hint="save the other program's rows elsewhere, drop the table (without PURGE) and "
                "plan again: vde plan ENV",
            )
        elif pointer != Pointer(known.metadata_location, kind) or (
            known.definition_hash != hashes[ref]
        ):
            changed.append((definition, pointer))
    gone = [
        (ref, _ours(pointers.get(ref), ledger[ref]))
        for ref in dict.fromkeys(dropped)
        if ref not in wanted and ref in ledger and ledger[ref].environment == environment
    ]
    return Differences(tuple(changed), tuple(gone), hashes, taken, sources)


def _hash(definition: ViewDefinition, sources: Mapping[TableRef, str]) -> str:
    hashed = definition_hash(definition)
    if definition.shows is None:
        return hashed
    if definition.shows.ref not in sources:
        raise _gone(definition.shows.ref)
    text = json.dumps([SHOWN, hashed, sources[definition.shows.ref]])
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _gone(ref: TableRef) -> ConflictError:
    return ConflictError(
        f"the catalog no longer has the table {ref}",
        hint="plan again: vde plan ENV; to find damaged files: vde fsck",
    )


def _ours(pointer: Pointer | None, known: PublishedView | None) -> Pointer | None:
    """Return the pointer, or None if another program has replaced the published object."""
    if pointer is None or known is None:
        return None
    ours = pointer.kind == VIEW or pointer.location == known.metadata_location
    return pointer if ours else None


def prepare(lakehouse: LakeHandles, publication: Publication) -> PreparedPublication:
    """Compute the changes of a publication and the content of its files, without writing anything.

    Raises:
        ConflictError: A name is taken, or another program wrote a table or its branch.
    """
    catalog = lakehouse.catalog
    if not catalog.form.keeps_pointers:
        # Tables in place of views are refused below.
        tables_alone = tuple(view for view in publication.views if view.shows is not None)
        holders = tuple(replace(one, views=()) for one in publication.holding)
        publication = replace(publication, views=tables_alone, dropped=(), holding=holders)
    environment = publication.environment.name
    now_ms = lakehouse.now_ms()
    moves = table_moves(publication)
    tables = catalog.pointers([move.ref for move in moves]) if moves else {}
    moved = lakehouse.files.each(lambda move: _table(lakehouse, move, tables, now_ms), moves)
    made = [item for item, _ in moved]
    moved_to = {item.swap.ref: item for item in made}
    with lakehouse.store.database.reading() as conn:
        dropped = list(publication.dropped)
        if publication.ends_environment:
            dropped.extend(published_views(conn, catalog.name, environment=environment))
        found = differences(catalog, conn, publication.views, dropped, environment, moved_to)
        others = [
            differences(catalog, conn, one.views, (), one.environment.name)
            for one in publication.holding
        ]
    for taken in (error for one in (found, *others) for error in one.taken.values()):
        raise taken
    publication_id = publication.environment.publication_id
    made = [*made_views(lakehouse, found, environment, publication_id, now_ms, moved_to), *made]
    own = tuple(item.view for item in made if item.view)
    holding = []
    for one, differing in zip(publication.holding, others, strict=True):
        theirs = made_views(lakehouse, differing, one.environment.name, publication_id, now_ms)
        published = tuple(item.view for item in theirs if item.view)
        holding.append(PreparedHolding(one, published, prepare_pins(lakehouse, one.environment)))
        made += theirs
    swaps = (*(item.swap for item in made), *found.swaps)
    known = {
        move.ref: (move, head.snapshot_id) for move, (_, head) in zip(moves, moved, strict=True)
    }
    files = made if catalog.form.keeps_pointers else []
    return PreparedPublication(
        swaps=swaps,
        files=tuple((item.swap.after or "", item.content) for item in files),
        published=own,
        dropped=tuple(ref for ref, _ in found.dropped),
        namespaces=tuple(dict.fromkeys(view.namespace for view in publication.views)),
        announced=tuple(announced_file(swap, *known.get(swap.ref, ())) for swap in swaps),
        pins=_pins(lakehouse, publication, (head for _, head in moved)),
        holding=tuple(holding),
        sources=dict(one.source for one in made if one.source and one.source[0] not in moved_to),
    )


def _pins(lakehouse: LakeHandles, publication: Publication, moved: Iterable[Head]) -> PreparedPins:
    changed = frozenset(item.table.id for item in publication.deployments)
    environment = publication.environment
    if publication.ends_environment:
        environment = replace(environment, entries={})
    pins = prepare_pins(lakehouse, environment, changed, {head.table_id: head for head in moved})
    if pins.lost:
        raise ExecutionError(
            f"'{environment.name}' cannot show {listed(pins.lost, 3)}: the catalog "
            f"'{lakehouse.catalog_name}' has no such table, or its metadata file is missing",
            hint="find what is lost, and how to repair it: vde fsck",
        )
    return pins


def made_views(
    lakehouse: LakeHandles,
    found: Differences,
    environment: str,
    publication_id: str,
    now_ms: int,
    moved: Mapping[TableRef, Made] = MappingProxyType({}),
) -> list[Made]:
    """Build the metadata files of new and changed views, without writing them."""
    # One folder per publication: creating folders dominates the time for many new views.
    folder = lakehouse.views_folder(publication_id)

    def make(item: tuple[ViewDefinition, Pointer | None]) -> Made:
        definition, pointer = item
        ref, shown, source = view_place(definition), definition.shows, None
        if shown is None:
            metadata, kind = _view(lakehouse, definition, pointer, now_ms), VIEW
        else:
            source = (shown.ref, found.sources[shown.ref])
            behind = (
                json.loads(moved[shown.ref].content)
                if shown.ref in moved
                else read_metadata(lakehouse.files, source[1], str(shown.ref))
            )
            metadata, kind = metadata_in_place_of_view(definition, shown, behind, now_ms), TABLE
        old = pointer.location if pointer else None
        location = f"{folder}/{next_name(old)}"
        view = PublishedView(ref, environment, found.hashes[ref], location)
        swap = Swap(ref, pointer.kind if pointer else kind, old, location, kind)
        return Made(swap, encode_metadata(metadata), view, source)

    return lakehouse.files.each(make, found.changed)


def _view(
    lakehouse: LakeHandles, definition: ViewDefinition, pointer: Pointer | None, now_ms: int
) -> dict[str, Any]:
    ref, previous = view_place(definition), None
    if pointer is not None and pointer.kind == VIEW:
        previous = read_metadata(lakehouse.files, pointer.location, str(ref), is_view=True)
    base = view_location(lakehouse.warehouse, ref, uuid.uuid4().hex)
    try:
        return new_view_metadata(definition, previous, base, now_ms)
    except ExecutionError as error:
        raise ExecutionError(f"the view {ref}: {error.message}", hint=error.hint) from error


def _table(
    lakehouse: LakeHandles, move: TableMove, pointers: dict[TableRef, Pointer], now_ms: int
) -> tuple[Made, Head]:
    pointer = pointers.get(move.ref)
    if pointer is None or pointer.kind != TABLE:
        raise _gone(move.ref)
    metadata = read_metadata(lakehouse.files, pointer.location, str(move.ref))
    moved = apply_updates(metadata, pointer.location, move.updates(metadata), now_ms)
    location = next_file(metadata["location"], pointer.location)
    head = head_in(moved, location, move.table_id, move.branch)
    growth = growth_between(moved, head_of(metadata, move.branch), head.snapshot_id)
    swap = Swap(move.ref, TABLE, pointer.location, location)
    return Made(swap, encode_metadata(moved)), replace(head, growth=growth)
