"""Writing of a site's files: the shell (equal for every project) and the project's data."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import BinaryIO

from vde_dagster.api.errors import UsageError
from vde_dagster.api.reports import Document
from vde_dagster.api.sources import replacing
from vde_dagster.plugins.site.compact import SCRIPT_START, compact

SHELL = (
    *("index.html", "site.css", "site.js", "search.js", "select.js"),
    *("pages.js", "states.js", "graph.js", "home.js"),
)
"""Files of a site that are the same for every project."""

DATA = "data"
"""The folder of scripts."""


def site_files(document: Document) -> dict[str, bytes]:
    """Return the files of a site by path: the shell, and the project's data as scripts."""
    shell = files("vde_dagster.plugins.site") / "shell"
    found = {name: (shell / name).read_bytes() for name in SHELL}
    scripts = compact(document).items()
    return found | {f"{DATA}/{name}.js": text for name, text in scripts}


def write_site(made: Mapping[str, bytes], folder: Path) -> None:
    """Write the files of a site to a folder, and delete data files of an earlier site.

    Raises:
        UsageError: The folder has files but no earlier site, or cannot be written.
    """
    try:
        _require_site_folder(folder)
        (folder / DATA).mkdir(parents=True, exist_ok=True)
        for path, content in made.items():
            with replacing(folder / path, shared=True) as file:
                file.write(content)
        for there in (folder / DATA).iterdir():
            if f"{DATA}/{there.name}" not in made and _is_script(there):
                there.unlink()
    except OSError as error:
        raise UsageError(
            f"the site cannot be written to {folder}: {error.strerror}",
            hint="pass another folder: vde docs build --to FOLDER",
        ) from error


def _require_site_folder(folder: Path) -> None:
    if not folder.exists():
        return
    if any(folder.iterdir()) and not _is_script(folder / DATA / "index.js"):
        raise UsageError(
            f"{folder} has files that do not belong to a site",
            hint="pass an empty folder, or one of an earlier site: vde docs build --to FOLDER",
        )


def _is_script(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(SCRIPT_START)) == SCRIPT_START


def serve_site(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return an HTTP server for a folder, for requests from this machine.

    Args:
        port: 0 for any free port.

    Raises:
        UsageError: The port is in use.
    """
    try:
        return _SiteServer(("127.0.0.1", port), partial(_SiteHandler, directory=str(folder)))
    except OSError as error:
        raise UsageError(
            f"cannot listen on port {port}: {error.strerror}",
            hint="pass another port: vde docs serve --port PORT",
        ) from error


class _SiteServer(ThreadingHTTPServer):
    # A browser opens several connections at once. With Python's default of 5, the system resets
    # those beyond it while this process is busy.
    request_queue_size = 128


class _SiteHandler(SimpleHTTPRequestHandler):
    def send_head(self) -> io.BytesIO | BinaryIO | None:
        """Send a file; 404 for a folder without `index.html`, or a link to outside the site."""
        if not self._is_page(self.translate_path(self.path)):
            self.send_error(HTTPStatus.NOT_FOUND, "File not found")
            return None
        return super().send_head()

    def _is_page(self, path: str) -> bool:
        try:
            folder, found = os.path.realpath(self.directory), os.path.realpath(path)
        except ValueError:  # The path contains a NUL.
            return False
        if found != folder and not found.startswith(f"{folder}{os.sep}"):
            return False
        return os.path.isfile(found) or os.path.isfile(os.path.join(found, "index.html"))

    def log_message(self, format: str, *args: object) -> None: ...
