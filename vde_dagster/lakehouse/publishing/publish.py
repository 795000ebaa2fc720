"""The publish transaction, which makes all changes of a publication visible or none.

It has three steps:

1. Record the publication with the files that it will write, so that every file has an owner after
a crash.
2. Write the files under new names, which have no readers yet.
3. In one transaction, check leases, compare and swap every pointer, write the environment's
version, mark pending intervals as filled, and decide the publication.

If the catalog is outside the state's database, the third step only compares the pointers; they are
moved after the decision, see `finish_publication`.

Files are removed only if the transaction was certainly rolled back. If a commit's response was
lost, the publication's row shows whether it succeeded.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from sqlalchemy import Connection, select

from vde_dagster.errors import ConflictError, StoreError, UnknownOutcomeError, VdeError
from vde_dagster.lakehouse.catalogs.catalog import TABLE, PointerMovedError
from vde_dagster.lakehouse.publishing import view_ledger
from vde_dagster.lakehouse.publishing.commit import Files, write_then
from vde_dagster.lakehouse.publishing.finish_publication import recover, settle
from vde_dagster.lakehouse.publishing.mirror import update_mirror, want
from vde_dagster.lakehouse.publishing.pins import write_pins
from vde_dagster.lakehouse.publishing.prepare import (
    PreparedHolding,
    PreparedPublication,
    differences,
    made_views,
    prepare,
    view_place,
)
from vde_dagster.lakehouse.publishing.publication import (
    FastForward,
    Publication,
    Return,
    announced_file,
)
from vde_dagster.lakehouse.publishing.shown_tables import require_sources
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import PRODUCTION, Environment
from vde_dagster.planning.intervals.interval import Interval, IntervalSet
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema
from vde_dagster.state.db.database import lock_rows
from vde_dagster.state.db.log import record
from vde_dagster.state.environments.pins import pin_filled, restore_filled
from vde_dagster.state.environments.publications import PublishedFile
from vde_dagster.state.table_commits import production_shows
from vde_dagster.state.tables.tables import filled_ranges

if TYPE_CHECKING:
    from vde_dagster.lakehouse.handles import LakeHandles


T = TypeVar("T")
_ATTEMPTS = 5
_PUBLISHED = (schema.environments.name,)
"""Tables that a publication locks after repeated conflicts."""


def publish(lakehouse: LakeHandles, publication: Publication) -> Environment:
    """Write all changes of a publication in one transaction.

    If the publication's plan is already applied, return the version that it published.

    Raises:
        ConflictError: Another process published first, a name is taken, or a table moved.
        LeaseLostError: A lease of the publication was lost.
        UnknownOutcomeError: The commit's response was lost and the store is unreachable.
    """
    recover(lakehouse)
    done = _applied_already(lakehouse, publication)
    if done is not None:
        return done
    attempt = 1
    while True:
        try:
            return _attempt(lakehouse, publication)
        except PointerMovedError as error:
            # Another environment's branch on the same table is no conflict: read it again.
            if error.kind != TABLE or attempt >= _ATTEMPTS:
                raise
        except _NotCommittedError:
            if attempt >= _ATTEMPTS:
                raise
        attempt += 1
        publication = replace(
            publication,
            environment=replace(publication.environment, publication_id=uuid.uuid4().hex),
        )


class _NotCommittedError(StoreError):
    """The response to a commit was lost, and the state shows that nothing was committed."""


def _applied_already(lakehouse: LakeHandles, publication: Publication) -> Environment | None:
    store, name = lakehouse.store, publication.environment.name
    plan_id = publication.plan_id
    if plan_id is None:
        return None
    record = store.plans.record(plan_id)
    if record is None or record.status != "applied":
        return None
    for version in store.versions.history(name):
        if version.plan_id == plan_id:
            return store.versions.at(name, version.version)
    return None


def _attempt(lakehouse: LakeHandles, publication: Publication) -> Environment:
    prepared = prepare(lakehouse, publication)
    return _announce(
        lakehouse,
        replace(publication.environment, plan_id=publication.plan_id),
        prepared.announced,
        prepared.files,
        "publish.file",
        lambda: _decide(lakehouse, publication, prepared),
    )


def _announce(
    lakehouse: LakeHandles,
    environment: Environment,
    announced: Sequence[PublishedFile],
    files: Files,
    point: str,
    decide: Callable[[], T],
) -> T:
    publications, publication_id = lakehouse.store.publications, environment.publication_id
    publications.intend(
        publication_id, environment.name, environment.plan_id, environment.published_by, announced
    )
    # Called after a failure: nothing was committed, and once it is aborted nothing can be.
    given_up = False

    def may_be_current() -> bool:
        nonlocal given_up
        given_up = publications.resolve(publication_id) == "aborted"
        return not given_up

    try:
        points = (f"{point}.write", f"{point}.delete")
        made = write_then(lakehouse, files, points, decide, may_be_current)
    except Exception:
        if given_up:
            publications.mark_cleaned(publication_id)
        raise
    if lakehouse.catalog.form.follows:
        settle(lakehouse, publication_id)
        update_mirror(lakehouse)
    return made


def _decide(
    lakehouse: LakeHandles, publication: Publication, prepared: PreparedPublication
) -> Environment:
    store, environment = lakehouse.store, publication.environment
    try:
        return store.database.run_transaction(
            lambda conn: _commit(conn, lakehouse, publication, prepared),
            name="publish",
            idempotent=False,
            beside=_PUBLISHED,
        )
    except UnknownOutcomeError as error:
        try:
            status = store.publications.resolve(environment.publication_id)
            record = store.publications.get(environment.publication_id)
        except VdeError as unreachable:
            raise UnknownOutcomeError(
                f"the outcome of publication {environment.publication_id} is unknown: the response "
                "to its commit was lost and the state store cannot be reached",
                hint="run the same command again when the store is back: it checks the outcome "
                "first",
            ) from unreachable
        if status != "aborted" and record is not None and record.version is not None:
            return replace(environment, version=record.version)
        raise _NotCommittedError(
            f"publication {environment.publication_id} did not happen: the connection was lost",
            hint="apply the plan again: vde apply ENV --plan ID",
        ) from error


def _commit(
    conn: Connection,
    lakehouse: LakeHandles,
    publication: Publication,
    prepared: PreparedPublication,
) -> Environment:
    store, catalog = lakehouse.store, lakehouse.catalog
    atomic = not catalog.form.follows
    for lease in publication.leases:
        store.leases.check(conn, lease)
    store.project.adopt(conn, publishes=publication.environment.name == PRODUCTION)
    _leave_production_alone(conn, lakehouse, publication)
    for source in publication.sources:
        store.versions.require_kept(conn, *source)
    if publication.returns:
        _leave_others_alone(conn, lakehouse, publication)
    environment = store.environments.write_version(
        conn, publication.environment, publication.base_version, ends=publication.ends_environment
    )
    store.publications.commit(conn, environment.publication_id, environment.version, settled=atomic)
    _create_namespaces(conn, lakehouse, prepared, environment.name)
    require_sources(catalog, conn, prepared.sources)
    catalog.form.decide(catalog, prepared.swaps, conn)
    for deployment in publication.deployments:
        store.tables.deploy(conn, deployment.table)
    view_ledger.record_views(conn, catalog.name, environment.publication_id, prepared.published)
    view_ledger.forget_views(conn, catalog.name, prepared.dropped)
    want(conn, lakehouse, publication)
    if atomic and publication.ends_environment:
        owners = view_ledger.recorded_namespaces(conn, lakehouse.catalog.name)
        for name, owner in owners.items():
            if owner == environment.name:
                view_ledger.drop_namespace(conn, lakehouse.catalog, name)
    if publication.ends_environment:
        store.statements.forget(conn, environment.name)
    elif publication.statements:
        store.statements.intend(conn, environment.name, publication.plan_id, publication.statements)
    if publication.before_and_after is not None:
        store.statements.put_around_runs(conn, environment.name, publication.before_and_after)
    if publication.plan_id is not None:
        moved = [item.table_id for item in publication.fast_forwards] if atomic else []
        store.pending.settle(conn, publication.plan_id, moved)
        if store.plans.record(publication.plan_id, conn) is not None:
            store.plans.set_status(publication.plan_id, "applied", None, conn)
    _return_tables(conn, lakehouse, publication)
    if publication.changed is not None:
        # Late, so that the plan itself no longer counts among those that may be computing.
        store.outdated.mark(conn, publication.changed, publication.snapshots)
    # Last, because the filled ranges are pinned, too.
    write_pins(lakehouse, conn, environment, prepared.pins)
    pin_filled(
        conn, environment.name, environment.version, _filled_after(conn, lakehouse, publication)
    )
    for other in prepared.holding:
        _hold(conn, lakehouse, publication, other)
    return environment


def _hold(
    conn: Connection, lakehouse: LakeHandles, publication: Publication, other: PreparedHolding
) -> None:
    store, holding = lakehouse.store, other.holding
    made = store.environments.write_version(
        conn, holding.environment, holding.base_version, act="hold"
    )
    view_ledger.record_views(conn, lakehouse.catalog.name, made.publication_id, other.published)
    write_pins(lakehouse, conn, made, other.pins)
    pin_filled(conn, made.name, made.version, _filled_after(conn, lakehouse, publication))


def _return_tables(conn: Connection, lakehouse: LakeHandles, publication: Publication) -> None:
    if not publication.returns:
        return
    now = filled_ranges(conn, [one.table_id for one in publication.returns])
    for one in publication.returns:
        # An outside catalog moves the tables only after this transaction. Until then, only ranges
        # that are filled both before and after the rollback count as filled.
        later = one.moves and lakehouse.catalog.form.follows
        filled = one.filled & now.get(one.table_id, IntervalSet()) if later else one.filled
        restore_filled(conn, one.table_id, filled)
        lakehouse.store.fills.undo(conn, one.table_id, one.left, undone=True)
        lakehouse.store.fills.undo(conn, one.table_id, one.found, undone=False)
        if one.as_of is not None:
            lakehouse.store.outdated.forget(conn, one.table_id, one.as_of)


def _filled_after(
    conn: Connection, lakehouse: LakeHandles, publication: Publication
) -> dict[str, IntervalSet]:
    store, plan_id = lakehouse.store, publication.plan_id
    if not lakehouse.catalog.form.follows:
        return {}
    filled = {one.table_id: one.filled for one in publication.returns}
    waiting: dict[str, list[Interval]] = {}
    for item in store.pending.for_plan(plan_id, conn) if plan_id is not None else ():
        waiting.setdefault(item.table_id, []).append(item.interval)
    now, outdated = filled_ranges(conn, waiting), store.outdated.ranges_by_table(waiting, conn)
    for table_id, ranges in waiting.items():
        new = IntervalSet.of(ranges) - outdated.get(table_id, IntervalSet())
        filled[table_id] = now.get(table_id, IntervalSet()) | new
    return filled


def _leave_production_alone(
    conn: Connection, lakehouse: LakeHandles, publication: Publication
) -> None:
    name = publication.environment.name
    if name == PRODUCTION:
        return
    moving: tuple[FastForward | Return, ...] = (*publication.fast_forwards, *publication.returns)
    tables = {item.table_id: item.ref for item in moving}
    moved = lakehouse.store.shown.tables_in(conn, PRODUCTION, tables)
    if moved:
        raise production_shows(str(tables[min(moved)]), name)


def _leave_others_alone(conn: Connection, lakehouse: LakeHandles, publication: Publication) -> None:
    tables = {one.table_id: str(one.ref) for one in publication.returns if one.moves}
    shown = lakehouse.store.shown.other_environments(publication.environment.name, tables, conn)
    told = {one.environment.name for one in publication.holding}
    for table_id, names in sorted(shown.items()):
        if names - told:
            raise ConflictError(
                f"'{min(names - told)}' began to show {tables[table_id]} while this table was "
                "rolled back",
                hint=f"roll back again: vde rollback {publication.environment.name}",
            )


def _create_namespaces(
    conn: Connection, lakehouse: LakeHandles, prepared: PreparedPublication, environment: str
) -> None:
    catalog = lakehouse.catalog
    present = catalog.namespaces(prepared.namespaces, conn)
    created = [name for name in prepared.namespaces if name not in present]
    if not catalog.form.follows:
        properties = {"vde.environment": environment}
        catalog.create_namespaces(dict.fromkeys(created, properties), conn)
    view_ledger.record_namespaces(
        lakehouse.store.database, conn, catalog.name, dict.fromkeys(created, environment)
    )


def replace_views(
    lakehouse: LakeHandles,
    environment: Environment,
    views: Sequence[ViewDefinition],
    dropped: Sequence[TableRef],
    who: str,
) -> tuple[tuple[TableRef, ...], dict[TableRef, str]]:
    """Replace all of the given views of an environment or none, without a new version.

    Returns:
        The changed views, and for each view with a taken name the reason.

    Raises:
        ConflictError: The environment was published meanwhile.
    """
    store, catalog = lakehouse.store, lakehouse.catalog
    recover(lakehouse)
    with store.database.reading() as conn:
        found = differences(catalog, conn, views, dropped, environment.name)
    taken = {ref: error.message for ref, error in found.taken.items()}
    changed = [*(view_place(view) for view, _ in found.changed), *(ref for ref, _ in found.dropped)]
    if not changed:
        return (), taken
    publication_id = uuid.uuid4().hex
    made = made_views(lakehouse, found, environment.name, publication_id, lakehouse.now_ms())
    swaps = [*(item.swap for item in made), *found.swaps]

    def work(conn: Connection) -> None:
        _require_current(conn, environment)
        settled = not catalog.form.follows
        store.publications.commit(conn, publication_id, environment.version, settled=settled)
        catalog.form.decide(catalog, swaps, conn)
        view_ledger.record_views(
            conn, catalog.name, publication_id, [item.view for item in made if item.view]
        )
        view_ledger.forget_views(conn, catalog.name, [ref for ref, _ in found.dropped])
        about = {"count": len(changed)}
        record(store.database, conn, "views", environment.name, who=who, detail=about)

    _announce(
        lakehouse,
        replace(environment, publication_id=publication_id, plan_id=None, published_by=who),
        [announced_file(swap) for swap in swaps],
        [(item.swap.after or "", item.content) for item in made],
        "change_views.file",
        lambda: store.database.run_transaction(
            work, name="change_views", idempotent=False, beside=_PUBLISHED
        ),
    )
    return tuple(sorted(changed, key=str)), taken


def _require_current(conn: Connection, environment: Environment) -> None:
    head = schema.environments.c
    query = select(head.version).where(head.environment == environment.name, head.live)
    if lock_rows(conn, query).scalar() != environment.version:
        raise ConflictError(
            f"'{environment.name}' was published while the views that show its changes were "
            "written",
            hint="nothing is lost: the new publication writes these views",
        )
