"""Class data: an archive of Spark's classes, which halves the start time of a JVM.

HotSpot maps such a file instead of reading, verifying and laying out some 20,000 classes of 300
jars: https://docs.oracle.com/en/java/javase/17/vm/class-data-sharing.html. HotSpot ignores
an archive for other jars.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from vde_dagster.base.hashing import digest
from vde_dagster.spark.jvm.known_start import StartCommand, cache_folder

_ARCHIVES_TO_KEEP = 3
"""Number of archives to keep; older archives are removed. An archive has some 200 MB."""
_SHARING = (
    *("-Xshare", "-XX:SharedArchiveFile", "-XX:ArchiveClassesAtExit", "-XX:SharedClassListFile"),
    *("-XX:DumpLoadedClassList", "-XX:+AutoCreateSharedArchive", "-XX:AOT"),
)
"""JVM options by which a user chooses an archive."""
_LARGE_HEAP = 32 << 30
"""Heap size from which HotSpot uses 64-bit references, and needs another archive (bytes)."""
_UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def archive_path(known: StartCommand) -> Path:
    """Return the path of a command's class archive, named by a hash of the jars and options."""
    jars = (os.stat(jar) for jar in (os.path.realpath(known.java), *known.class_path))
    name = digest(
        *(option for option in known.options if not option.startswith("-Xm")),
        *(("large heap",) if has_large_heap(known) else ()),
        *known.class_path,
        *(f"{jar.st_size} {jar.st_mtime_ns}" for jar in jars),
    )
    return cache_folder() / f"{name}.jsa"


def archive_options(known: StartCommand) -> tuple[str, ...]:
    """Return JVM options for an existing class archive, unless the user's options choose one."""
    if chooses_archive(known):
        return ()
    archive = archive_path(known)
    return (f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off") if archive.exists() else ()


def chooses_archive(known: StartCommand) -> bool:
    """Return whether a command's options choose or disable a class archive."""
    return any(option.startswith(_SHARING) for option in known.options)


def has_large_heap(known: StartCommand) -> bool:
    """Return whether a command's heap is too large for 32-bit references."""
    found = [re.fullmatch(r"-xmx(\d+)([kmgt]?)", option.lower()) for option in known.options]
    sizes = [int(size[1]) << _UNITS[size[2]] for size in found if size]
    return bool(sizes) and sizes[-1] >= _LARGE_HEAP


def remove_old_archives(folder: Path) -> None:
    """Remove a folder's class archives except for the newest `_ARCHIVES_TO_KEEP`."""
    archives = sorted(folder.glob("*.jsa"), key=lambda file: file.stat().st_mtime)
    for old in archives[:-_ARCHIVES_TO_KEEP]:
        with suppress(OSError):
            old.unlink()
