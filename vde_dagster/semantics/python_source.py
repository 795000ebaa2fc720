"""The version of a Python model: its source and all of the project's code that it reaches.

Modules are read with `ast` and never imported or run. Starting from the model's function, every
name it mentions is looked up in its module, and in other modules of the project through imports;
each definition found (function, class, assignment) is hashed without comments, docstrings and
formatting. Where a name's meaning cannot be told from the text (star imports, ``globals()``,
``importlib``, several bindings of one name), the whole module is hashed: unsure means changed.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vde_dagster.semantics.encoding import digest, digest_all

_DYNAMIC = frozenset(
    {"eval", "exec", "globals", "locals", "vars", "getattr", "setattr", "delattr", "__import__"}
    | {"compile", "importlib", "runpy", "pkgutil", "inspect"}
)
_BUILTINS = frozenset(dir(builtins))
_Definition = ast.stmt


@dataclass(frozen=True, slots=True)
class PythonVersion:
    """What a Python model is made of.

    Args:
        text: Canonical text for `opaque_version`: the version of all code below, as hex.
        definitions: The reached definitions as ``module:name`` (``module:*`` for whole modules).
        modules: The files read, relative to the project's root, in order.
        imports: Modules outside of the project that the reached code mentions.
    """

    text: str
    definitions: tuple[str, ...]
    modules: tuple[str, ...]
    imports: tuple[str, ...]


@dataclass(slots=True)
class _Module:
    """One parsed file."""

    name: str
    path: Path
    tree: ast.Module
    package: str
    bindings: dict[str, list[ast.stmt]] = field(default_factory=dict)
    starred: bool = False


def python_version(
    module: str | Path,
    function: str,
    project_root: str | Path,
    *,
    source: str | None = None,
    files: Mapping[str, str] | None = None,
) -> PythonVersion:
    """The version of a function's code.

    Args:
        module: The file that defines the function, absolute or relative to the root.
        function: Its name at the module's top level.
        project_root: Only modules below it are followed.
        source: The module's text, if it is not to be read from the file.
        files: The texts of all of the project's modules, by path relative to the root, if nothing
            at all is to be read from files.

    Raises:
        SyntaxError: A file that is reached is not valid Python.
        LookupError: The module defines no such function.
    """
    root = Path(project_root).resolve()
    path = (root / module).resolve()
    reader = _Reader(root, files)
    start = reader.load(path, source)
    if function not in start.bindings:
        raise LookupError(f"{path.name} defines no {function}")
    reader.reach(start, function)
    return reader.result()


class _Reader:
    """Follows names from definition to definition."""

    def __init__(self, root: Path, files: Mapping[str, str] | None = None) -> None:
        self.root = root
        self.files = None if files is None else {root / path: files[path] for path in files}
        self.modules: dict[Path, _Module] = {}
        self.reached: dict[tuple[str, str], bytes] = {}
        self.imports: set[str] = set()

    def load(self, path: Path, source: str | None = None) -> _Module:
        known = self.modules.get(path)
        if known is not None:
            return known
        text = source
        if text is None:
            text = path.read_text(encoding="utf-8") if self.files is None else self.files[path]
        tree = ast.parse(text, filename=str(path))
        relative = path.relative_to(self.root).with_suffix("") if _below(path, self.root) else path
        parts = list(relative.parts)
        package = ".".join(parts[:-1])
        if parts and parts[-1] == "__init__":
            parts.pop()
        module = _Module(".".join(parts), path, tree, package)
        _bind(tree.body, module)
        self.modules[path] = module
        return module

    def reach(self, module: _Module, name: str) -> None:
        """Take in a definition and all that it mentions."""
        todo: list[tuple[_Module, str]] = [(module, name)]
        while todo:
            where, what = todo.pop()
            if (where.name, what) in self.reached:
                continue
            if what == "*":
                self.reached[where.name, "*"] = _hash(where.tree.body)
                mentioned, unsure = _mentions(where.tree.body), False
            else:
                statements = where.bindings[what]
                self.reached[where.name, what] = _hash(statements)
                mentioned, unsure = _mentions(statements), len(statements) > 1
            if unsure or mentioned & _DYNAMIC:
                todo.append((where, "*"))
            for found in self._targets(where, mentioned):
                todo.append(found)
            statements = where.tree.body if what == "*" else where.bindings[what]
            for statement in statements:
                todo += self._imported(where, statement, what)

    def _targets(self, where: _Module, mentioned: set[str]) -> Iterable[tuple[_Module, str]]:
        for name in sorted(mentioned):
            if name in where.bindings:
                yield where, name
            elif where.starred and name not in _BUILTINS:
                yield where, "*"

    def _imported(
        self, where: _Module, statement: ast.stmt, what: str
    ) -> list[tuple[_Module, str]]:
        """What import statements inside a reached definition point at."""
        found: list[tuple[_Module, str]] = []
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    target = self._find(alias.name, where)
                    if target is not None:
                        found.append((target, "*"))
                    else:
                        self.imports.add(alias.name.split(".")[0])
            elif isinstance(node, ast.ImportFrom):
                base = _absolute(node, where)
                for alias in node.names:
                    bound = alias.asname or alias.name
                    if what not in ("*", bound) and node is statement:
                        continue
                    found += self._from(base, alias.name, where)
        return found

    def _from(self, base: str, name: str, where: _Module) -> list[tuple[_Module, str]]:
        target = self._find(base, where)
        submodule = self._find(f"{base}.{name}" if base else name, where) if name != "*" else None
        if submodule is not None and (target is None or name not in target.bindings):
            return [(submodule, "*")]
        if target is None:
            if base:
                self.imports.add(base.split(".")[0])
            return []
        if name == "*" or name not in target.bindings:
            return [(target, "*")]
        return [(target, name)]

    def _find(self, dotted: str, where: _Module) -> _Module | None:
        """The project's module of that name, from the root or from the importing file's folder."""
        if not dotted:
            return None
        relative = Path(*dotted.split("."))
        for base in (self.root, self.root / "src", where.path.parent):
            for candidate in (
                base / relative.with_suffix(".py"),
                base / relative / "__init__.py",
            ):
                if self.files is not None:
                    if candidate in self.files:
                        return self.load(candidate)
                elif candidate.is_file() and _below(candidate.resolve(), self.root):
                    return self.load(candidate.resolve())
        return None

    def result(self) -> PythonVersion:
        parts: list[bytes | str | int | None] = []
        for (module, name), value in sorted(self.reached.items()):
            parts += [module, name, value]
        parts += sorted(self.imports)
        touched = {module for module, _ in self.reached}
        return PythonVersion(
            text=digest_all("python", parts).hex(),
            definitions=tuple(f"{module}:{name}" for module, name in sorted(self.reached)),
            modules=tuple(
                sorted(
                    str(m.path.relative_to(self.root)) if _below(m.path, self.root) else m.path.name
                    for m in self.modules.values()
                    if m.name in touched
                )
            ),
            imports=tuple(sorted(self.imports)),
        )


def _below(path: Path, root: Path) -> bool:
    return path == root or root in path.parents


def _bind(body: list[ast.stmt], module: _Module) -> None:
    """Note which statements bind which names at a module's top level."""
    for statement in body:
        for name in _bound_names(statement):
            module.bindings.setdefault(name, []).append(statement)
        if isinstance(statement, ast.ImportFrom) and any(a.name == "*" for a in statement.names):
            module.starred = True


def _bound_names(statement: ast.stmt) -> set[str]:
    """Names that a top-level statement binds or changes, however deep in ifs and tries."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    names: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name != "*"}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            names.add(node.id)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
    names |= _changed_names(statement)
    return names


def _changed_names(statement: ast.stmt) -> set[str]:
    """Names whose objects a top-level statement may change: ``X.append(…)``, ``X[k] = …``."""
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return set()
    changed: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, (ast.Attribute, ast.Subscript)):
            base: ast.expr = node
            while isinstance(base, (ast.Attribute, ast.Subscript, ast.Call)):
                base = base.func if isinstance(base, ast.Call) else base.value
            stored = not isinstance(node.ctx, ast.Load)
            bare = isinstance(statement, ast.Expr)
            if isinstance(base, ast.Name) and (stored or bare):
                changed.add(base.id)
        elif isinstance(node, ast.Call) and isinstance(statement, ast.Expr):
            changed |= {a.id for a in node.args if isinstance(a, ast.Name)}
    return changed


def _mentions(statements: Iterable[ast.stmt]) -> set[str]:
    names: set[str] = set()
    for statement in statements:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name):
                names.add(node.id)
            elif isinstance(node, ast.Global):
                names.update(node.names)
            elif isinstance(node, ast.Import):
                names |= {a.name.split(".")[0] for a in node.names} & _DYNAMIC
    return names


def _absolute(node: ast.ImportFrom, where: _Module) -> str:
    if not node.level:
        return node.module or ""
    package = where.package.split(".") if where.package else []
    base = package[: len(package) - (node.level - 1)]
    return ".".join([*base, node.module] if node.module else base)


def _hash(statements: Iterable[ast.stmt]) -> bytes:
    return digest("definition", *(ast.dump(_Bare().visit(_copy(s))) for s in statements))


def _copy(statement: ast.stmt) -> ast.stmt:
    from copy import deepcopy

    return deepcopy(statement)


class _Bare(ast.NodeTransformer):
    """Drops docstrings."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            body = node.body
            if (
                body
                and isinstance(body[0], ast.Expr)
                and isinstance(body[0].value, ast.Constant)
                and isinstance(body[0].value.value, str)
            ):
                node.body = body[1:] or [ast.Pass()]
        return node
