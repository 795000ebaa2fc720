"""Deleting what is only remembered to be faster."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path


def clean_caches(root: Path) -> dict[str, int]:
    """Delete a project's `.vde/cache`; the next command reads everything anew.

    State, warehouse and reports of failures are no caches, and stay.

    Args:
        root: The project's folder.

    Returns:
        Bytes by deleted file, relative to the root.
    """
    folder = root / ".vde" / "cache"
    deleted: dict[str, int] = {}
    for path in sorted(folder.rglob("*")):
        # Another process may be replacing it.
        with suppress(FileNotFoundError):
            if path.is_file():
                deleted[path.relative_to(root).as_posix()] = path.stat().st_size
    shutil.rmtree(folder, ignore_errors=True)
    return deleted
