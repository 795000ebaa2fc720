"""Documentation sites built by `vde docs build ENV`, for clients that may read all of ENV.

Browsers log in with any name, and the token as password (Basic, RFC 7617). Only these routes accept
Basic, so that no page of this server can read rows with a browser's stored login.
"""

from __future__ import annotations

import re
from pathlib import Path

from fastapi import APIRouter
from starlette.responses import FileResponse, RedirectResponse, Response

from vde_dagster.programs.serve.errors import ServeError
from vde_dagster.programs.serve.served import WarehouseName

_FILES = re.compile(r"(?:data/)?[a-z][a-z0-9-]*\.(?:html|css|js)", re.ASCII)
"""Types of files in a site; other files of the folder are not served."""

_SITE_NAME = re.compile(r"[\w-]+(?:@\d+)?")

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
"""Pages run only their own files, and may request nothing else, not even this server's rows."""


def site_route(root: Path) -> APIRouter:
    router = APIRouter()

    @router.get("/site/{version}", include_in_schema=False)
    def begin(version: str) -> Response:
        """Redirect to the first page, whose links are relative."""
        _find_site(root, version)
        return RedirectResponse(f"{version}/", 307)

    @router.get("/site/{version}/{path:path}", include_in_schema=False)
    def file(version: str, path: str) -> Response:
        """Return a file of the site built for an environment, or for a version of it."""
        name = path or "index.html"
        folder = _find_site(root, version)
        found = folder / name
        if not _FILES.fullmatch(name) or not _is_file_in(found, folder):
            raise ServeError(404, "the site does not have this file")
        headers = {
            "Content-Security-Policy": _POLICY,
            "Cache-Control": "private, no-cache",
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
        }
        return FileResponse(found, headers=headers)

    return router


def _find_site(root: Path, version: str) -> Path:
    known = WarehouseName.parse(version)
    version_text = f"@{known.version_text}" if known.version_text is not None else ""
    named = f"{known.environment}{version_text}"
    folder = root / "build" / f"docs-{named}"
    is_site = _SITE_NAME.fullmatch(named) and not folder.is_symlink()
    if not is_site or not _is_file_in(folder / "data" / "index.js", folder):
        build = f"vde docs build {named}" if _SITE_NAME.fullmatch(named) else "vde docs build ENV"
        raise ServeError(404, f"this site is not built; the server's operator can run: {build}")
    return folder


def _is_file_in(file: Path, folder: Path) -> bool:
    try:
        return file.is_file() and file.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):  # A loop of links, or a NUL in the name.
        return False
