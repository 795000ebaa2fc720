"""Checks that a location is inside the warehouse, before anything there is deleted.

A location comes from a stored row and may mislead: it can contain `..`, a symbolic link, another
scheme, or a query that an object store's client cuts off. It can also be a folder next to the
warehouse whose name begins with the warehouse's name. The check reads the location in the same way
as the client that deletes it.
"""

from __future__ import annotations

import os
import re
import unicodedata
from urllib.parse import unquote

from vde_dagster.base.locations import store_scheme
from vde_dagster.lakehouse.io.locations import local_path

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def flaw_inside(location: str, warehouse: str) -> str | None:
    """Describe why a location may be outside the warehouse's folder, or return None."""
    if _CONTROL.search(location):
        return "has control characters"
    path, root = local_path(location), local_path(warehouse)
    if (path is None) is not (root is None):
        return "is outside of the warehouse"
    parts = _parts(path if path is not None else location)
    if any(unquote(part) in (".", "..") for part in parts):
        return "contains '..'"
    if path is None or root is None:
        return _remote_flaw(location, warehouse)
    path, root = os.path.normpath(path), os.path.normpath(root)
    if not path.startswith(f"{root.rstrip('/')}/"):
        return "is outside of the warehouse"
    # As the file system resolves it: below the warehouse's folder no link may lead elsewhere.
    if os.path.realpath(path) != os.path.join(
        os.path.realpath(root), path[len(root) :].lstrip("/")
    ):
        return "is reached through a symbolic link"
    return None


def _remote_flaw(location: str, warehouse: str) -> str | None:
    scheme, _, rest = location.partition("://")
    own_scheme, _, own_rest = warehouse.partition("://")
    if store_scheme(scheme) != store_scheme(own_scheme):
        return "is outside of the warehouse"
    if "?" in rest or "#" in rest:
        return "has a query or a fragment"  # clients cut it off before they delete
    parts, own = rest.rstrip("/").split("/"), own_rest.rstrip("/").split("/")
    if len(parts) <= len(own) or parts[: len(own)] != own:
        return "is outside of the warehouse"
    return "has an empty part" if "" in parts[len(own) :] else None


def place_key(location: str) -> str:
    """Convert a location to a key that is the same for all spellings of one place.

    Case and Unicode normalization make no difference.
    """
    path = local_path(location)
    if path is None:
        scheme, _, rest = location.partition("://")
        text = f"{store_scheme(scheme)}://{rest.rstrip('/')}"
    else:
        text = os.path.normpath(path)
    # Some file systems treat places that differ only in case or normalization as one place.
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text).casefold()


def is_below(key: str, folder_key: str) -> bool:
    """Check whether a place is inside a folder, or is the folder itself (see `place_key`)."""
    return key == folder_key or key.startswith(f"{folder_key}/")


def folders_above(key: str) -> list[str]:
    """Return the keys of all folders that contain a place, innermost first."""
    found = []
    while "/" in key.rpartition("/")[0].rstrip("/"):
        key = key.rpartition("/")[0]
        found.append(key)
    return found


def _parts(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")
