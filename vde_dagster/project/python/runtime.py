"""Executing a project's Python files from their texts, in modules of their own.

Project-local imports are resolved among the given texts and never touch `sys.modules`, so two
versions of a model can run side by side in one process, in any thread, and functions travel to
Spark's workers by value.
"""

from __future__ import annotations

import builtins
import hashlib
import linecache
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from vde_dagster.errors import ProjectError
from vde_dagster.project.macros.registry import Collector, collecting
from vde_dagster.project.model import PythonSource

_SHOWN = re.compile(r"<vde_project_[0-9a-f]+/([^>]+)>")


def project_file(shown: str) -> str | None:
    """Return the project's file that a frame's file name stands for, if it is one of ours.

    >>> project_file("<vde_project_c0ffee/models/sales.py>")
    'models/sales.py'
    """
    match = _SHOWN.fullmatch(shown)
    return match[1] if match else None


def module_path(name: str, files: Mapping[str, str]) -> str | None:
    """Return the path of the project-local module of that dotted name, if there is one."""
    base = name.replace(".", "/")
    for path in (f"{base}.py", f"{base}/__init__.py"):
        if path in files:
            return path
    return None


def is_package(name: str, files: Mapping[str, str]) -> bool:
    """Say whether the dotted name is a folder of the project that holds Python files."""
    prefix = name.replace(".", "/") + "/"
    return any(path.startswith(prefix) for path in files)


class LocalModules:
    """Modules made from texts; each is executed once.

    Args:
        files: Text by path relative to the project's root (forward slashes).
        root: The project's folder, so that `__file__` tells where the files lie; None where there
            is no working copy.
    """

    def __init__(self, files: Mapping[str, str], root: Path | None = None) -> None:
        self._files = dict(files)
        self._root = root
        hashed = hashlib.blake2b(digest_size=6)
        for path, text in sorted(self._files.items()):
            hashed.update(f"{path}\0{text}\0".encode())
        self._prefix = f"vde_project_{hashed.hexdigest()}"
        self._modules: dict[str, ModuleType] = {}
        self._lock = threading.RLock()
        self._builtins = {**vars(builtins), "__import__": self._import}

    def run(self, path: str) -> tuple[ModuleType, Collector]:
        """Execute a file; return its module and what its decorators noted.

        Raises:
            Exception: Whatever the file raises.
        """
        with self._lock, collecting() as collector:
            return self._load(_dotted(path)), collector

    def _load(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        path = module_path(name, self._files)
        module = ModuleType(f"{self._prefix}.{name}")
        vars(module)["__builtins__"] = self._builtins
        if path is None or path.endswith("/__init__.py"):
            module.__path__ = []
            module.__package__ = module.__name__
        else:
            module.__package__ = module.__name__.rpartition(".")[0]
        self._modules[name] = module
        if path is None:
            return module
        text = self._files[path]
        shown = f"<{self._prefix}/{path}>"
        module.__file__ = shown if self._root is None else str(self._root.absolute() / path)
        linecache.cache[shown] = (len(text), None, text.splitlines(True), shown)
        try:
            exec(compile(text, shown, "exec", dont_inherit=True), vars(module))
        except BaseException:
            del self._modules[name]
            raise
        return module

    def _import(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> Any:
        absolute = self._absolute(name, globals, level)
        if absolute is None or not (
            module_path(absolute, self._files) or is_package(absolute, self._files)
        ):
            if level == 0 and name.partition(".")[0] == "sqlmesh":
                from vde_dagster.project.sqlmesh_compat.modules import sqlmesh_module

                found = sqlmesh_module(name, fromlist or ())
                return found if fromlist else sqlmesh_module("sqlmesh")
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        with self._lock:
            parts = absolute.split(".")
            for count in range(1, len(parts) + 1):
                module = self._load(".".join(parts[:count]))
                if count > 1:
                    setattr(self._modules[".".join(parts[: count - 1])], parts[count - 1], module)
            if not fromlist:
                return self._modules[parts[0]]
            for item in fromlist:
                child = f"{absolute}.{item}"
                if not hasattr(module, item) and (
                    module_path(child, self._files) or is_package(child, self._files)
                ):
                    setattr(module, item, self._load(child))
            return module

    def _absolute(self, name: str, globals: Mapping[str, Any] | None, level: int) -> str | None:
        if level == 0:
            return name
        package = str((globals or {}).get("__package__") or "")
        if not package.startswith(self._prefix):
            return None
        parts = package.split(".")[1:]
        kept = parts[: len(parts) - (level - 1)]
        return ".".join([*kept, *([name] if name else [])])


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def run_source(python: PythonSource, root: Path | None = None) -> Callable[..., Any]:
    """Build a Python model's function from its stored texts, without a working copy.

    Safe for threads: every call makes modules of its own.

    Args:
        python: The texts.
        root: The project's folder, for code that looks for files beside its own `__file__`.

    Raises:
        ProjectError: The stored entry point is not there.
        Exception: Whatever the module raises while it is executed.
    """
    path, name, number = python.place
    module, collector = LocalModules(python.files, root).run(path)
    if number:
        of_name = [one.function for one in collector.models if one.function.__name__ == name]
        function = of_name[number - 1] if number <= len(of_name) else None
    else:
        function = getattr(module, name, None)
    if not callable(function):
        raise ProjectError(f"there is no function '{name}' in {path}")
    result: Callable[..., Any] = function
    return result
