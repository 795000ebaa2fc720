"""The publish transaction: every pointer, the environment and the plan, all or none.

1. Announce the publication and the files that it will write, so that a crash leaves nothing
   unowned.
2. Write the files, under names never used before: nobody reads them yet.
3. One transaction: check leases, compare and swap every pointer, write the environment's version,
   turn pending intervals into filled ones, and decide the publication.

Files are removed only when the transaction is known to be rolled back. A commit whose answer was
lost is decided through the publication's row, never guessed.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy import Connection, ScalarResult, select

from vde_dagster.errors import StoreError, UnknownOutcomeError, VdeError
from vde_dagster.lakehouse.pointers import (
    TABLE,
    PointerMovedError,
    create_namespaces,
    drop_namespace_if_empty,
    namespaces_present,
    swap_pointers,
)
from vde_dagster.lakehouse.prepare import Prepared, prepare
from vde_dagster.lakehouse.publication import Publication
from vde_dagster.lakehouse.view_ledger import forget_views, record_views
from vde_dagster.planning.environment import Environment
from vde_dagster.state.schema import namespaces as namespace_ledger
from vde_dagster.state.snapshots import insert_if_absent

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse

_ATTEMPTS = 5


def publish(lakehouse: Lakehouse, publication: Publication) -> Environment:
    """Make a publication visible, all of it or nothing.

    A publication of a plan that is applied already returns the environment that it made.

    Returns:
        The environment with the version number, and the publication id, that it got.

    Raises:
        ConflictError: Somebody else published first, a name is taken, or a table moved.
        LeaseLostError: A lease of the publication is no longer valid.
        UnknownOutcomeError: The commit's answer was lost and the store cannot be asked.
    """
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
    """A commit's answer was lost, and it was found out that it did not happen."""


def _applied_already(lakehouse: Lakehouse, publication: Publication) -> Environment | None:
    """Return the environment as the publication's plan left it, if it was applied before."""
    store, name = lakehouse.store, publication.environment.name
    plan_id = publication.plan_id
    if plan_id is None:
        return None
    record = store.plan_record(plan_id)
    if record is None or record.status != "applied":
        return None
    for version in store.history(name):
        if version.plan_id == plan_id:
            return store.environment_at(name, version.version)
    return None


def _attempt(lakehouse: Lakehouse, publication: Publication) -> Environment:
    store, environment = lakehouse.store, publication.environment
    prepared = prepare(lakehouse, publication)
    written = [location for location, _ in prepared.files]
    store.intend_publication(
        environment.publication_id,
        environment.name,
        publication.plan_id,
        environment.published_by,
        prepared.publication_files(),
    )
    try:
        lakehouse.files.write_all(prepared.files, "publish.file.write")
        return store.run_transaction(
            lambda conn: _commit(conn, lakehouse, publication, prepared),
            name="publish",
            idempotent=False,
        )
    except UnknownOutcomeError as error:
        return _decide(lakehouse, publication, written, error)
    except Exception:
        # Nothing was committed, and after this nothing can be: the files are nobody's.
        if store.resolve_publication(environment.publication_id) == "aborted":
            lakehouse.files.delete_all(written, "publish.file.delete")
            store.mark_publication_cleaned(environment.publication_id)
        raise


def _decide(
    lakehouse: Lakehouse,
    publication: Publication,
    written: list[str],
    error: UnknownOutcomeError,
) -> Environment:
    """Find out what became of a commit whose answer was lost."""
    store, environment = lakehouse.store, publication.environment
    try:
        status = store.resolve_publication(environment.publication_id)
        record = store.publication(environment.publication_id)
    except VdeError as unreachable:
        raise UnknownOutcomeError(
            f"it is not known whether publication {environment.publication_id} happened: the "
            "answer to its commit was lost and the state store cannot be asked",
            hint="run the same command again when the store is back: it looks this up first",
        ) from unreachable
    if status == "committed" and record is not None and record.version is not None:
        return replace(environment, version=record.version)
    lakehouse.files.delete_all(written, "publish.file.delete")
    store.mark_publication_cleaned(environment.publication_id)
    raise _NotCommittedError(
        f"publication {environment.publication_id} did not happen: the connection was lost",
        hint="apply the plan again",
    ) from error


def _commit(
    conn: Connection, lakehouse: Lakehouse, publication: Publication, prepared: Prepared
) -> Environment:
    """Do everything that becomes visible; raising rolls all of it back."""
    store, catalog = lakehouse.store, lakehouse.catalog_name
    for lease in publication.leases:
        store.check_lease(conn, lease)
    environment = _write_environment(conn, lakehouse, publication)
    store.commit_publication(conn, environment.publication_id, environment.version)
    _create_namespaces(conn, lakehouse, prepared, environment.name)
    swap_pointers(conn, catalog, prepared.swaps)
    record_views(conn, catalog, environment.publication_id, prepared.published)
    forget_views(conn, catalog, prepared.dropped)
    if publication.ends_environment:
        _drop_namespaces(conn, lakehouse, environment.name)
    if publication.plan_id is not None:
        store.settle_pending_intervals(
            conn, publication.plan_id, [item.table_id for item in publication.fast_forwards]
        )
        if store.plan_record(publication.plan_id, conn) is not None:
            store.set_plan_status(publication.plan_id, "applied", None, conn)
    return environment


def _write_environment(
    conn: Connection, lakehouse: Lakehouse, publication: Publication
) -> Environment:
    store, environment = lakehouse.store, publication.environment
    if not publication.ends_environment:
        return store.write_environment_version(conn, environment, publication.base_version)
    version = store.write_environment_drop(conn, environment, publication.base_version)
    return replace(environment, version=version, entries={})


def _create_namespaces(
    conn: Connection, lakehouse: Lakehouse, prepared: Prepared, environment: str
) -> None:
    catalog = lakehouse.catalog_name
    present = namespaces_present(conn, catalog, prepared.namespaces)
    created = [name for name in prepared.namespaces if name not in present]
    create_namespaces(conn, catalog, {name: {"vde.environment": environment} for name in created})
    rows = [
        {
            "catalog_name": catalog,
            "namespace": name,
            "environment": environment,
            "created_at": lakehouse.store.clock.now(),
        }
        for name in created
    ]
    insert_if_absent(conn, namespace_ledger, rows)


def _drop_namespaces(conn: Connection, lakehouse: Lakehouse, environment: str) -> None:
    """Remove the namespaces that publications of an environment created, where they are empty."""
    ledger = namespace_ledger
    own = (ledger.c.catalog_name == lakehouse.catalog_name) & (ledger.c.environment == environment)
    names: ScalarResult[str] = conn.execute(select(ledger.c.namespace).where(own)).scalars()
    for name in names.all():
        if drop_namespace_if_empty(conn, lakehouse.catalog_name, name):
            conn.execute(ledger.delete().where(own, ledger.c.namespace == name))
