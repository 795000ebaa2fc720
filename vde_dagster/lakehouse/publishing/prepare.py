"""Step one of a publication: what has to change, and the content of every new metadata file."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, ExecutionError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, VIEW, Catalog, Pointer, Swap
from vde_dagster.lakehouse.io.files import encode_metadata, read_metadata
from vde_dagster.lakehouse.io.locations import next_file, next_name, view_location
from vde_dagster.lakehouse.metadata.changes import apply_updates
from vde_dagster.lakehouse.metadata.commit_summaries import growth_between
from vde_dagster.lakehouse.metadata.table_metadata import head_of
from vde_dagster.lakehouse.metadata.view_metadata import definition_hash, new_view_metadata
from vde_dagster.lakehouse.publishing.pins import (
    PreparedPins,
    head_in,
    prepare_pins,
)
from vde_dagster.lakehouse.publishing.publication import Holding, Publication
from vde_dagster.lakehouse.publishing.shown_tables import Made, shown_tables
from vde_dagster.lakehouse.publishing.table_moves import TableMove, announced_file, table_moves
from vde_dagster.lakehouse.publishing.view_ledger import PublishedView, published_views
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.environments.mirror import view_of_another
from vde_dagster.state.environments.pins import Growth, Head
from vde_dagster.state.environments.publications import PublishedFile

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


@dataclass(frozen=True, slots=True)
class PreparedPublication:
    """Everything that a publication will do, worked out.

    Args:
        announced: What the publication's record has to know: who comes next may have to finish.
        sources: Tables that do not move and are only shown, with the files that were read of them.
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
    """A new version of another environment that holds tables, beside the changes of pointers."""

    holding: Holding
    published: tuple[PublishedView, ...]
    pins: PreparedPins


@dataclass(frozen=True, slots=True)
class Differences:
    """Differences between definitions and the catalog, each with the pointer that is there."""

    changed: tuple[tuple[ViewDefinition, Pointer | None], ...]
    dropped: tuple[tuple[TableRef, Pointer | None], ...]
    hashes: dict[TableRef, str]


def ref_of(definition: ViewDefinition) -> TableRef:
    """Return a view's place in the catalog."""
    return TableRef(definition.namespace, definition.name)


def differences(
    catalog: Catalog,
    connection: Connection,
    definitions: Sequence[ViewDefinition],
    dropped: Sequence[TableRef],
    environment: str,
) -> Differences:
    """Compare definitions with the catalog, reading no file.

    Args:
        dropped: Views that are not; those that no publication made are left alone.

    Raises:
        ConflictError: A name is taken by a table, by a view that no publication made, or by
            another environment's.
    """
    wanted = {ref_of(definition): definition for definition in definitions}
    hashes = {ref: definition_hash(definition) for ref, definition in wanted.items()}
    refs = [*wanted, *dropped]
    pointers = catalog.pointers(refs, connection)
    ledger = published_views(connection, catalog.name, refs=refs)
    changed: list[tuple[ViewDefinition, Pointer | None]] = []
    for ref, definition in wanted.items():
        pointer, known = pointers.get(ref), ledger.get(ref)
        if pointer is None:
            changed.append((definition, None))
            continue
        if known is None or _ours(pointer, known) is None:
            raise ConflictError(
                f"the catalog has a {pointer.kind.lower()} {ref} that vde did not publish",
                hint="rename or drop it, or give the model another name; vde touches only what is "
                "its own",
            )
        if known.environment != environment:
            raise view_of_another(ref, known.environment)
        current = known.metadata_location == pointer.location and pointer.kind == VIEW
        if not current or known.definition_hash != hashes[ref]:
            changed.append((definition, pointer))
    gone = [
        (ref, _ours(pointers.get(ref), ledger[ref]))
        for ref in dict.fromkeys(dropped)
        if ref not in wanted and ref in ledger and ledger[ref].environment == environment
    ]
    return Differences(tuple(changed), tuple(gone), hashes)


def _ours(pointer: Pointer | None, known: PublishedView | None) -> Pointer | None:
    """Return a pointer that a publication made: a view, or the very table that it left."""
    if pointer is None or known is None:
        return None
    ours = pointer.kind == VIEW or pointer.location == known.metadata_location
    return pointer if ours else None


def prepare(lakehouse: Lakehouse, publication: Publication) -> PreparedPublication:
    """Work out a publication's changes and the content of its files; writes nothing."""
    catalog = lakehouse.catalog
    if not catalog.form.keeps_pointers:
        # Tables in place of views are refused below.
        tables_alone = tuple(view for view in publication.views if view.shows is not None)
        holders = tuple(replace(one, views=()) for one in publication.holding)
        publication = replace(publication, views=tables_alone, dropped=(), holding=holders)
    environment = publication.environment.name
    with lakehouse.store.database.reading() as conn:
        dropped = list(publication.dropped)
        if publication.ends_environment:
            dropped.extend(published_views(conn, catalog.name, environment=environment))
        views = [view for view in publication.views if view.shows is None]
        shown = [view for view in publication.views if view.shows is not None]
        keep = {ref_of(view) for view in shown}
        dropped = [ref for ref in dropped if ref not in keep]
        found = differences(catalog, conn, views, dropped, environment)
        namespaces = dict.fromkeys(view.namespace for view in publication.views)
        moves = table_moves(publication)
        tables = catalog.pointers([move.ref for move in moves], conn)
        planned = shown_tables(catalog, conn, shown, environment)
        others = [
            differences(catalog, conn, one.views, (), one.environment.name)
            for one in publication.holding
        ]
    now_ms = lakehouse.now_ms()
    publication_id = publication.environment.publication_id
    made = made_views(lakehouse, found, environment, publication_id, now_ms)
    moved = lakehouse.files.each(lambda move: _table(lakehouse, move, tables, now_ms), moves)
    made += [item.made for item in moved]
    moved_to = {item.made.swap.ref: item.made for item in moved}
    made += planned.make(lakehouse, moved_to, publication_id, now_ms)
    own = tuple(item.view for item in made if item.view)
    holding = []
    for one, differing in zip(publication.holding, others, strict=True):
        theirs = made_views(lakehouse, differing, one.environment.name, publication_id, now_ms)
        published = tuple(item.view for item in theirs if item.view)
        holding.append(PreparedHolding(one, published, prepare_pins(lakehouse, one.environment)))
        made += theirs
    gone = [
        Swap(ref, pointer.kind, pointer.location, None) for ref, pointer in found.dropped if pointer
    ]
    swaps = (*(item.swap for item in made), *gone)
    known = {
        move.ref: (move, item.head.snapshot_id) for move, item in zip(moves, moved, strict=True)
    }
    files = made if catalog.form.keeps_pointers else []
    return PreparedPublication(
        swaps=swaps,
        files=tuple((item.swap.after or "", item.content) for item in files),
        published=own,
        dropped=tuple(ref for ref, _ in found.dropped),
        namespaces=tuple(namespaces),
        announced=tuple(announced_file(swap, *known.get(swap.ref, ())) for swap in swaps),
        pins=_pins(lakehouse, publication, moved),
        holding=tuple(holding),
        sources=dict(one.source for one in made if one.source and one.source[0] not in moved_to),
    )


def _pins(lakehouse: Lakehouse, publication: Publication, moved: Sequence[_Moved]) -> PreparedPins:
    changed = frozenset(item.table.id for item in publication.deployments)
    known = {item.head.table_id: (item.head, item.growth) for item in moved}
    environment = publication.environment
    if publication.ends_environment:
        environment = replace(environment, entries={})
    return prepare_pins(lakehouse, environment, changed, known)


@dataclass(frozen=True, slots=True)
class _Moved:
    """A table's next metadata, what its readers see then, and what that adds."""

    made: Made
    head: Head
    growth: Growth


def made_views(
    lakehouse: Lakehouse,
    found: Differences,
    environment: str,
    publication_id: str,
    now_ms: int,
) -> list[Made]:
    """Make the metadata of views that differ from the catalog; writes nothing."""
    before = lakehouse.files.each(
        lambda item: _previous(lakehouse, item[1], str(ref_of(item[0]))), found.changed
    )
    # One folder per publication: folders are what takes time when there are many new views.
    folder = lakehouse.views_folder(publication_id)
    made = []
    for (definition, pointer), previous in zip(found.changed, before, strict=True):
        ref = ref_of(definition)
        base = view_location(lakehouse.warehouse, ref, uuid.uuid4().hex)
        try:
            metadata = new_view_metadata(definition, previous, base, now_ms)
        except ExecutionError as error:
            raise ExecutionError(f"the view {ref}: {error.message}", hint=error.hint) from error
        old = pointer.location if pointer else None
        location = f"{folder}/{next_name(old)}"
        view = PublishedView(ref, environment, found.hashes[ref], location)
        swap = Swap(ref, pointer.kind if pointer else VIEW, old, location, VIEW)
        made.append(Made(swap, encode_metadata(metadata), view))
    return made


def _previous(lakehouse: Lakehouse, pointer: Pointer | None, what: str) -> dict[str, Any] | None:
    if pointer is None or pointer.kind != VIEW:
        return None
    return read_metadata(lakehouse.files, pointer.location, what)


def _table(
    lakehouse: Lakehouse, move: TableMove, pointers: dict[TableRef, Pointer], now_ms: int
) -> _Moved:
    pointer = pointers.get(move.ref)
    if pointer is None or pointer.kind != TABLE:
        raise ConflictError(
            f"the table {move.ref} is no longer in the catalog",
            hint="plan again; `vde fsck` says what is damaged",
        )
    metadata = read_metadata(lakehouse.files, pointer.location, str(move.ref))
    moved = apply_updates(metadata, pointer.location, move.updates(metadata), now_ms)
    location = next_file(metadata["location"], pointer.location)
    head = head_in(moved, location, move.table_id, move.branch)
    return _Moved(
        Made(Swap(move.ref, TABLE, pointer.location, location), encode_metadata(moved)),
        head,
        growth_between(moved, head_of(metadata, move.branch), head.snapshot_id),
    )
