"""Time limits, and recording of the files and variables that project code reads while loading.

A file's cache record is valid only while the files and variables read by its macros are unchanged.
Inside `watching`, an audit hook records the files that code reads, the class of `os.environ` the
variables, and wrappers of `os.stat` and `os.access` the files that code looks for. The call's stack
frames show whether the reader is project code or an imported package.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
import threading
from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import wraps
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from vde_dagster.base.failures import PROJECT_CODE
from vde_dagster.project.model import LoadedFile

_IMPORTS = "<frozen importlib"
_UNREPEATABLE = frozenset(
    {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}
    | {"pty.spawn", "socket.connect", "sqlite3.connect", "subprocess.Popen", "urllib.Request"}
)
_WATCHED = _UNREPEATABLE | {"open", "os.listdir", "os.scandir"}


@dataclass(slots=True)
class Seen:
    """The files and environment variables that project code has read.

    Args:
        paths: Files and folders, absolute.
        variables: Environment variables; `*` for all of them.
        unrepeatable: Whether the code called other programs or servers.
    """

    paths: set[str] = field(default_factory=set)
    variables: set[str] = field(default_factory=set)
    unrepeatable: bool = False

    def add(self, other: Seen) -> None:
        self.paths |= other.paths
        self.variables |= other.variables
        self.unrepeatable |= other.unrepeatable

    def relative_paths(self, root: Path) -> set[str]:
        """Return the paths; paths below the root are relative to the root."""
        return {
            os.path.relpath(path, root) if path.startswith(f"{root}{os.sep}") else path
            for path in self.paths
        }


_current: ContextVar[Seen | None] = ContextVar("vde_seen", default=None)
_installing = threading.Lock()
_installed = False


@contextmanager
def watching(seen: Seen | None = None) -> Iterator[Seen]:
    """Record the files and variables that project code reads while the block runs."""
    _install_hooks()
    seen = Seen() if seen is None else seen
    token = _current.set(seen)
    try:
        yield seen
    finally:
        _current.reset(token)


def _install_hooks() -> None:
    global _installed
    with _installing:
        if not _installed:
            sys.addaudithook(_on_event)
            os.environ.__class__ = _Environment
            if os.supports_bytes_environ:
                os.environb.__class__ = _Environment
            _wrap_stat("stat")
            _wrap_stat("access")
            _installed = True


def _on_event(event: str, arguments: tuple[Any, ...]) -> None:
    if event not in _WATCHED:
        return
    seen = _current.get()
    if seen is None or not _is_project_code(sys._getframe(1)):
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


def _wrap_stat(name: str) -> None:
    # The interpreter has no audit event for these functions. `os.lstat` is left out, because
    # `Path.resolve` asks it for all folders above.
    asked = getattr(os, name)

    @wraps(asked)
    def wrapper(path: Any, *rest: Any, **options: Any) -> Any:
        seen = _current.get()
        named = seen is not None and isinstance(path, (str, bytes, os.PathLike))
        if seen is not None and named and _is_project_code(sys._getframe(1)):
            seen.paths.add(os.path.abspath(os.fsdecode(path)))
        return asked(path, *rest, **options)

    setattr(os, name, wrapper)
    accessor = getattr(pathlib, "_NormalAccessor", None)  # It keeps the functions in Python 3.10.
    if hasattr(accessor, name):
        setattr(accessor, name, staticmethod(wrapper))
    sets = (os.supports_fd, os.supports_dir_fd, os.supports_effective_ids)
    for able in (*sets, os.supports_follow_symlinks):
        if asked in able:
            able.add(wrapper)


def _only_writes(mode: Any, flags: Any) -> bool:
    if isinstance(mode, str):
        return not set(mode) & set("r+")
    return isinstance(flags, int) and flags & os.O_ACCMODE == os.O_WRONLY


def _is_project_code(frame: FrameType | None) -> bool:
    """Return whether a read comes from the project's code, not from importing a package."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PROJECT_CODE):
            return True
        if name.startswith(_IMPORTS):
            return False
        frame = frame.f_back
    return False


class _Environment(type(os.environ)):  # type: ignore[misc]
    """`os.environ` or `os.environb` that records reads by the project's code."""

    def __getitem__(self, key: Any) -> Any:
        _record_variable(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        _record_variable(key)
        return bool(super().__contains__(key))

    def __iter__(self) -> Iterator[Any]:
        _record_variable("*")
        return iter(super().__iter__())

    def __len__(self) -> int:
        _record_variable("*")
        return len(self._data)


def _record_variable(name: object) -> None:
    seen = _current.get()
    # Keys of `os.environb` are bytes, and `subprocess` also passes bytes to `os.environ`.
    if seen is None or not isinstance(name, str | bytes):
        return
    if _is_project_code(sys._getframe(1)):
        seen.variables.add(os.fsdecode(name))


def with_recorded_reads(file: LoadedFile, seen: Seen, root: Path) -> LoadedFile:
    """Return a loaded file with the recorded files and variables added to its inputs."""
    if not (file.uses or file.variables or seen.paths or seen.variables or seen.unrepeatable):
        return file
    uses = {*file.uses, *seen.relative_paths(root)} - {file.path.as_posix()}
    return replace(
        file,
        uses=tuple(sorted(uses)),
        variables=tuple(sorted({*file.variables, *seen.variables})),
        repeatable=file.repeatable and not seen.unrepeatable,
    )


class TooSlow(BaseException):  # So that `except Exception` in a project does not catch it.
    """Raised when a block exceeds its time limit."""

    @staticmethod
    def after(seconds: float) -> AbstractContextManager[None]:
        """Return a context manager that raises `TooSlow` in its block after some seconds.

        In the main thread, a system timer interrupts the block, even while it waits. In other
        threads, or if the timer is missing or in use, a second thread interrupts the block, but
        not while it waits.
        """
        if (
            threading.current_thread() is not threading.main_thread()
            or not hasattr(signal, "setitimer")
            or signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
        ):
            return _ThreadTimer(seconds)
        return _SignalTimer(seconds)


class _SignalTimer:
    """Raises `TooSlow` in the main thread when the block's time has passed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._before: Any = None
        self._start: tuple[FrameType, int] | None = None

    def __enter__(self) -> None:
        caller = sys._getframe(1)
        self._start = (caller, caller.f_lasti)
        self._before = signal.signal(signal.SIGALRM, self._interrupt)
        # Repeat every second: a bare `except:` in a loop may swallow earlier exceptions.
        signal.setitimer(signal.ITIMER_REAL, self._seconds, 1.0)

    def __exit__(self, *_error: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._before)
        self._start = None

    def _interrupt(self, _signal: int, frame: FrameType | None) -> None:
        # An exception in these methods, or at the `with` before its block, would leave the timer
        # running for whatever comes later.
        at_start = frame is not None and (frame, frame.f_lasti) == self._start
        if not at_start and not _is_on_stack(_SIGNAL_TIMER_CODE, frame):
            raise TooSlow


_SIGNAL_TIMER_CODE = {
    method.__code__
    for method in (_SignalTimer.__enter__, _SignalTimer.__exit__, _SignalTimer._interrupt)
}


def _is_on_stack(codes: Container[CodeType], frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code in codes:
            return True
        frame = frame.f_back
    return False


class _ThreadTimer:
    """Interrupts the current thread with `TooSlow` when a time limit has passed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._ended = threading.Event()
        self._raised = False

    def __enter__(self) -> None:
        watcher = threading.Thread(target=self._watch, name="vde-time-limit", daemon=True)
        try:
            watcher.start()  # It may be interrupted, too, by a limit around this one.
        except BaseException:
            self._ended.set()
            raise

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        if self._raised:
            # A pending exception is raised by the next jump. Clearing it with the same function
            # leaves CPython 3.11 searching for it forever.
            with suppress(TooSlow):
                for _ in range(100):
                    continue

    def _watch(self) -> None:
        left = self._seconds
        # The exception is raised at the limit, then every second until the block ends.
        while not self._ended.wait(left):
            left = 1.0 if self._raise() else 0.001

    def _raise(self) -> bool:
        if _is_on_stack(_OF_WATCHED, sys._current_frames().get(self._thread)):
            return False
        import ctypes  # Only a file that exceeds its time needs it.

        self._raised = True
        raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc
        raise_in(ctypes.c_ulong(self._thread), ctypes.py_object(TooSlow))
        return True


_OF_WATCHED = {method.__code__ for method in (_ThreadTimer.__enter__, _ThreadTimer.__exit__)}
