"""Worker processes that do part of this process's work on other cores.

Each worker is a new interpreter with this process's import path; requests and results pass through
its standard streams. So a process with threads, such as Dagster's code server, can start workers,
and no worker runs the main program again. If a worker fails, the caller does the worker's part.
"""

from __future__ import annotations

import logging
import marshal
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, TypeVar

if TYPE_CHECKING:
    from subprocess import Popen

_LOG = logging.getLogger(__name__)
_MOST = 7
"""Maximum number of workers; more would wait for this process."""
_PIPE_BYTES = 1 << 20
"""The largest pipe that Linux allows without privileges."""
_IDLE_SECONDS, _SECONDS_TO_END = 30.0, 5.0
_CPU_LIMIT = "/sys/fs/cgroup/cpu.max"
_MEMORY_LIMITS = (
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory/memory.limit_in_bytes",  # The first version of control groups.
)

T = TypeVar("T")
Function = Callable[[Any], "list[bytes | None]"]
"""Module-level function that maps plain values to one result per item; None for a failed item."""


class Results(NamedTuple):
    """A worker's results for one request, or all None if the worker failed."""

    worker: int
    items: Sequence[Any]
    values: Sequence[bytes | None]


class Workers:
    """A pool of processes that run functions on other cores.

    A worker ends when the `with` block ends, after 30 idle seconds, or when this process ends.

    Args:
        count: Number of processes, including this one; 0 for one per usable core.
    """

    def __init__(self, count: int = 1) -> None:
        self.count = min((count or usable_cores()) - 1, _MOST)
        self.owners: dict[str, int] = {}
        """Number of the worker that has parsed a query and keeps its tree, by the query's text."""
        self._workers: list[_Worker] = []
        self._results: SimpleQueue[Results] = SimpleQueue()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def start(self) -> None:
        """Start the processes that were not started yet."""
        try:
            while len(self._workers) < self.count:
                self._workers.append(_Worker(len(self._workers), self._results))
        except OSError as error:
            _LOG.debug("no further worker process could be started: %s", error)
            self.count = len(self._workers)

    @property
    def free(self) -> list[int]:
        """Indexes of the workers that can get another request."""
        return [one.number for one in self._workers if one.alive and one.requests < 2]

    @property
    def busy(self) -> bool:
        """Whether a worker has not returned all results yet."""
        return any(one.requests for one in self._workers)

    def send(self, worker: int, function: Function, argument: Any, items: Sequence[Any]) -> None:
        """Call a function in a worker; `items` only identify the call in its `Results`."""
        self._workers[worker].send(
            f"{function.__module__}:{function.__qualname__}", argument, items
        )

    def receive(self, *, wait: bool) -> list[Results]:
        """Return the results that have arrived; with `wait`, wait for at least one."""
        found = [self._finish_request(self._results.get())] if wait and self.busy else []
        while True:
            try:
                found.append(self._finish_request(self._results.get_nowait()))
            except Empty:
                return found

    def _finish_request(self, results: Results) -> Results:
        self._workers[results.worker].requests -= 1
        return results

    def close(self) -> None:
        for one in self._workers:
            one.close()
        self._workers.clear()
        self.owners.clear()
        self._results = SimpleQueue()


def usable_cores() -> int:
    """Return the number of cores that this process may use, at least 1."""
    cores = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    try:
        with open(_CPU_LIMIT, encoding="ascii") as file:
            quota, period = file.read().split()
        cores = min(cores, int(quota) // int(period))
    except (OSError, ValueError):
        return max(cores, 1)  # No container, or one without a limit.
    return max(cores, 1)


def usable_memory() -> int:
    """Return the memory in bytes that this machine or container may use, or 0 if unknown."""
    names = ("SC_PAGE_SIZE", "SC_PHYS_PAGES")
    sizes = [os.sysconf(name) for name in names if name in getattr(os, "sysconf_names", ())]
    memory = sizes[0] * sizes[1] if len(sizes) == 2 else 0
    for path in _MEMORY_LIMITS:
        with suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            memory = min(memory, int(file.read()))  # Without a limit the file says "max".
    return memory


class _Worker:
    def __init__(self, number: int, results: SimpleQueue[Results]) -> None:
        import subprocess  # Most commands start no workers.

        start = f"from {__name__} import run_worker; run_worker({sys.getrecursionlimit()})"
        code = f"import sys; sys.path[:] = {sys.path!r}; {start}"
        self.number = number
        self.requests = 0
        self.alive = True
        self._results = results
        self._sent: list[Sequence[Any]] = []
        self._lock = threading.Lock()
        self._requests: SimpleQueue[bytes | None] = SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=_PIPE_BYTES,
        )
        _enlarge_pipes(self._process)
        name = f"vde-worker-{number}"
        self._reader = threading.Thread(target=self._read, name=name, daemon=True)
        self._reader.start()
        # A full pipe would let this process wait until the worker has done its earlier part.
        threading.Thread(target=self._write, name=f"{name}-requests", daemon=True).start()

    def send(self, function: str, argument: Any, items: Sequence[Any]) -> None:
        self.requests += 1
        with self._lock:
            alive = self.alive
            if alive:
                self._sent.append(items)
        if not alive:
            self._results.put(_failed_results(self.number, items))
            return
        self._requests.put(marshal.dumps((function, argument)))

    def _write(self) -> None:
        assert self._process.stdin is not None
        # If the process has ended, the thread that reads its results returns the items.
        with suppress(OSError), self._process.stdin as stdin:
            while (request := self._requests.get()) is not None:
                stdin.write(request)
                stdin.flush()

    def _read(self) -> None:
        assert self._process.stdout is not None
        try:
            while True:
                values = marshal.load(self._process.stdout)
                with self._lock:
                    items = self._sent.pop(0)
                self._results.put(Results(self.number, items, values))
        except (EOFError, OSError, TypeError, ValueError):
            with self._lock:
                self.alive = False
                left, self._sent = self._sent, []
            for items in left:
                self._results.put(_failed_results(self.number, items))
            self._process.wait()

    def close(self) -> None:
        with suppress(Empty):
            while True:
                self._requests.get_nowait()
        self._requests.put(None)
        self._reader.join(_SECONDS_TO_END)
        if self.alive:
            self._process.kill()
        self._process.wait()


def _enlarge_pipes(process: Popen[bytes]) -> None:
    """Let the pipes of a process hold a whole request or result, where the system can.

    Each read and write of a part of it waits for the interpreter's lock, which a busy thread
    releases after milliseconds.
    """
    with suppress(ImportError, AttributeError, OSError):  # Not on Linux, or beyond its limit.
        import fcntl

        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)


def _failed_results(worker: int, items: Sequence[Any]) -> Results:
    return Results(worker, items, [None] * len(items))


# -- in the worker -----------------------------------------------------------------------------


class _WarningCounter(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += 1


_WARNING_COUNTER = _WarningCounter()


def call_quietly(function: Callable[[T], bytes | None], item: T) -> bytes | None:
    """Return a function's result for an item, or None if it raises an error or logs a warning."""
    before = _WARNING_COUNTER.count
    try:
        result = function(item)
    except Exception:
        # The caller then calls the function again in its own process, so that errors and warnings
        # appear as usual.
        return None
    return result if _WARNING_COUNTER.count == before else None


def run_worker(recursion_limit: int) -> None:
    """Handle the requests on a worker's standard input; end with it, or after 30 idle seconds."""
    import signal
    import warnings

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # The caller ends its workers.
    sys.setrecursionlimit(recursion_limit)
    logging.getLogger().addHandler(_WARNING_COUNTER)
    warnings.simplefilter("ignore")  # The caller's own part of the work raises the same.
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # The project's code may print.
    watch = _IdleWatch()
    threading.Thread(target=watch.run, daemon=True).start()
    try:
        _handle_requests(requests, answers, watch)
    finally:
        os._exit(0)  # Without the time to release all objects.


def _handle_requests(requests: BinaryIO, answers: BinaryIO, watch: _IdleWatch) -> None:
    while True:
        watch.since = time.monotonic()
        name, argument = marshal.load(requests)
        watch.since = None
        module, _, function = name.partition(":")
        values = getattr(import_module(module), function)(argument)
        marshal.dump(values, answers)
        answers.flush()


class _IdleWatch:
    since: float | None = None

    def run(self) -> None:
        while True:
            time.sleep(_IDLE_SECONDS / 10)
            since = self.since
            if since is not None and time.monotonic() - since > _IDLE_SECONDS:
                os._exit(0)
