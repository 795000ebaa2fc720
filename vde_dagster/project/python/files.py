"""A project's Python files: which ones belong together, and executing them with good errors."""

from __future__ import annotations

import ast
import os
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

from vde_dagster.base.said import said
from vde_dagster.errors import ProjectError, SourceLocation
from vde_dagster.project.macros.registry import Collector
from vde_dagster.project.python.runtime import LocalModules
from vde_dagster.project.reading.text_files import decoded
from vde_dagster.sql.nesting import nested_too_deeply
from vde_dagster.sql.scanner import SourceText


def parse_python(path: Path, text: str) -> ast.Module:
    """Parse a file.

    Raises:
        ProjectError: It is not valid Python.
    """
    try:
        return ast.parse(text, str(path))
    except (MemoryError, RecursionError):
        # What Python's own parser says to brackets or operators without end.
        raise nested_too_deeply(SourceText(path, text), "give parts of it names") from None
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        raise ProjectError(
            f"syntax error: {getattr(error, 'msg', error)}",
            hint=f"look at: {(getattr(error, 'text', None) or '').strip()}" if line else None,
            location=SourceLocation(path, line, getattr(error, "offset", None)),
        ) from None


def with_local_imports(root: Path, path: str, text: str) -> dict[str, str]:
    """Return a file and every project-local module that it imports, transitively.

    Imports are found anywhere in the file, also inside functions.

    Args:
        root: The project's folder.
        path: The file, relative to the root, with forward slashes.
        text: Its text.

    Returns:
        Text by path relative to the root.
    """
    files: dict[str, str] = {}
    waiting = [(path, text)]
    while waiting:
        current, content = waiting.pop()
        if current in files:
            continue
        files[current] = content
        for name in _imported_names(current, parse_python(Path(current), content)):
            for found in _local_files(root, name):
                if found not in files:
                    waiting.append((found, decoded(Path(found), (root / found).read_bytes())))
    return dict(sorted(files.items()))


def execute(root: Path, path: str, text: str) -> tuple[Collector, dict[str, str]]:
    """Execute a file of the project; return what it decorated, and the files it is made of.

    Raises:
        ProjectError: It cannot be parsed or raises; points at the line in the project.
    """
    _, collector, files = run_file(root, path, text)
    return collector, files


def run_file(root: Path, path: str, text: str) -> tuple[ModuleType, Collector, dict[str, str]]:
    """Execute a file of the project; return also the module that it became.

    Raises:
        ProjectError: As `execute`.
    """
    files = with_local_imports(root, path, text)
    try:
        module, collector = LocalModules(files, root).run(path)
    except ProjectError:
        raise
    except (Exception, SystemExit) as error:
        raise ProjectError(
            f"the file cannot be imported: {said(error)}",
            hint=_import_hint(error),
            location=where_raised(error, Path(path)),
        ) from error
    return module, collector, files


def _import_hint(error: BaseException) -> str:
    hint = getattr(error, "hint", None)
    if isinstance(hint, str):
        return hint
    if isinstance(error, ModuleNotFoundError):
        return f"install the package that has '{error.name}', or correct the import"
    return "correct the line"


def where_raised(error: BaseException, path: Path) -> SourceLocation:
    """The line of the project that was running when an error was raised."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename.startswith("<vde_project_"):
            return SourceLocation(Path(frame.filename[1:-1].partition("/")[2]), frame.lineno)
    return SourceLocation(path)


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


def _local_files(root: Path, name: str) -> Iterator[str]:
    """Yield the project's files that importing a dotted name executes."""
    parts = name.split(".")
    if parts[0] == __name__.partition(".")[0]:
        return  # this package's own checkout may be the project: its decorators are never copied
    for count in range(1, len(parts) + 1):
        base = "/".join(parts[:count])
        # Not by pathlib, which raises for a name that is longer than any file's.
        for path in (f"{base}/__init__.py", f"{base}.py"):
            if os.path.isfile(root / path):
                yield path
