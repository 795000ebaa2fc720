"""Views that follow environments, in a catalog where they decide nothing.

What they are to be is written with the publication (`want`); after it whoever has the mirror's
lease writes what is behind (`follow`), and so does whoever comes next after a crash. Every view
carries the hash of what it was made from, and is read again where another writer may have come
late: a repair is always to what the newest publication says.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, LeaseLostError, StoreError, VdeError
from vde_dagster.lakehouse.prepare import ref_of
from vde_dagster.lakehouse.view_metadata import definition_hash, new_view_metadata
from vde_dagster.planning.table import TableRef
from vde_dagster.planning.work import ViewDefinition
from vde_dagster.state.lease_names import mirror_lease
from vde_dagster.state.leases import Lease
from vde_dagster.state.mirror import MirroredView, WantedView
from vde_dagster.state.rows import insert_if_absent
from vde_dagster.state.schema import namespaces as namespace_ledger

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.lakehouse.publication import Publication

HASH = "vde.mirror"
"""The view property with the hash of what a view was made from."""
_TRIES = 3
_IN_VAIN = 3
"""After so many views in a row that the catalog did not take, the others wait for the next time."""
_WAIT_SECONDS = 75.0
"""Longer than the lease of a dead writer lasts."""


def want(conn: Connection, lakehouse: Lakehouse, publication: Publication) -> None:
    """Write down what a publication makes of mirrored views, in its transaction.

    Raises:
        ConflictError: A view is another environment's.
    """
    mirror, name = lakehouse.catalog.mirror, publication.environment.name
    if mirror is None:
        return
    journal, catalog = lakehouse.store.mirror, lakehouse.catalog.name
    views = publication.views if mirror.wanted else ()
    shown = {ref_of(view) for view in views}
    gone = set(publication.dropped)
    if publication.ends_environment or not mirror.wanted:
        gone |= {
            one.wanted.ref for one in journal.views(catalog, conn) if one.wanted.environment == name
        }
    journal.want(
        conn,
        catalog,
        name,
        [
            *(WantedView(ref, name, None, None) for ref in sorted(gone - shown, key=str)),
            *(_wanted(view, name) for view in views),
        ],
    )
    for other in publication.holding if mirror.wanted else ():
        theirs = [_wanted(view, other.environment.name) for view in other.views]
        journal.want(conn, catalog, other.environment.name, theirs)


def follow(lakehouse: Lakehouse) -> None:
    """Write the views that are behind; what cannot be written stays behind and says why.

    It raises nothing for a catalog that cannot be reached: the publication has happened, and
    `vde environments` says since when its mirror is behind.
    """
    if lakehouse.catalog.mirror is None:
        return
    store, catalog = lakehouse.store, lakehouse.catalog.name
    for _ in range(_TRIES):
        waiting = store.mirror.waiting(catalog)
        if not waiting:
            return
        writer = uuid.uuid4().hex
        try:
            with store.leases.holding(
                mirror_lease(catalog), f"mirror {writer}", wait_seconds=_WAIT_SECONDS
            ) as held:
                return _write_all(lakehouse, store.mirror.waiting(catalog), writer, held.lease)
        except LeaseLostError:
            continue  # stalled; whoever has it now repairs what was written late
        except ConflictError:
            return  # somebody writes


def verify(lakehouse: Lakehouse) -> int:
    """Look at every mirrored view, and count those that are not what they were left as.

    Raises:
        StoreError: The catalog cannot be reached.
    """
    mirror, strayed = lakehouse.catalog.mirror, 0
    if mirror is None:
        return 0
    store, catalog = lakehouse.store, lakehouse.catalog.name
    for view in store.mirror.views(catalog):
        if view.behind_since is None and not _is_as_wanted(lakehouse, view.wanted):
            store.mirror.strayed(catalog, view.wanted.ref)
            strayed += 1
    return strayed


def unmirrored(lakehouse: Lakehouse, refs: Iterable[TableRef]) -> set[TableRef]:
    """Return those of an environment's views that were to be mirrored and never were wanted."""
    mirror = lakehouse.catalog.mirror
    if mirror is None or not mirror.wanted:
        return set()
    known = {one.wanted.ref for one in lakehouse.store.mirror.views(lakehouse.catalog.name)}
    return {ref for ref in refs if ref not in known}


def _write_all(
    lakehouse: Lakehouse, views: Sequence[MirroredView], writer: str, lease: Lease
) -> None:
    store, catalog = lakehouse.store, lakehouse.catalog.name
    _make_namespaces(lakehouse, views)
    in_vain = 0
    for view in views:
        if in_vain == _IN_VAIN:
            return  # it would take as long with every view; they stay behind
        right = view.behind_since is None and _is_still_right(lakehouse, view.wanted)
        until, now = view.watched_until, store.database.clock.now()
        if right and until is not None and until > now:
            continue  # looked at again until nobody can come late
        wanted = store.mirror.begin(catalog, view, writer, lease)
        if wanted is None:
            continue
        failure = None
        try:
            if not (right and wanted == view.wanted):
                _write(lakehouse, wanted)
        except VdeError as error:
            failure = str(error)
            in_vain = in_vain + 1 if isinstance(error, StoreError) else 0
        else:
            in_vain = 0
        store.mirror.end(catalog, wanted, writer, failure)


def _make_namespaces(lakehouse: Lakehouse, views: Sequence[MirroredView]) -> None:
    """Make the views' namespaces; the janitor removes those that were made here and are empty."""
    catalog = lakehouse.catalog
    owners = {one.wanted.ref.namespace: one.wanted.environment for one in views if one.wanted.hash}
    try:
        missing = owners.keys() - catalog.namespaces(owners)
        catalog.create_namespaces({name: {"vde.environment": owners[name]} for name in missing})
    except VdeError:
        return  # each view says why it cannot be written
    rows = [
        {
            "catalog_name": catalog.name,
            "namespace": name,
            "environment": owners[name],
            "created_at": lakehouse.store.database.clock.now(),
        }
        for name in missing
    ]
    lakehouse.store.database.run_transaction(
        lambda conn: insert_if_absent(conn, namespace_ledger, rows), name="mirror.namespaces"
    )


def _write(lakehouse: Lakehouse, wanted: WantedView) -> None:
    mirror = lakehouse.catalog.mirror
    assert mirror is not None
    before = mirror.load(wanted.ref)
    if before is not None and HASH not in before.get("properties", {}):
        if wanted.hash is None:
            return  # it is somebody else's by now
        raise ConflictError(
            f"the catalog has a view {wanted.ref} that vde did not publish",
            hint="rename or drop it; vde touches only what is its own",
        )
    if wanted.definition is None:
        if before is not None:
            mirror.drop(wanted.ref)
        return
    definition = _definition(wanted.definition)
    now_ms = int(lakehouse.store.database.clock.now().timestamp() * 1000)
    after = new_view_metadata(definition, before, "", now_ms)
    after["properties"] = {**after["properties"], HASH: wanted.hash}
    mirror.write(wanted.ref, before, after)


def _is_still_right(lakehouse: Lakehouse, wanted: WantedView) -> bool:
    try:
        return _is_as_wanted(lakehouse, wanted)
    except VdeError:
        return False


def _is_as_wanted(lakehouse: Lakehouse, wanted: WantedView) -> bool:
    mirror = lakehouse.catalog.mirror
    assert mirror is not None
    found = mirror.load(wanted.ref)
    if wanted.definition is None or found is None:
        return found is None and wanted.definition is None
    if found["properties"].get(HASH) != wanted.hash:
        return False
    # Somebody may have replaced the query and left the properties.
    again = new_view_metadata(_definition(wanted.definition), found, "", 0)
    return bool(again["current-version-id"] == found["current-version-id"])


def _wanted(view: ViewDefinition, environment: str) -> WantedView:
    text = json.dumps(dataclasses.asdict(dataclasses.replace(view, shows=None)))
    return WantedView(ref_of(view), environment, definition_hash(view), text)


def _definition(text: str) -> ViewDefinition:
    values: dict[str, Any] = json.loads(text)
    return ViewDefinition(
        namespace=values["namespace"],
        name=values["name"],
        columns=tuple((name, type_, doc) for name, type_, doc in values["columns"]),
        queries=values["queries"],
        query_columns=tuple(values["query_columns"]),
        properties=tuple((key, value) for key, value in values["properties"]),
        comment=values["comment"],
    )
