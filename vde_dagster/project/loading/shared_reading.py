"""Reading of many files by several processes, for the first load of a large project.

Workers return only files without errors. This process reads the other files, in order, so that
errors, and files that wait for others, are the same as without workers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from vde_dagster.base.workers import Function, Workers
from vde_dagster.project.loading.cache import FileRecord
from vde_dagster.project.serialise import from_bytes

_LARGEST_PART, _SEED = 40, 1


class SharedFile(NamedTuple):
    """A file that a worker process has read, and the queries whose trees the worker keeps."""

    record: FileRecord
    queries: tuple[str, ...]


def read_in_processes(
    paths: Sequence[str],
    read: Callable[[str], FileRecord | None],
    workers: Workers,
    worker_function: Function,
    project: tuple[str, bool],
) -> dict[str, FileRecord]:
    """Read files in this process and in workers, and return the records of files without errors.

    Args:
        read: Reads a file in this process; returns None if it has an error or cannot be
            read yet.
        worker_function: Called in a worker with `project` and a list of paths; returns
            `SharedFile`s as bytes.
        project: The project's folder, and whether to use its cache.
    """
    found: dict[str, FileRecord] = {}
    # Folders often are layers of a project. Each process keeps the trees of the queries that it
    # reads, so each reads files of all layers: then none has to parse queries again to build them.
    left = deque(Random(_SEED).sample(paths, len(paths)))
    workers.start()
    while left or workers.busy:
        for number in workers.free:
            size = min(_LARGEST_PART, len(left) // (2 * workers.count + 2))
            part = [left.pop() for _ in range(size)]
            if part:
                workers.send(number, worker_function, (*project, part), part)
        if left:
            path = left.popleft()
            record = read(path)
            if record is not None:
                found[path] = record
        for number, sent, values in workers.receive(wait=not left):
            for path, data in zip(sent, values, strict=True):
                if data is not None:
                    file = from_bytes(SharedFile, data)
                    found[path] = file.record
                    workers.owners.update(dict.fromkeys(file.queries, number))
    return found
