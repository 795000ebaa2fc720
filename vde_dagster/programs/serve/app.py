"""The application of the server: routes, errors, access.

Only documentation sites have scripts, which may request only the site's files. A script on any
other page of this server could request everything that the user of the page may read.

The server reads each request to its end, even if it refuses the request. If it closed the
connection while a client is sending, the client would get a socket error instead of the response.
"""

from __future__ import annotations

import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime, timezone
from html import escape
from typing import TYPE_CHECKING, Any, TextIO
from urllib.parse import quote

from anyio import move_on_after, to_thread
from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import HTMLResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from vde_dagster.lakehouse.io.locations import for_clients
from vde_dagster.programs.serve.access import Access, token_route
from vde_dagster.programs.serve.catalog_routes import catalog_routes
from vde_dagster.programs.serve.data_routes import ROWS_AT_ONCE, data_routes
from vde_dagster.programs.serve.errors import add_error_handlers
from vde_dagster.programs.serve.loading import Loader
from vde_dagster.programs.serve.served import ServedVersions
from vde_dagster.programs.serve.site_route import site_route
from vde_dagster.project.secrets import expand_secrets

if TYPE_CHECKING:
    from vde_dagster.execution.workspace import Workspace


_THREADS = 15 - ROWS_AT_ONCE


def make_app(
    workspace: Workspace,
    *,
    may_be_open: bool,
    log: TextIO | None = None,
    writes_metadata: bool = False,
) -> FastAPI:
    """Create the FastAPI application that serves a project's environments.

    Args:
        may_be_open: Allow requests without a token if the project has no tokens.
        log: File for a line about each request; None for stderr.
    """

    @asynccontextmanager
    async def few_threads(app: FastAPI) -> AsyncIterator[None]:
        # Each thread, and each reader of rows, may hold one of the database's fifteen connections.
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
    versions = ServedVersions(workspace)
    settings = workspace.settings
    io_settings = for_clients(expand_secrets(settings.served_io), settings.resolved_warehouse)
    loader = Loader(io_settings, writes_metadata)
    access = Access(workspace.store.tokens, may_be_open)
    for router, may_read in (
        (catalog_routes(versions, loader), access.authorize_files),
        (data_routes(versions, loader), access.authorize_rows),
        (site_route(settings.root), access.authorize_site),
    ):
        _add_head_routes(router)
        app.include_router(router, dependencies=[Depends(may_read)])
    app.include_router(token_route())
    app.include_router(docs_route(app))
    add_error_handlers(app)
    app.add_middleware(ReadWholeBody)
    app.add_middleware(AccessLog, file=log)
    return app


def _add_head_routes(router: APIRouter) -> None:
    routes = [route for route in router.routes if isinstance(route, APIRoute)]
    own = {route.path for route in routes if "HEAD" in (route.methods or ())}
    for route in routes:
        if route.path not in own:
            router.add_api_route(
                route.path, route.endpoint, methods=["HEAD"], include_in_schema=False
            )


class AccessLog:
    """Middleware that logs one line per request, to a file or stderr."""

    def __init__(self, app: ASGIApp, file: TextIO | None = None) -> None:
        self._app = app
        self._file = file or sys.stderr

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})
        begun, seen = time.monotonic(), {"status": 500, "bytes": 0}

        async def send_counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                seen["status"] = message["status"]
            elif message["type"] == "http.response.body":
                seen["bytes"] += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, send_counted)
        finally:
            took = (time.monotonic() - begun) * 1000
            print(_log_line(scope, seen, took), file=self._file, flush=True)


def _log_line(scope: Scope, seen: dict[str, int], took: float) -> str:
    state: dict[str, Any] = scope.get("state", {})
    # A proxy names the client, and any process on this machine could pretend to be one.
    client = quote((scope.get("client") or ["-"])[0], safe=":.%[]") or "-"
    at = datetime.now(timezone.utc)
    # A client's text is kept on one line, and in ASCII.
    path = quote(scope["path"], safe="/@+~:=,")
    query = quote(scope["query_string"], safe="/@+~:=,&%")
    asked = f"{path}?{query}" if query else path
    return (
        f"{at:%Y-%m-%dT%H:%M:%SZ} {client} {state.get('who', '-')} {scope['method']} {asked} "
        f"{seen['status']} {seen['bytes']}B {took:.0f}ms"
    )


_STYLE = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}" + (
    "code{background:#f3f3f3;padding:0 .2em}td{padding:.1em .8em .1em 0;vertical-align:top}"
)


def docs_route(app: FastAPI) -> APIRouter:
    router = APIRouter()

    @router.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    def page() -> HTMLResponse:
        """Describe the routes."""
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(_docs_page(app.openapi()), headers=headers)

    return router


def _docs_page(described: dict[str, Any]) -> str:
    io_settings = described["info"]
    routes = [
        _route_html(method, path, one)
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(io_settings['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(io_settings['title'])}</h1><p>{escape(io_settings['description'])} "
        'For programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(routes)}</body></html>"
    )


def _route_html(method: str, path: str, described: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for one in described.get("parameters", ())
    ]
    return (
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
        f"<p>{escape(described.get('description', ''))}</p><table>{''.join(rows)}</table>"
    )


_MOST_BYTES = 16_000_000
_MOST_SECONDS = 5
"""A client that sends more, or takes longer, is disconnected."""


class ReadWholeBody:
    """Middleware that reads a request's body to its end before the response begins."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        ended = False

        async def receive_counted() -> Message:
            nonlocal ended
            message = await receive()
            ended = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        async def send_after_body(message: Message) -> None:
            if message["type"] == "http.response.start":
                taken = 0
                with move_on_after(_MOST_SECONDS):
                    while not ended and taken < _MOST_BYTES:
                        taken += len((await receive_counted()).get("body", b""))
            await send(message)

        await self._app(scope, receive_counted, send_after_body)
