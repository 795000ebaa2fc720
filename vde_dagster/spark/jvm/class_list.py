"""Archives of the classes that a JVM has loaded, made by another process.

A JVM without an archive lists all loaded classes, at no measurable cost. When a command ends, or an
engine is warm and idle, a process with the lowest priority makes the archive from that list:
`python -m vde_dagster.spark.jvm.class_list`, with the request as JSON on standard input.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vde_dagster.spark.jvm import class_data
from vde_dagster.spark.jvm.known_start import StartCommand, cache_folder

_AGENTS = ("-javaagent", "-agentlib", "-agentpath")
"""Options with which HotSpot makes no archive."""
_OF_WRITES = b"org/apache/iceberg/spark/source/SparkWrite"
"""A class that a JVM loads when it fills a table."""
_LISTS = ".classes"
_LIST_SECONDS = 86_400.0
"""Age in seconds from which a list counts as left behind by a killed process."""
_FREE_BYTES = 1 << 30
"""Free space of the file system below which no archive is made."""
_DUMP_SECONDS = 1800.0
_LOWEST_PRIORITY = 19
_REFUSALS = range(128)
"""Exit codes of a Java that cannot make an archive; others mean that it was killed."""


@dataclass(frozen=True, slots=True)
class ClassList:
    """A file with the names of the classes that a JVM has loaded."""

    known: StartCommand
    path: Path

    @classmethod
    def begin(cls, known: StartCommand) -> ClassList | None:
        """Create the list of a new JVM, or return None if its classes will not be archived."""
        archive = class_data.archive_path(known)
        if (
            archive.exists()
            or failure_path(archive).exists()
            or class_data.chooses_archive(known)
            or any(option.startswith(_AGENTS) for option in known.options)
        ):
            return None
        with suppress(OSError):  # The folder is read-only.
            handle, name = tempfile.mkstemp(suffix=_LISTS, dir=archive.parent)
            os.close(handle)
            return cls(known, Path(name))
        return None

    @property
    def options(self) -> tuple[str, ...]:
        return (f"-XX:DumpLoadedClassList={self.path}",)

    def archive_in_background(self) -> None:
        """Start a process that makes a class archive from this list, and then deletes the list.

        A JVM that has filled no table has too few classes, so its list is only removed.
        """
        try:
            if _OF_WRITES not in self.path.read_bytes():
                self.remove()
                return
            process = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=self.path.parent,
                start_new_session=True,  # Ctrl-C and the end of the terminal do not reach it.
            )
        except OSError:
            self.remove()
            return
        assert process.stdin is not None
        with suppress(BrokenPipeError), process.stdin:
            process.stdin.write(json.dumps({**asdict(self), "path": str(self.path)}).encode())
        process.returncode = 0  # Python would warn about a process that still runs.

    def remove(self) -> None:
        with suppress(OSError):
            self.path.unlink()


def make_archive(known: StartCommand, classes: Path) -> bool:
    """Make a command's class archive from a list of classes, and return whether it was made.

    Nothing is done if another process is making the archive. If Java fails, later commands with the
    same jars and options do not try again.
    """
    import fcntl

    archive = class_data.archive_path(known)
    with archive.with_suffix(".lock").open("wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        if archive.exists() or shutil.disk_usage(archive.parent).free < _FREE_BYTES:
            return False
        part = archive.with_suffix(".part")
        try:
            code = _dump(known, classes, part)
            if code != 0 or not part.exists():
                if code in _REFUSALS:
                    failure_path(archive).touch()
                return False
            os.replace(part, archive)
        finally:
            part.unlink(missing_ok=True)
    class_data.remove_old_archives(archive.parent)
    return True


def _dump(known: StartCommand, classes: Path, part: Path) -> int:
    """Let a JVM write an archive to the path `part`, and return the JVM's exit code."""
    heap = [option for option in known.options if option.startswith("-Xm")]
    done = subprocess.run(
        [
            known.java,
            *(option for option in known.options if option not in heap),
            *(heap if class_data.has_large_heap(known) else ("-Xmx1g",)),
            *("-Xshare:dump", f"-XX:SharedClassListFile={classes}"),
            *(f"-XX:SharedArchiveFile={part}", "-Xlog:disable"),
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=part.parent,
        env={**os.environ, "CLASSPATH": os.pathsep.join(known.class_path)},
        timeout=_DUMP_SECONDS,
        check=False,
    )
    return done.returncode


def failure_path(archive: Path) -> Path:
    """Return the path of a file that records that a class archive could not be made."""
    return archive.with_suffix(".failed")


def _remove_old_lists(folder: Path) -> None:
    for file in folder.glob(f"*{_LISTS}"):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _LIST_SECONDS:
                file.unlink()


def main() -> None:
    os.nice(_LOWEST_PRIORITY)
    request: dict[str, Any] = json.load(sys.stdin)
    known = StartCommand.from_json(request["known"])
    path = Path(request["path"])
    try:
        with tempfile.TemporaryDirectory() as folder:
            classes = Path(folder) / path.name
            # The JVM may still be writing the last line.
            lines = path.read_bytes()
            classes.write_bytes(lines[: lines.rfind(b"\n") + 1])
            make_archive(known, classes)
    finally:
        path.unlink(missing_ok=True)
        _remove_old_lists(cache_folder())


if __name__ == "__main__":
    main()
