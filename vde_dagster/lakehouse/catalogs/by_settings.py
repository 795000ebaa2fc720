"""Selection of a project's catalog by its settings, and Spark's properties for the catalog."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote as quote_url

from vde_dagster.base.plugins import Seam
from vde_dagster.errors import UsageError
from vde_dagster.lakehouse.catalogs.catalog import Catalog, SparkCatalog
from vde_dagster.lakehouse.io.locations import for_spark, warehouse_uri
from vde_dagster.project.secrets import expand_secrets
from vde_dagster.project.settings import Settings
from vde_dagster.state.db.database import IDLE_SECONDS
from vde_dagster.state.db.effects import Effects

_PLUGINS: Seam[Callable[[Settings, Effects], Catalog]] = Seam("catalogs")


def outside_catalog(settings: Settings, effects: Effects) -> Catalog | None:
    """Create a project's catalog, or return None if the catalog is in the state database."""
    if settings.catalog_type:
        return _PLUGINS.require(settings.catalog_type)(settings, effects)
    if not settings.rest.uri:
        return None
    from vde_dagster.lakehouse.catalogs.rest import RestCatalog
    from vde_dagster.lakehouse.catalogs.rest_server import RestServer

    return RestCatalog(
        RestServer(settings.rest.resolved()),
        settings.catalog,
        settings.resolved_warehouse,
        effects,
        expand_secrets(settings.io),
        settings.rest.mirror,
    )


SQLITE_PACKAGE = "org.xerial:sqlite-jdbc:3.49.1.0"
POSTGRES_PACKAGE = "org.postgresql:postgresql:42.7.7"

_PACKAGES = {"sqlite": SQLITE_PACKAGE, "postgresql": POSTGRES_PACKAGE}
_DRIVERS = {"sqlite": "org.sqlite.JDBC", "postgresql": "org.postgresql.Driver"}


def spark_catalog(
    state_url: str,
    warehouse: str,
    io: Mapping[str, str] | None = None,
    search_path: str | None = None,
) -> SparkCatalog:
    """Build Spark's configuration for the catalog in a state database.

    `search_path` is for logins that write to the state through views.
    """
    options = jdbc_options(state_url, search_path)
    backend = state_url.partition(":")[0].partition("+")[0]
    path = options["uri"].removeprefix("jdbc:sqlite:").partition("?")[0]
    return SparkCatalog(
        properties={
            "type": "jdbc",
            "warehouse": warehouse_uri(warehouse),
            # Views require this version.
            "jdbc.schema-version": "V1",
            # With the cache, a session would read table states up to 30 s old.
            "cache-enabled": "false",
            **for_spark(io or {}, warehouse),
            **options,
        },
        packages=(_PACKAGES[backend],),
        driver=_DRIVERS[backend],
        database=path if path.startswith("/") else None,
    )


def jdbc_options(state_url: str, search_path: str | None = None) -> dict[str, str]:
    """Convert the state database's SQLAlchemy URL to options of Iceberg's JDBC catalog."""
    from sqlalchemy.engine import make_url

    url = make_url(state_url)
    if url.get_backend_name() == "sqlite":
        if not url.database or url.database == ":memory:":
            raise UsageError(
                "the state database is in memory, where Spark cannot reach it",
                hint="set state_url to a file, for example sqlite:////data/vde.db",
            )
        path = Path(url.database).absolute()
        return {"uri": f"jdbc:sqlite:{path}?busy_timeout=30000&journal_mode=WAL"}
    if url.get_backend_name() != "postgresql":
        raise UsageError(
            f"the state database has the unsupported type '{url.get_backend_name()}'",
            hint="use a sqlite:/// or postgresql:// URL",
        )
    port = f":{url.port}" if url.port else ""
    query = dict(url.query)
    host = url.host or str(query.pop("host", "localhost"))
    if host.startswith("/"):
        raise UsageError(
            "the state database uses a Unix socket, which Java's driver does not support",
            hint="set the server's host and port in state_url",
        )
    # The same limits as our own connections. Iceberg commits each statement, so no transaction is
    # idle; waiting for a lock, or for a lost server, ends by the socket's timeout.
    alive = "false" if query.pop("keepalives", "1") == "0" else "true"
    limits = {
        "tcpKeepAlive": alive,
        "connectTimeout": query.pop("connect_timeout", "10"),
        "socketTimeout": f"{IDLE_SECONDS:.0f}",
    }
    if search_path is not None:
        limits["currentSchema"] = search_path
    parameters = "&".join(
        f"{key}={quote_url(str(value))}" for key, value in {**query, **limits}.items()
    )
    options = {"uri": f"jdbc:postgresql://{host}{port}/{url.database or ''}?{parameters}"}
    if url.username:
        options["jdbc.user"] = url.username
    if url.password:
        options["jdbc.password"] = str(url.password)
    return options
