"""The application: its routes, its errors, and who may ask."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TextIO

from anyio import to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute

from vde_dagster.lakehouse.object_stores import for_clients
from vde_dagster.serve.access import Access
from vde_dagster.serve.access_log import AccessLog
from vde_dagster.serve.catalog_routes import catalog_routes
from vde_dagster.serve.data_routes import ROWS_AT_ONCE, data_routes
from vde_dagster.serve.docs_page import docs_route
from vde_dagster.serve.errors import answer_errors
from vde_dagster.serve.loading import Loader
from vde_dagster.serve.request_bodies import TakeBodies
from vde_dagster.serve.served import Versions
from vde_dagster.serve.token_route import token_route

if TYPE_CHECKING:
    from vde_dagster.execution.warehouse import Warehouse

_THREADS = 15 - ROWS_AT_ONCE


def make_app(
    warehouse: Warehouse,
    *,
    may_be_open: bool,
    log: TextIO | None = None,
    writes_metadata: bool = False,
) -> FastAPI:
    """Return the application that serves a project's environments.

    Args:
        warehouse: The project's warehouse, which is read and never changed.
        may_be_open: Whether nobody has to have a token while none was made.
        log: What gets a line for each request; None for stderr.
        writes_metadata: Whether metadata that is answered is a file, too.
    """

    @asynccontextmanager
    async def few_threads(app: FastAPI) -> AsyncIterator[None]:
        # Each, and each that reads rows, may hold one of the database's fifteen connections.
        to_thread.current_default_thread_limiter().total_tokens = _THREADS
        yield

    app = FastAPI(
        lifespan=few_threads,
        title="vde serve",
        description="Environments, read-only.",
        version="1",
        # Clients would follow with their token, to whatever name and scheme a proxy left.
        redirect_slashes=False,
        docs_url=None,
        redoc_url=None,
    )
    versions = Versions(warehouse)
    settings = warehouse.settings
    told = for_clients(settings.resolved_served_io(), settings.resolved_warehouse)
    loader = Loader(told, writes_metadata)
    access = Access(warehouse.store.tokens, may_be_open)
    for router, may_read in (
        (catalog_routes(versions, loader), access.reads_files),
        (data_routes(versions, loader), access.reads_rows),
    ):
        _answer_head(router)
        app.include_router(router, dependencies=[Depends(may_read)])
    app.include_router(token_route())
    app.include_router(docs_route(app))
    answer_errors(app)
    app.add_middleware(TakeBodies)
    app.add_middleware(AccessLog, file=log)
    return app


def _answer_head(router: APIRouter) -> None:
    """Let HEAD be answered as GET is, without content, wherever it has no answer of its own."""
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    own = {route.path for route in routes if "HEAD" in (route.methods or ())}
    for route in routes:
        if route.path not in own:
            router.add_api_route(
                route.path, route.endpoint, methods=["HEAD"], include_in_schema=False
            )
