"""A project's Python modules as texts: their statements, what each binds, and what imports mean.

Nothing is imported or run. Names are resolved as `project.python.runtime` resolves them when it
runs a model, and more generously where the two could differ.
"""

from __future__ import annotations

import ast
import builtins
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

BUILTINS = frozenset(dir(builtins))
Import = ast.Import | ast.ImportFrom


@dataclass(eq=False)
class Module:
    """One parsed file.

    Args:
        name: Its dotted name.
        path: The file.
        text: Its text.
        package: Dotted name of the package it is in; of a package, its own name.
        statements: Its top-level statements; an import of several names is one statement each.
    """

    name: str
    path: Path
    text: str
    package: str
    statements: list[ast.stmt]
    bindings: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_package(self) -> bool:
        """Whether it is an `__init__.py`."""
        return self.path.name == "__init__.py"

    @cached_property
    def folder(self) -> str:
        """The folder that it lies in."""
        return str(self.path.parent)

    @cached_property
    def futures(self) -> frozenset[str]:
        """What it imports from `__future__`, which changes how all of it is compiled."""
        return frozenset(
            statement.names[0].name
            for statement in self.statements
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        )

    def sole(self, name: str) -> ast.stmt | None:
        """Return the only statement that binds a name."""
        found = self.bindings.get(name, ())
        return self.statements[found[0]] if len(found) == 1 else None

    def base(self, node: ast.ImportFrom) -> str:
        """Return the absolute dotted name of what a `from` import reads."""
        if not node.level:
            return node.module or ""
        package = self.package.split(".") if self.package else []
        start = package[: len(package) - (node.level - 1)]
        return ".".join([*start, node.module] if node.module else start)


class Modules:
    """Finds and parses modules below a project's root.

    Args:
        root: The project's folder.
        files: The modules' texts by path relative to the root, if none are to be read from disk.
    """

    def __init__(self, root: Path, files: Mapping[str, str] | None = None) -> None:
        self.root = root
        self._files = None if files is None else {f"{root}/{path}": files[path] for path in files}
        self._loaded: dict[Path, Module] = {}
        self._found: dict[tuple[str, Path], Module | None] = {}

    def load(self, path: Path, source: str | None = None) -> Module:
        """Parse a file.

        Raises:
            SyntaxError: It is not valid Python.
        """
        known = self._loaded.get(path)
        if known is not None:
            return known
        text = source
        if text is None:
            text = (
                path.read_text(encoding="utf-8") if self._files is None else self._files[str(path)]
            )
        below = self.root in path.parents
        parts = list((path.relative_to(self.root) if below else path).with_suffix("").parts)
        package = ".".join(parts[:-1])
        if parts and parts[-1] == "__init__":
            parts.pop()
        statements = list(_split(ast.parse(text, filename=str(path)).body))
        module = Module(".".join(parts), path, text, package, statements)
        for index, statement in enumerate(statements):
            for name in bound_names(statement):
                module.bindings.setdefault(name, []).append(index)
        self._loaded[path] = module
        return module

    def find(self, dotted: str, where: Module) -> Module | None:
        """Return the project's module of that name, from the root or the importer's folder."""
        if not dotted:
            return None
        key = (dotted, where.path)
        if key not in self._found:
            self._found[key] = self._find(dotted, where)
        return self._found[key]

    def _find(self, dotted: str, where: Module) -> Module | None:
        relative = dotted.replace(".", "/")
        # Texts are kept by strings: making and comparing paths would be most of the work.
        for base in (str(self.root), f"{self.root}/src", where.folder):
            for candidate in (f"{base}/{relative}.py", f"{base}/{relative}/__init__.py"):
                if self._files is not None:
                    if candidate in self._files:
                        return self.load(Path(candidate))
                elif os.path.isfile(candidate):
                    found = Path(candidate).resolve()
                    if self.root in found.parents:
                        return self.load(found)
        return None

    def packages(self, dotted: str, where: Module) -> Iterator[Module]:
        """Yield every module that importing a dotted name executes: its packages, and itself."""
        parts = dotted.split(".")
        for count in range(1, len(parts) + 1):
            found = self.find(".".join(parts[:count]), where)
            if found is not None:
                yield found

    def executed(self, node: Import, where: Module) -> list[Module]:
        """Return the project's modules that an import executes, in order."""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = where.base(node)
            names = [base, *(f"{base}.{a.name}" if base else a.name for a in node.names)]
        found = (module for name in names if name for module in self.packages(name, where))
        return list({module.path: module for module in found}.values())

    def texts(self) -> dict[str, str]:
        """Return the text of every file by its path: all that were given, or all that were read."""
        if self._files is not None:
            return dict(self._files)
        return {str(path): module.text for path, module in self._loaded.items()}

    def relative(self, module: Module) -> str:
        """Return a module's path relative to the root, with forward slashes."""
        below = self.root in module.path.parents
        return module.path.relative_to(self.root).as_posix() if below else module.path.name


def imports_within(node: ast.AST, *, functions: bool) -> Iterator[Import]:
    """Yield the imports in a statement; those in functions' bodies only if they are asked for."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        yield node
    if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not functions:
        return
    for child in ast.iter_child_nodes(node):
        yield from imports_within(child, functions=functions)


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds, in ifs and tries or by `global` too."""
    names: set[str] = set()
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        names.add(statement.name)
        inner: Iterator[ast.AST] = iter(())
    else:
        inner = ast.walk(statement)
    for node in inner:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name != "*"}
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            names.add(node.rest)
    for node in ast.walk(statement):
        if isinstance(node, ast.Global):
            names.update(node.names)
    return names


def _split(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (ast.Import(names=[alias]) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield ast.ImportFrom(module=statement.module, names=[alias], level=statement.level)
        else:
            yield statement
