"""Views beside those of a publication, which follow it in a transaction of their own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlalchemy import Connection, select

from vde_dagster.errors import ConflictError
from vde_dagster.lakehouse.catalogs.catalog import VIEW, Swap
from vde_dagster.lakehouse.publishing.commit import write_then
from vde_dagster.lakehouse.publishing.finish_publication import recover, settle
from vde_dagster.lakehouse.publishing.prepare import differences, made_views, ref_of
from vde_dagster.lakehouse.publishing.table_moves import announced_file
from vde_dagster.lakehouse.publishing.view_ledger import forget_views, record_views
from vde_dagster.planning.engine_tasks import ViewDefinition
from vde_dagster.planning.environments.environment import Environment
from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db import schema

if TYPE_CHECKING:
    from vde_dagster.lakehouse.lakehouse import Lakehouse


def replace_views(
    lakehouse: Lakehouse,
    environment: Environment,
    views: Sequence[ViewDefinition],
    dropped: Sequence[TableRef],
    who: str,
) -> tuple[tuple[TableRef, ...], dict[TableRef, str]]:
    """Write views of an environment's current version, all of them or none.

    Returns those that changed, and why others have a name that is taken.

    Raises:
        ConflictError: The environment was published meanwhile.
    """
    store, catalog = lakehouse.store, lakehouse.catalog
    recover(lakehouse)
    free, taken = [], {}
    with store.database.reading() as conn:
        for view in views:
            try:
                differences(catalog, conn, [view], (), environment.name)
            except ConflictError as error:
                taken[ref_of(view)] = error.message
            else:
                free.append(view)
        found = differences(catalog, conn, free, dropped, environment.name)
    changed = [ref_of(view) for view in found.created]
    changed += [ref_of(view) for view, _ in found.replaced]
    changed += [ref for ref, _ in found.dropped]
    if not changed:
        return (), taken
    now_ms = int(store.database.clock.now().timestamp() * 1000)
    publication_id = uuid.uuid4().hex
    made = made_views(lakehouse, found, environment.name, publication_id, now_ms)
    swaps = [item.swap for item in made]
    swaps += [Swap(ref, VIEW, at.location, None) for ref, at in found.dropped if at is not None]
    follows = catalog.form.follows
    store.publications.intend(
        publication_id, environment.name, None, who, [announced_file(swap) for swap in swaps]
    )

    def work(conn: Connection) -> None:
        _require_current(conn, environment)
        store.publications.commit(conn, publication_id, environment.version, settled=not follows)
        catalog.form.decide(catalog, swaps, conn)
        record_views(conn, catalog.name, publication_id, [item.view for item in made if item.view])
        forget_views(conn, catalog.name, [ref for ref, _ in found.dropped])

    write_then(
        lakehouse,
        [(item.swap.after or "", item.content) for item in made],
        ("change_views.file.write", "change_views.file.delete"),
        lambda: store.database.run_transaction(work, name="change_views", idempotent=False),
        lambda: store.publications.resolve(publication_id) != "aborted",
    )
    if follows:
        settle(lakehouse, publication_id)
    return tuple(sorted(changed, key=str)), taken


def _require_current(conn: Connection, environment: Environment) -> None:
    head = schema.environments.c
    query = (
        select(head.version)
        .where(head.environment == environment.name, head.live)
        .with_for_update()
    )
    if conn.execute(query).scalar() != environment.version:
        raise ConflictError(
            f"'{environment.name}' was published while the views of its changes were written",
            hint="nothing is lost: whoever published it writes them",
        )
