"""Commands that install an extra of this package, using the installer that installed the package.

Format of `direct_url.json`: https://packaging.python.org/en/latest/specifications/direct-url/.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

__version__ = "0.1.0"
PACKAGE = "vde-dagster"
SLIM = "vde-dagster-slim"
"""The distribution with the same code and without Spark and Dagster."""
_UV_TOOL = "uv-receipt.toml"
"""The file by which uv marks the environment of a tool."""
_UVX = "archive-v0"
"""Folder in uv's cache with the environments of `uvx`; nothing else may be installed there."""
_PIPX = "pipx_metadata.json"


def how_to_install(extra: str = "") -> str:
    """Return a hint with the command that adds an extra to this installation.

    Without an extra, the command adds required packages that are missing. The command names the
    package as it was installed: from an index, a local path or a Git URL.
    """
    name, origin = _read_origin()
    home = Path(sys.prefix)
    extras = {extra} - {""}
    if not extra and name == SLIM:
        return f"{SLIM} leaves out Spark and Dagster; run {_install_command()}{PACKAGE}"
    if home.parent.name == _UVX:
        return f"run uvx --from {extra_requirement(extra, origin, name)} vde …"
    if (home / _UV_TOOL).exists():
        # A tool is installed anew: with the extras that it has.
        had = re.search(
            rf'name = "{name}"[^}}]*extras = \[([^\]]*)\]', (home / _UV_TOOL).read_text()
        )
        extras |= set(re.findall(r'"([\w-]+)"', had[1])) if had else set()
    return f"run {_install_command()}{extra_requirement(','.join(sorted(extras)), origin, name)}"


def extra_requirement(extra: str, origin: dict[str, Any] | None, name: str = PACKAGE) -> str:
    """Return the requirement of this package with an extra, quoted for a shell.

    `origin` is the installation's `direct_url.json`, or None for a package from an index.

    >>> extra_requirement("serve", None)
    "'vde-dagster[serve]'"
    """
    extra = extra and f"[{extra}]"
    if origin is None:
        return shlex.quote(f"{name}{extra}")
    url = str(origin["url"])
    if "dir_info" in origin:
        editable = "-e " if origin["dir_info"].get("editable") else ""
        return editable + shlex.quote(f"{_local_path(url)}{extra}")
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        revision = vcs.get("requested_revision") or vcs["commit_id"]
        return shlex.quote(f"{name}{extra} @ {vcs['vcs']}+{url}@{revision}")
    if url.startswith("file:"):
        # Installers take what is installed where the wheel was deleted.
        there = Path(_local_path(url)).exists()
        return shlex.quote(f"{_local_path(url) if there else name}{extra}")
    return shlex.quote(f"{name}{extra} @ {url}")


def _install_command() -> str:
    home = Path(sys.prefix)
    if (home / _UV_TOOL).exists():
        return "uv tool install "
    if (home / _PIPX).exists():
        return f"pipx runpip {home.name} install "
    pip = shutil.which("pip")
    if pip is not None and Path(pip).parent == Path(sys.executable).parent:
        return "pip install "
    if find_spec("pip") is not None:
        return f"{shlex.quote(sys.executable)} -m pip install "
    return f"uv pip install --python {shlex.quote(sys.executable)} "


def _local_path(url: str) -> str:
    from urllib.request import url2pathname  # Imports an HTTP client.

    return url2pathname(urlsplit(url).path)


def _read_origin() -> tuple[str, dict[str, Any] | None]:
    from importlib.metadata import Distribution, PackageNotFoundError

    for name in (PACKAGE, SLIM):
        try:
            text = Distribution.from_name(name).read_text("direct_url.json")
        except PackageNotFoundError:
            continue
        return name, json.loads(text) if text else None
    return PACKAGE, None
