"""Which catalog a project's settings ask for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from vde_dagster.base.plugins import Seam
from vde_dagster.project.settings import Settings, with_secrets
from vde_dagster.state.db.effects import Effects, NoEffects

if TYPE_CHECKING:
    from vde_dagster.lakehouse.catalogs.catalog import Catalog, SparkCatalog
    from vde_dagster.state.store import StateStore


_PLUGINS: Seam[Callable[[Settings, Effects], Catalog]] = Seam("catalogs")


def other_catalog(settings: Settings, store: StateStore) -> Catalog | None:
    """Return the catalog of a project, or None for the one in its state's database.

    Raises:
        ProjectError: A setting names an environment variable that is not set.
        UsageError: The catalog's distribution is not installed, or broken.
    """
    return _other(settings, store.database.effects)


def reached_by_spark(settings: Settings) -> SparkCatalog | None:
    """Say how Spark reaches the catalog, or None for the one in the state's database.

    Raises:
        ProjectError: A setting names an environment variable that is not set.
        UsageError: The catalog's distribution is not installed, or broken.
    """
    catalog = _other(settings, NoEffects())
    return catalog.for_spark() if catalog is not None else None


def _other(settings: Settings, effects: Effects) -> Catalog | None:
    if settings.catalog_type:
        return _PLUGINS.require(settings.catalog_type)(settings, effects)
    if settings.nessie.uri:
        return _PLUGINS.require("nessie")(settings, effects)
    return _rest(settings, effects)


def _rest(settings: Settings, effects: Effects) -> Catalog | None:
    if not settings.rest.uri:
        return None
    from vde_dagster.lakehouse.catalogs.rest import RestCatalog
    from vde_dagster.lakehouse.catalogs.rest_server import RestAccess, RestServer

    rest = settings.rest.resolved()
    access = RestAccess(
        rest.uri,
        rest.warehouse,
        rest.token,
        rest.credential,
        rest.oauth2_uri,
        rest.scope,
        rest.properties,
    )
    return RestCatalog(
        RestServer(access),
        settings.catalog,
        settings.resolved_warehouse,
        effects,
        with_secrets(settings.io),
        settings.rest.mirror,
    )
