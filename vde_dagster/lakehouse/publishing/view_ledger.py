"""The ledger of published views and namespaces, used to find differences without reading files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, bindparam, select

from vde_dagster.planning.tables.table import TableRef
from vde_dagster.state.db.database import Database
from vde_dagster.state.db.rows import among, row_from_value, upsert
from vde_dagster.state.db.schema import namespaces, views

if TYPE_CHECKING:
    from vde_dagster.lakehouse.catalogs.catalog import Catalog

_OF_CATALOG = select(views).where(views.c.catalog_name == bindparam("of_catalog"))
_OF_NAMESPACE = _OF_CATALOG.where(views.c.namespace == bindparam("of_namespace"))


@dataclass(frozen=True, slots=True)
class PublishedView:
    """A view as its last publication defined it, with its metadata file."""

    ref: TableRef
    environment: str
    definition_hash: str
    metadata_location: str


def published_views(
    connection: Connection,
    catalog: str,
    *,
    refs: Iterable[TableRef] = (),
    environment: str | None = None,
    ending: str = "",
) -> dict[TableRef, PublishedView]:
    """Read the records of `refs`, and of an environment's views with names ending in `ending`."""
    found: dict[TableRef, PublishedView] = {}
    by_namespace: dict[str, list[str]] = {}
    for ref in refs:
        by_namespace.setdefault(ref.namespace, []).append(ref.name)
    rows: list[Any] = []
    of = {"of_catalog": catalog}
    for namespace, names in by_namespace.items():
        place = {**of, "of_namespace": namespace}
        rows += among(connection, _OF_NAMESPACE, views.c.name, names, place)
    if environment is not None:
        query = _OF_CATALOG.where(views.c.environment == environment)
        if ending:
            query = query.where(views.c.name.endswith(ending, autoescape=True))
        rows += connection.execute(query, of)
    for row in rows:
        ref = TableRef(row.namespace, row.name)
        found[ref] = PublishedView(ref, row.environment, row.definition_hash, row.metadata_location)
    return found


def published_files(database: Database) -> list[str]:
    """Return the metadata files of all published views, in all catalogs."""
    return database.column(select(views.c.metadata_location))


def forget_views(connection: Connection, catalog: str, refs: Iterable[TableRef]) -> None:
    rows = [{"at_namespace": ref.namespace, "at_name": ref.name} for ref in refs]
    if rows:
        connection.execute(
            views.delete().where(
                views.c.catalog_name == catalog,
                views.c.namespace == bindparam("at_namespace"),
                views.c.name == bindparam("at_name"),
            ),
            rows,
        )


def move_view(connection: Connection, catalog: str, view: PublishedView) -> None:
    """Store a new metadata file for a view whose definition has not changed."""
    at = (views.c.catalog_name == catalog) & (views.c.namespace == view.ref.namespace)
    connection.execute(
        views.update()
        .where(at, views.c.name == view.ref.name)
        .values(metadata_location=view.metadata_location)
    )


def record_views(
    connection: Connection, catalog: str, publication_id: str, published: Sequence[PublishedView]
) -> None:
    """Store published views in place of their earlier records."""
    rows = [
        row_from_value(
            view,
            views,
            catalog_name=catalog,
            namespace=view.ref.namespace,
            name=view.ref.name,
            publication_id=publication_id,
        )
        for view in published
    ]
    upsert(connection, views, rows, *(one.name for one in views.c if not one.primary_key))


def record_namespaces(
    database: Database, connection: Connection, catalog: str, made: Mapping[str, str]
) -> None:
    """Store the namespaces that a publication created, with the owning environment."""
    now = database.clock.now()
    rows = [
        {"catalog_name": catalog, "namespace": name, "environment": owner, "created_at": now}
        for name, owner in made.items()
    ]
    upsert(connection, namespaces, rows)


def recorded_namespaces(connection: Connection, catalog: str) -> dict[str, str]:
    """Return the namespaces that publications created, with the owning environment."""
    query = select(namespaces.c.namespace, namespaces.c.environment)
    rows = connection.execute(query.where(namespaces.c.catalog_name == catalog))
    return {row.namespace: row.environment for row in rows}


def drop_namespace(connection: Connection, catalog: Catalog, name: str) -> bool:
    """If a namespace is empty, remove it with its record. Return whether it was removed."""
    if not catalog.drop_namespace(name, connection):
        return False
    own = (namespaces.c.catalog_name == catalog.name) & (namespaces.c.namespace == name)
    connection.execute(namespaces.delete().where(own))
    return True
