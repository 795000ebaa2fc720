"""The page that describes the routes: plain HTML of what `/openapi.json` says.

It runs no script. One from elsewhere would run as a page of this server, and could read all of it.
"""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI
from starlette.responses import HTMLResponse

_STYLE = "body{font:16px/1.5 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}" + (
    "code{background:#f3f3f3;padding:0 .2em}td{padding:.1em .8em .1em 0;vertical-align:top}"
)


def docs_route(app: FastAPI) -> APIRouter:
    """Return the route of the page.

    Args:
        app: The application whose routes it describes.
    """
    router = APIRouter()

    @router.api_route("/docs", methods=["GET", "HEAD"], include_in_schema=False)
    def page() -> HTMLResponse:
        """Describe the routes."""
        headers = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'"}
        return HTMLResponse(_page(app.openapi()), headers=headers)

    return router


def _page(described: dict[str, Any]) -> str:
    told = described["info"]
    routes = [
        _route(method, path, one)
        for path, methods in described["paths"].items()
        for method, one in methods.items()
    ]
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(told['title'])}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{escape(told['title'])}</h1><p>{escape(told['description'])} "
        'For programs: <a href="openapi.json">openapi.json</a>.</p>'
        f"{''.join(routes)}</body></html>"
    )


def _route(method: str, path: str, described: dict[str, Any]) -> str:
    rows = [
        f"<tr><td><code>{escape(one['name'])}</code></td><td>{escape(one['in'])}</td>"
        f"<td>{escape(one.get('description', ''))}</td></tr>"
        for one in described.get("parameters", ())
    ]
    return (
        f"<h2><code>{escape(method.upper())} {escape(path)}</code></h2>"
        f"<p>{escape(described.get('description', ''))}</p><table>{''.join(rows)}</table>"
    )
