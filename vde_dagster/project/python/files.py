"""Python files of a project: their local imports, and their execution from stored texts.

Project-local imports are resolved among the given texts, without `sys.modules`. Two versions of a
model can therefore run in one process, in any thread, and functions are sent to Spark's workers by
value.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
import linecache
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from vde_dagster.base.failures import describe_exception, find_project_line
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.files import decode_text
from vde_dagster.project.macros.registry import Collector, collecting
from vde_dagster.project.model import PythonSource
from vde_dagster.sql.scanner import SourceText, nesting_error


def parse_python(path: Path, text: str) -> ast.Module:
    """Parse a Python file, or raise a `ProjectError` for a syntax error."""
    try:
        return ast.parse(text, str(path))
    except (MemoryError, RecursionError):
        # Python's parser raises these for too deeply nested code.
        raise nesting_error(
            SourceText(path, text), "assign parts of the code to variables"
        ) from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ProjectError(
            f"syntax error: {getattr(error, 'msg', error)}",
            hint=f"look at: {(getattr(error, 'text', None) or '').strip()}" if line else None,
            location=SourceLocation(path, line, getattr(error, "offset", None)),
        ) from None


def with_local_imports(root: Path, path: str, text: str) -> dict[str, str]:
    """Return the texts of a file and the project files it imports, also in functions, by path."""
    files: dict[str, str] = {}
    waiting = [(path, text)]
    while waiting:
        current, content = waiting.pop()
        if current in files:
            continue
        files[current] = content
        for name in _imported_names(current, parse_python(Path(current), content)):
            new = (found for found in _files_of_import(root, name) if found not in files)
            waiting += [(one, decode_text(Path(one), (root / one).read_bytes())) for one in new]
    return dict(sorted(files.items()))


def run_file(root: Path, path: str, text: str) -> tuple[ModuleType, Collector, dict[str, str]]:
    """Run a Python file of the project.

    Returns:
        The module, the functions that it and its imports decorate, and the texts of the module and
        its imports by path.
    """
    files = with_local_imports(root, path, text)
    try:
        module, collector = LocalModules(files, root).run(path)
    except ProjectError:
        raise
    except (Exception, SystemExit) as error:
        raise ProjectError(
            f"the file cannot be imported: {describe_exception(error)}",
            hint=_import_hint(error),
            location=find_project_line(error, Path(path)),
        ) from error
    return module, collector, files


def _import_hint(error: BaseException) -> str:
    hint = getattr(error, "hint", None)
    if isinstance(hint, str):
        return hint
    if isinstance(error, ModuleNotFoundError):
        return f"install the package that has '{error.name}', or correct the import"
    return "correct the line"


def _imported_names(path: str, tree: ast.Module) -> Iterator[str]:
    package = path.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - (node.level - 1)] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            if module:
                yield module
            yield from (f"{module}.{a.name}" if module else a.name for a in node.names)


def _files_of_import(root: Path, name: str) -> Iterator[str]:
    parts = name.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return  # the project may be this package's checkout: never copy its decorators
    for count in range(1, len(parts) + 1):
        base = "/".join(parts[:count])
        # Not by pathlib, which raises for names longer than a file name may be.
        for path in (f"{base}/__init__.py", f"{base}.py"):
            if os.path.isfile(root / path):
                yield path


def module_file(name: str, files: Mapping[str, str]) -> str | None:
    """Return the path of a module's file: `a.b` -> `a/b.py`; None if the project has none."""
    base = name.replace(".", "/")
    for path in (f"{base}.py", f"{base}/__init__.py"):
        if path in files:
            return path
    return None


def _is_package(name: str, files: Mapping[str, str]) -> bool:
    """Return whether a dotted name is a folder of the project with Python files."""
    prefix = name.replace(".", "/") + "/"
    return any(path.startswith(prefix) for path in files)


class LocalModules:
    """Python modules that are created from texts instead of files.

    Args:
        files: Text by path relative to the project's root (forward slashes).
        root: The project's folder, for `__file__`; None without a working copy.
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
        """Run a file, and return its module and the functions that it and its imports decorate."""
        name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        with self._lock, collecting() as collector:
            return self._load(name), collector

    def _load(self, name: str) -> ModuleType:
        if name in self._modules:
            return self._modules[name]
        path = module_file(name, self._files)
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
            module_file(absolute, self._files) or _is_package(absolute, self._files)
        ):
            if level == 0 and name.partition(".")[0] == "sqlmesh":
                from vde_dagster.project.python.sqlmesh.modules import sqlmesh_module

                found = sqlmesh_module(name, fromlist or ())
                return found if fromlist else sqlmesh_module("sqlmesh", ())
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
                    module_file(child, self._files) or _is_package(child, self._files)
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


def run_source(python: PythonSource, root: Path | None = None) -> Callable[..., Any]:
    """Return the function of a Python model, from the texts stored with the model.

    Thread-safe.

    Args:
        root: The project's folder, for code that looks for files next to its `__file__`.

    Raises:
        ProjectError: The stored entry point does not exist.
        Exception: Any error of the module's execution.
    """
    path, name, number = python.place
    module, collector = LocalModules(python.files, root).run(path)
    if number:
        of_name = [one.function for one in collector.models if one.function.__name__ == name]
        function = of_name[number - 1] if number <= len(of_name) else None
    else:
        function = getattr(module, name, None)
    if not callable(function):
        raise ProjectError(f"{path} does not define the function '{name}'")
    result: Callable[..., Any] = function
    return result
