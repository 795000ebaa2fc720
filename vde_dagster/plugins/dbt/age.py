"""Files that changed after dbt wrote a manifest in a process that vde did not start.

A manifest has checksums of SQL files and the texts of macros. It has no checksums of properties
files, so these are hashed when the manifest is first read. Seeds are not compared: models read
seed files directly.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vde_dagster.api.sources import Folder
from vde_dagster.plugins.dbt.compiling import MACROS

if TYPE_CHECKING:
    from vde_dagster.plugins.dbt.manifest import Manifest

_BLOCK = re.compile(r"\{%-?\s*(?:macro|test|materialization|data_test)\s")


def record_files(manifest: Manifest, folder: Folder, inside: str) -> dict[str, Any]:
    """Return the checksums and hashes of a manifest's files as plain JSON, for `changed_files`."""
    own = manifest.metadata.project_name or ""
    nodes = [n for n in manifest.nodes.values() if n.package_name == own]
    checksums = {
        f"{inside}{node.original_file_path}": node.checksum.checksum
        for node in nodes
        if node.checksum.name == "sha256" and node.original_file_path.endswith((".sql", ".py"))
    }
    macros: dict[str, list[str]] = {}
    for macro in manifest.macros.values():
        if macro.package_name == own and not macro.original_file_path.startswith(MACROS):
            macros.setdefault(f"{inside}{macro.original_file_path}", []).append(macro.macro_sql)
    described = {f"{own}://{node.original_file_path}" for node in manifest.sources.values()}
    described |= {node.patch_path for node in nodes if node.patch_path}
    mine = (one.partition("://")[2] for one in described if one.startswith(f"{own}://"))
    properties = sorted(f"{inside}{path}" for path in {"dbt_project.yml", *mine})
    known = [node.original_file_path for node in nodes]
    known += [one.original_file_path for all_ in (manifest.disabled or {}).values() for one in all_]
    places = {
        n.original_file_path.split("/")[0]
        for n in nodes
        if n.resource_type in ("model", "seed", "snapshot") and "/" in n.original_file_path
    }
    return {
        "checksums": checksums,
        "hashes": {},
        "as_seen": {
            **{path: folder.hasher.hash(path) for path in properties},
            **{path: _macro_hash(folder, path, texts) for path, texts in macros.items()},
        },
        "known": sorted({*(f"{inside}{path}" for path in known), *macros}),
        "places": sorted(f"{inside}{place}" for place in places),
    }


def _macro_hash(folder: Folder, path: str, texts: list[str]) -> str:
    """Return a file's hash, or the text `other` if the file has other macros than the manifest."""
    text = _text(folder, path)
    same = len(_BLOCK.findall(text)) == len(texts) and all(one in text for one in texts)
    return folder.hasher.hash(path) if same else "other"


def _text(folder: Folder, path: str) -> str:
    try:
        return (folder.root / path).read_bytes().decode()  # dbt leaves the ends of lines alone.
    except (OSError, UnicodeDecodeError):
        return ""


def watched_files(memory: dict[str, Any]) -> list[str]:
    """Return the files and folders that `changed_files` compares, relative to the root."""
    return [*memory.get("checksums", ()), *memory.get("as_seen", ()), *memory.get("places", ())]


def changed_files(memory: dict[str, Any], folder: Folder) -> Iterator[str]:
    """Yield files that were added, changed or removed since dbt wrote the manifest.

    Args:
        memory: Result of `record_files`; this function adds hashes to it.
    """
    hashes: dict[str, bool] = {}
    for path, checksum in memory["checksums"].items():
        now = f"{folder.hasher.hash(path)}{checksum}"
        known = memory["hashes"].get(now)
        if known is None:
            text = _text(folder, path).strip()
            known = hashlib.sha256(text.encode()).hexdigest() == checksum
        hashes[now] = known
        if not hashes[now]:
            yield path
    memory["hashes"] = hashes
    yield from (
        path for path, seen in memory["as_seen"].items() if folder.hasher.hash(path) != seen
    )
    known_files = set(memory["known"])
    for place in memory["places"]:
        for inside, _, names in sorted(os.walk(folder.root / place)):
            found = Path(inside).relative_to(folder.root).as_posix()
            new = (f"{found}/{name}" for name in sorted(names))
            yield from (
                one
                for one in new
                if one.endswith((".sql", ".py", ".csv")) and one not in known_files
            )
