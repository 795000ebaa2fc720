"""Mirrored views: copies of environments' views in a catalog outside the state's database.

A publication records the views to write (`want`). A process with the mirror's lease then writes the
views that are not current (`update_mirror`); after a crash, the next process does so. Each view
contains the hash of its definition. If a process may have written a view late, the view is read
again, and the newest publication's definition is restored.
"""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from vde_dagster.errors import ConflictError, LeaseLostError, StoreError, VdeError
from vde_dagster.lakehouse.io.files import each
from vde_dagster.lakehouse.metadata.view_metadata import definition_hash, new_view_metadata
from vde_dagster.lakehouse.publishing.prepare import view_place
from vde_dagster.lakehouse.publishing.view_ledger import record_namespaces
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.project.serialise import from_text
from vde_dagster.state.db.leases import Lease, lease_owner, mirror_lease
from vde_dagster.state.environments.mirror import MirroredView, WantedView

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles
    from vde_dagster.lakehouse.publishing.publication import Publication


HASH = "vde.mirror"
"""The view property with the hash of the view's definition."""
_TRIES = 3
_IN_VAIN = 3
"""Number of refused views in a row after which the remaining views are postponed."""
_AT_ONCE = 8
"""Number of views that are written at the same time, each on its own thread."""
_WAIT_SECONDS = 75.0
"""Maximum wait for the mirror's lease. If the lease's owner has died, the lease ends earlier."""


def want(conn: Connection, lakehouse: LakeHandles, publication: Publication) -> None:
    """Record the views for the mirror catalog, in the publication's transaction."""
    mirror, name = lakehouse.catalog.mirror, publication.environment.name
    if mirror is None:
        return
    journal, catalog = lakehouse.store.mirror, lakehouse.catalog.name
    views = publication.views if mirror.wanted else ()
    shown = {view_place(view) for view in views}
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


def update_mirror(lakehouse: LakeHandles) -> None:
    """Write the outdated views to the mirror catalog. A failure is recorded, not raised."""
    if lakehouse.catalog.mirror is None:
        return
    store, catalog = lakehouse.store, lakehouse.catalog.name
    # The publication has happened already, so a failure must not raise an error. The command
    # `vde environments` shows since when a mirror is outdated.
    for _ in range(_TRIES):
        waiting = store.mirror.waiting(catalog)
        if not waiting:
            return
        writer = uuid.uuid4().hex
        try:
            with store.leases.holding(
                mirror_lease(catalog), lease_owner("mirror"), wait_seconds=_WAIT_SECONDS
            ) as held:
                return _write_all(lakehouse, store.mirror.waiting(catalog), writer, held.lease)
        except LeaseLostError:
            continue  # stalled; the lease's new owner repairs late writes
        except ConflictError:
            return  # another process is writing


def verify(lakehouse: LakeHandles) -> int:
    """Check all mirrored views, and count the views that other programs changed."""
    mirror, strayed = lakehouse.catalog.mirror, 0
    if mirror is None:
        return 0
    store, catalog = lakehouse.store, lakehouse.catalog.name
    for view in store.mirror.views(catalog):
        found = mirror.load(view.wanted.ref) if view.behind_since is None else None
        if view.behind_since is None and not _is_as_wanted(found, view.wanted):
            store.mirror.mark_behind(catalog, view.wanted.ref)
            strayed += 1
    return strayed


def unmirrored(lakehouse: LakeHandles, refs: Iterable[TableRef]) -> set[TableRef]:
    """Return the given views that should be mirrored, but have no record as mirrored views."""
    mirror = lakehouse.catalog.mirror
    if mirror is None or not mirror.wanted:
        return set()
    known = {one.wanted.ref for one in lakehouse.store.mirror.views(lakehouse.catalog.name)}
    return {ref for ref in refs if ref not in known}


def _write_all(
    lakehouse: LakeHandles, views: Sequence[MirroredView], writer: str, lease: Lease
) -> None:
    journal, catalog = lakehouse.store.mirror, lakehouse.catalog.name
    _make_namespaces(lakehouse, views)
    in_vain = 0
    for some in _batches(views):
        if in_vain >= _IN_VAIN:
            return  # it would take as long with every view; they stay behind
        begun = journal.begin(catalog, some, writer, lease)
        errors = each(lambda one: _failure(lakehouse, one), begun, _AT_ONCE)
        for error in errors:
            in_vain = in_vain + 1 if isinstance(error, StoreError) else 0
        ended = zip(begun, errors, strict=True)
        failures = [(one, str(error) if error is not None else None) for one, error in ended]
        journal.end(catalog, failures, writer)


def _batches(views: Sequence[MirroredView]) -> Iterator[Sequence[MirroredView]]:
    # The first batches are small, so that little time is lost if the catalog refuses all.
    done, size = 0, 1
    while done < len(views):
        yield views[done : done + size]
        done, size = done + size, min(2 * size, _AT_ONCE)


def _failure(lakehouse: LakeHandles, wanted: WantedView) -> VdeError | None:
    try:
        _write(lakehouse, wanted)
    except VdeError as error:
        return error
    return None


def _make_namespaces(lakehouse: LakeHandles, views: Sequence[MirroredView]) -> None:
    catalog = lakehouse.catalog
    owners = {one.wanted.ref.namespace: one.wanted.environment for one in views if one.wanted.hash}
    try:
        missing = owners.keys() - catalog.namespaces(owners)
        catalog.create_namespaces({name: {"vde.environment": owners[name]} for name in missing})
    except VdeError:
        return  # writing each view reports the reason
    database, made = lakehouse.store.database, {name: owners[name] for name in missing}
    database.run_transaction(
        lambda conn: record_namespaces(database, conn, catalog.name, made), name="mirror.namespaces"
    )


def _write(lakehouse: LakeHandles, wanted: WantedView) -> None:
    mirror = lakehouse.catalog.mirror
    assert mirror is not None
    before = mirror.load(wanted.ref)
    if _is_as_wanted(before, wanted):
        return
    if before is not None and HASH not in before.get("properties", {}):
        if wanted.hash is None:
            return  # another program replaced it
        raise ConflictError(
            f"the catalog has a view {wanted.ref} that vde did not publish",
            hint="rename or drop that view; vde changes only its own views",
        )
    if wanted.definition is None:
        mirror.drop(wanted.ref)
        return
    definition = proven_view(wanted)
    now_ms = lakehouse.now_ms()
    after = new_view_metadata(definition, before, "", now_ms)
    after["properties"] = {**after["properties"], HASH: wanted.hash}
    mirror.write(wanted.ref, before, after)


def _is_as_wanted(found: dict[str, Any] | None, wanted: WantedView) -> bool:
    if wanted.definition is None or found is None:
        return found is None and wanted.definition is None
    if found.get("properties", {}).get(HASH) != wanted.hash:
        return False
    # Another program may have replaced the query but kept the properties.
    again = new_view_metadata(proven_view(wanted), found, "", 0)
    return bool(again["current-version-id"] == found["current-version-id"])


def proven_view(wanted: WantedView) -> ViewDefinition:
    """Read a mirrored view's stored definition, which must have the recorded hash.

    Raises:
        StoreError: The stored definition is damaged, or defines another view.
    """
    try:
        definition = from_text(ViewDefinition, wanted.definition or "")
    except ValueError as error:
        raise _foreign(wanted, str(error)) from error
    if view_place(definition) != wanted.ref or definition_hash(definition) != wanted.hash:
        raise _foreign(wanted, "its text does not match its hash")
    return definition


def _foreign(wanted: WantedView, why: str) -> StoreError:
    return StoreError(
        f"the stored definition of the mirrored view {wanted.ref} is damaged, "
        f"or another program changed it: {why}",
        hint=f"to write the view again, apply a plan to '{wanted.environment}', for example: "
        f"vde apply {wanted.environment} --restate MODEL",
    )


def _wanted(view: ViewDefinition, environment: str) -> WantedView:
    text = json.dumps(dataclasses.asdict(dataclasses.replace(view, shows=None)))
    return WantedView(view_place(view), environment, definition_hash(view), text)
