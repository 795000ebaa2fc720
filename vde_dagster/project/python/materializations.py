"""Files in `materializations/`: functions that write tables of kind CUSTOM."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vde_dagster.base.outside import read_outside
from vde_dagster.project.kinds.custom import FoundCode
from vde_dagster.project.python.files import execute


def read_materializations(
    root: Path, path: str, text: str, hash_of: Callable[[str], str]
) -> dict[str, FoundCode]:
    """Execute a file; return the functions that it decorates, by name in lower case.

    Args:
        root: The project's folder.
        path: The file, relative to the root.
        text: Its text.
        hash_of: Hashes a file by its path relative to the root.

    Raises:
        ProjectError: It cannot be executed; points at the line.
    """
    collector, files = execute(root, path, text)
    outside = tuple(sorted(read_outside(root, files, hash_of).hashes.items()))
    code = tuple(sorted(files.items()))
    own = path.removesuffix(".py").replace("/", ".")
    return {
        name: FoundCode(f"{path}:{function.__name__}", code, outside)
        for name, function in collector.materializations.items()
        # Others are imported from their files; a file may have set its own name to None.
        if (function.__module__ or f".{own}").endswith(f".{own}")
    }
