"""Commands that install an extra of this package, in the same way as the package itself was
installed.

Source of the record: https://packaging.python.org/en/latest/specifications/direct-url/.
"""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PACKAGE = "vde-dagster"
_UV_TOOL = "uv-receipt.toml"
"""The file by which uv marks the environment of a tool."""


def how_to_install(extra: str = "") -> str:
    """Return a hint with the command that adds an extra to this installation.

    Without an extra, the command adds required packages that are missing. A package of an index is
    named, a clone and a wheel have their path, and a Git source its URL.
    """
    return f"run {_installer()}{requirement_of(extra, _origin())}"


def requirement_of(extra: str, origin: dict[str, Any] | None) -> str:
    """Return the requirement of this package with an extra, quoted for a shell.

    Args:
        origin: The installation's `direct_url.json`, or None for a package from an index.

    >>> requirement_of("serve", None)
    "'vde-dagster[serve]'"
    """
    extra = extra and f"[{extra}]"
    if origin is None:
        return shlex.quote(f"{PACKAGE}{extra}")
    url = str(origin["url"])
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return editable + shlex.quote(f"{_local_path(url)}{extra}")
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        revision = vcs.get("requested_revision") or vcs["commit_id"]
        return shlex.quote(f"{PACKAGE}{extra} @ {vcs['vcs']}+{url}@{revision}")
    if url.startswith("file:"):
        return shlex.quote(f"{_local_path(url)}{extra}")
    return shlex.quote(f"{PACKAGE}{extra} @ {url}")


def _installer() -> str:
    """Return the beginning of a command that installs into the running Python's environment."""
    if (Path(sys.prefix) / _UV_TOOL).exists():
        return "uv tool install "
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install "
    if find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install "
    return f"uv pip install --python {shlex.quote(sys.executable)} "


def _local_path(url: str) -> str:
    from urllib.request import url2pathname  # Imports an HTTP client.

    return url2pathname(urlsplit(url).path)


def _origin() -> dict[str, Any] | None:
    from importlib.metadata import Distribution, PackageNotFoundError

    try:
        text = Distribution.from_name(PACKAGE).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    return json.loads(text) if text else None
