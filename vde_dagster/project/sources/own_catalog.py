"""Which catalog a SQLMesh project means by its own, told from its models' names."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vde_dagster.base.names import split_identifier

_SQL = re.compile(r"\bMODEL\s*\((?:[^;]*?[\s,(])?name\s+([^\s,)]+)", re.IGNORECASE)
_PYTHON = re.compile(r"@model\(\s*(?:name\s*=\s*)?[\"']([^\"']+)[\"']")


def own_catalog(
    paths: Iterable[str],
    text: Callable[[str], str],
    hash_of: Callable[[str], str],
    known: Mapping[str, list[Any]],
) -> tuple[str | None, dict[str, list[Any]]]:
    """Return the one catalog that models' names have, or None where they have none or several.

    Args:
        paths: The files of models.
        text: Reads a file.
        hash_of: Hashes a file.
        known: What an earlier call found: `[hash, catalogs]` by path.

    Returns:
        The catalog in lower case, and what was found.
    """
    found: dict[str, list[Any]] = {}
    for path in paths:
        content = hash_of(path)
        before = known.get(path, [None])
        found[path] = before if before[0] == content else [content, _catalogs(path, text(path))]
    named = {catalog for _, catalogs in found.values() for catalog in catalogs}
    return (named.pop() if len(named) == 1 else None), found


def _catalogs(path: str, text: str) -> list[str]:
    pattern = _PYTHON if path.endswith(".py") else _SQL
    names = (split_identifier(name.replace("'", '"')) for name in pattern.findall(text))
    return sorted({n[0].lower() for n in names if len(n) == 3 and re.fullmatch(r"[\w-]+", n[0])})
