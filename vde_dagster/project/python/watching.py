"""Recording of the files and variables that project code reads while loading; and time limits.

A file's cache record is valid only while the files and variables read by its macros are unchanged.
An audit hook of the interpreter and the class of `os.environ` record reads inside `watching`. Reads
by imported packages are distinguished from the project's reads by the stack frames of the call.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FrameType
from typing import Any

from vde_dagster.base.failures import PROJECT_CODE
from vde_dagster.project.model import LoadedFile

_IMPORTS = "<frozen importlib"
_UNREPEATABLE = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
    | {"pty.spawn", "socket.connect", "sqlite3.connect", "subprocess.Popen", "urllib.Request"}
)
_FOLDERS = frozenset({"os.listdir", "os.scandir"})


@dataclass(slots=True)
class Seen:
    """Files and environment variables that were read.

    Args:
        paths: Files and folders, absolute.
        variables: Environment variables; `*` for all of them.
        unrepeatable: Whether other programs or servers were called, whose results may change.
    """

    paths: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    unrepeatable: bool = False

    def add(self, other: Seen) -> None:
        self.paths |= other.paths
        self.variables |= other.variables
        self.unrepeatable |= other.unrepeatable

    def relative_paths(self, root: Path) -> set[str]:
        """Return the paths; paths below a folder are relative to it."""
        return {
            os.path.relpath(path, root) if path.startswith(f"{root}{os.sep}") else path
            for path in self.paths
        }


_current: ContextVar[Seen | None] = ContextVar("vde_seen", default=None)
_installed = False


@contextmanager
def watching(seen: Seen | None = None) -> Iterator[Seen]:
    """Record the project code's reads in this thread while the block runs."""
    _install()
    seen = Seen() if seen is None else seen
    token = _current.set(seen)
    try:
        yield seen
    finally:
        _current.reset(token)


def _install() -> None:
    global _installed
    if not _installed:
        _installed = True
        sys.addaudithook(_on_event)
        os.environ.__class__ = _Environment
        if os.supports_bytes_environ:
            os.environb.__class__ = _Environment


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event != "open" and event not in _FOLDERS and event not in _UNREPEATABLE:
        return
    seen = _current.get()
    if seen is None or not _is_project_s(sys._getframe(1)):
        return
    if event in _UNREPEATABLE:
        seen.unrepeatable = True
        return
    path = "." if arguments[0] is None else arguments[0]
    if not isinstance(path, (str, bytes, os.PathLike)):
        return  # a file descriptor
    if event == "open" and _only_writes(*arguments[1:3]):
        return
    seen.paths.add(os.path.abspath(os.fsdecode(path)))


def _only_writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return not set(mode) & set("r+")
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _is_project_s(frame: FrameType | None) -> bool:
    """Check whether project code, rather than the import of a package, caused an event."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PROJECT_CODE):
            return True
        if name.startswith(_IMPORTS):
            return False
        frame = frame.f_back
    return False


class _Environment(type(os.environ)):  # type: ignore[misc]
    """`os.environ` or `os.environb` that records reads by the project's code.

    Keys of `os.environb` are bytes, and `subprocess` also passes bytes to `os.environ`.
    """

    def __getitem__(self, key: Any) -> Any:
        _note_variable(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        _note_variable(key)
        return bool(super().__contains__(key))

    def __iter__(self) -> Iterator[Any]:
        _note_variable("*")
        return iter(super().__iter__())

    def __len__(self) -> int:
        _note_variable("*")
        return len(self._data)


def _note_variable(name: object) -> None:
    seen = _current.get()
    if seen is None or not isinstance(name, str | bytes):
        return
    if _is_project_s(sys._getframe(1)):
        seen.variables.add(os.fsdecode(name))


def with_recorded_reads(file: LoadedFile, seen: Seen, root: Path) -> LoadedFile:
    """Add the files and variables that the project's code read to a loaded file."""
    uses = {*file.uses, *seen.relative_paths(root)} - {file.path.as_posix()}
    return replace(
        file,
        uses=tuple(sorted(uses)),
        variables=tuple(sorted({*file.variables, *seen.variables})),
        repeatable=file.repeatable and not seen.unrepeatable,
    )


class TooSlow(BaseException):
    """The time limit was exceeded; `except Exception` in the running code does not catch this."""

    @staticmethod
    @contextmanager
    def after(seconds: float) -> Iterator[None]:
        """Interrupt the block after some seconds of wall-clock time.

        In the main thread a system timer interrupts, even during waits, unless other code uses that
        timer. In other threads a watching thread raises the exception, which interrupts Python
        code but not waits.

        Raises:
            TooSlow: The block took longer.
        """
        if (
            threading.current_thread() is not threading.main_thread()
            or not hasattr(signal, "setitimer")
            or signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
        ):
            with _watched_thread(seconds):
                yield
            return

        def interrupt(_signal: int, _frame: FrameType | None) -> None:
            raise TooSlow

        before = signal.signal(signal.SIGALRM, interrupt)
        # Repeat every second: a bare `except:` in a loop may swallow earlier exceptions.
        signal.setitimer(signal.ITIMER_REAL, seconds, 1.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)


@contextmanager
def _watched_thread(seconds: float) -> Iterator[None]:
    """Raise `TooSlow` in this thread after some seconds, and again every second."""
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
    thread = ctypes.c_ulong(threading.get_ident())
    ended, raised, lock = threading.Event(), threading.Event(), threading.Lock()

    def watch() -> None:
        left = seconds
        while not ended.wait(left):
            with lock:  # Raise nothing after the block has ended.
                if not ended.is_set():
                    raised.set()
                    raise_in(thread, ctypes.py_object(TooSlow))
            left = 1.0

    watcher = threading.Thread(target=watch, name="vde-time-limit", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        with suppress(TooSlow):
            with lock:
                ended.set()
            if raised.is_set():
                # A pending exception is raised by the next jump. Clearing it with the same
                # function leaves CPython 3.11 searching for it forever.
                for _ in range(100):
                    continue
