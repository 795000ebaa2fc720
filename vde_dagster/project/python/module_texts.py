"""Python modules of a project as texts: statements, imports, bound and mentioned names.

Nothing is imported or run. Names are resolved as `project.python.files` resolves them when it runs
a model. If it is unclear which modules code needs, too many modules are found rather than too few.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

BUILTINS = frozenset(dir(builtins))
Import = ast.Import | ast.ImportFrom
Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(eq=False)
class Module:
    """A parsed Python file of a project.

    Args:
        package: Dotted name of the package that contains it; for `a/__init__.py`, `a`.
        statements: Top-level statements; an import of several names becomes one statement per name.
        bindings: Indexes of the statements that bind a name.
    """

    name: str
    path: str
    package: str
    statements: list[ast.stmt]
    bindings: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_package(self) -> bool:
        return self.path.rpartition("/")[2] == "__init__.py"

    @cached_property
    def futures(self) -> frozenset[str]:
        """Names that the module imports from `__future__`."""
        return frozenset(
            statement.names[0].name
            for statement in self.statements
            if isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        )

    def sole(self, name: str) -> ast.stmt | None:
        """Return the statement that alone binds a name, or else None."""
        found = self.bindings.get(name, ())
        return self.statements[found[0]] if len(found) == 1 else None

    def base(self, node: ast.ImportFrom) -> str:
        """Return the absolute dotted name of the module in `from … import`."""
        if not node.level:
            return node.module or ""
        package = self.package.split(".") if self.package else []
        start = package[: len(package) - (node.level - 1)]
        return ".".join([*start, node.module] if node.module else start)


class Modules:
    """Finds and parses the Python modules of a project, given their texts."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files
        self._loaded: dict[str, Module] = {}
        self._found: dict[tuple[str, str], Module | None] = {}

    def load(self, path: str) -> Module:
        """Parse a file; raise SyntaxError if it is not valid Python."""
        if path in self._loaded:
            return self._loaded[path]
        parts = path.removesuffix(".py").split("/")
        package = ".".join(parts[:-1])
        if parts[-1] == "__init__":
            parts.pop()
        statements = list(_split_imports(ast.parse(self.files[path], filename=path).body))
        module = Module(".".join(parts), path, package, statements)
        for index, statement in enumerate(statements):
            for name in bound_names(statement):
                module.bindings.setdefault(name, []).append(index)
        self._loaded[path] = module
        return module

    def find(self, dotted: str, where: Module) -> Module | None:
        """Return the project's module for a dotted name in an import of `where`, or None."""
        if not dotted:
            return None
        key = (dotted, where.path)
        if key not in self._found:
            base = dotted.replace(".", "/")
            folder = where.path.rpartition("/")[0]
            candidates = (
                f"{inside}{base}{end}"
                for inside in ("", "src/", f"{folder}/" if folder else "")
                for end in (".py", "/__init__.py")
            )
            found = next((path for path in candidates if path in self.files), None)
            self._found[key] = None if found is None else self.load(found)
        return self._found[key]

    def packages(self, dotted: str, where: Module) -> Iterator[Module]:
        """Yield the packages and the module that run when a dotted name is imported."""
        parts = dotted.split(".")
        for count in range(1, len(parts) + 1):
            found = self.find(".".join(parts[:count]), where)
            if found is not None:
                yield found

    def executed(self, node: Import, where: Module) -> list[Module]:
        """Return the project's modules that an import runs, in order."""
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            base = where.base(node)
            names = [base, *(f"{base}.{a.name}" if base else a.name for a in node.names)]
        found = (module for name in names if name for module in self.packages(name, where))
        return list({module.path: module for module in found}.values())


def imports_within(node: ast.AST, *, functions: bool) -> Iterator[Import]:
    """Yield the imports in a statement; with `functions`, also those in function bodies."""
    if isinstance(node, Import):
        yield node
    if isinstance(node, Function) and not functions:
        return
    for child in ast.iter_child_nodes(node):
        yield from imports_within(child, functions=functions)


def bound_names(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement assigns, defines or imports."""
    names: set[str] = set()
    is_definition = isinstance(statement, Function | ast.ClassDef)
    for node in [statement] if is_definition else ast.walk(statement):
        if isinstance(node, Function | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, Import):
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


def _split_imports(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for statement in body:
        if isinstance(statement, ast.Import):
            yield from (ast.Import(names=[alias]) for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                yield ast.ImportFrom(module=statement.module, names=[alias], level=statement.level)
        else:
            yield statement


_ANYWHERE = frozenset(
    {"eval", "exec", "compile", "globals", "setattr", "delattr", "__import__", "__builtins__"}
)
"""Built-in names that let code reach or change any object without naming it."""

_ANYWHERE_MODULES = frozenset(
    {"builtins", "code", "codeop", "ctypes", "gc", "imp", "importlib", "pkgutil", "runpy"}
    | {"unittest", "zipimport"}
)
_ANYWHERE_ATTRIBUTES = frozenset(
    {"CodeType", "FunctionType", "__builtins__", "__globals__", "__subclasses__", "_getframe"}
    | {"f_back", "f_globals", "f_locals", "meta_path", "modules", "path_hooks", "setprofile"}
    | {"settrace"}
)
_HERE = frozenset({"locals", "vars", "dir"})
"""Built-in names that let code reach objects of its own module."""

_TEXT = frozenset({"__cached__", "__file__", "__loader__", "__package__", "__path__", "__spec__"})
_TEXT_MODULES = frozenset({"dis", "inspect", "linecache", "tokenize", "traceback"})
_TEXT_ATTRIBUTES = _TEXT | frozenset(
    {"__code__", "__module__", "__traceback__", "_getframe", "co_filename", "co_firstlineno"}
    | {"f_code", "f_lineno", "getsource", "tb_frame", "tb_lineno"}
)
"""Names that let code read its lines and its file, which are not in its syntax tree."""

_DOCUMENTS = frozenset({"__doc__", "docopt", "doctest", "getdoc", "help", "inspect", "pydoc"})
_CALLERS_NAMES = frozenset({"eval", "query"})
"""Pandas methods whose argument may name the caller's variables: `df.query("x > @LIMIT")`."""

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True)
class Mentions:
    """The names and strings that statements contain.

    Args:
        chains: Dotted names as written (`lib.rates.FACTOR`); a plain name is a chain of length one.
        words: Words in strings, which may be annotations or names.
        anywhere: Whether the statements may use objects of any module without naming them.
        here: Whether the statements may use objects of their own module without naming them.
        by_text: Whether the statements may depend on the module's text or file.
        documents: Whether the statements may read docstrings.
    """

    chains: set[tuple[str, ...]] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    anywhere: bool = False
    here: bool = False
    by_text: bool = False
    documents: bool = False


def mentions(statements: Iterable[ast.stmt]) -> Mentions:
    """Collect the names and strings in statements, without docstrings."""
    visitor = _Visitor()
    for statement in statements:
        visitor.visit(statement)
    return visitor.found


def is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


class _Visitor(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found = Mentions()

    def visit_Expr(self, node: ast.Expr) -> None:
        if not is_docstring(node):
            self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        self._add_name((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        self._add_attributes(parts)
        if isinstance(base, ast.Name):
            self._add_name((base.id, *reversed(parts)))
        else:
            self.visit(base)

    def visit_Call(self, node: ast.Call) -> None:
        function, arguments = node.func, node.args
        if isinstance(function, ast.Name) and function.id in ("getattr", "hasattr"):
            if not (len(arguments) > 1 and _is_text(arguments[1])):
                self.found.here = True
        elif isinstance(function, ast.Attribute):
            if function.attr in _CALLERS_NAMES and not all(map(_is_text, arguments)):
                self.found.here = True
            if function.attr == "getLogger":
                arguments = [a for a in arguments if not is_own_name(a)]
        for part in (function, *arguments, *node.keywords):
            self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(_is_text(side) and _constant_value(side) == "__main__" for side in sides):
            sides = [side for side in sides if not is_own_name(side)]
        for side in sides:
            self.visit(side)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            words = _WORD.findall(node.value)
            self.found.words.update(words)
            self.found.texts.add(node.value)
            self._add_attributes([word for word in words if word.startswith("__")])

    def visit_Global(self, node: ast.Global) -> None:
        self.found.chains |= {(name,) for name in node.names}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._add_module(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._add_module(node.module or "")
        self._add_attributes([alias.name for alias in node.names])

    def _add_name(self, chain: tuple[str, ...]) -> None:
        found, name = self.found, chain[0]
        found.chains.add(chain)
        found.anywhere |= name in _ANYWHERE
        found.here |= name in _HERE
        found.by_text |= name in _TEXT or chain == ("__name__",)
        found.documents |= name in _DOCUMENTS

    def _add_attributes(self, names: Iterable[str]) -> None:
        found = self.found
        for name in names:
            found.anywhere |= name in _ANYWHERE_ATTRIBUTES
            found.by_text |= name in _TEXT_ATTRIBUTES
            found.documents |= name in _DOCUMENTS

    def _add_module(self, dotted: str) -> None:
        found, name = self.found, dotted.partition(".")[0]
        found.anywhere |= name in _ANYWHERE_MODULES
        found.by_text |= name in _TEXT_MODULES
        found.documents |= name in _DOCUMENTS


def _constant_value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(_constant_value(node), str)


def is_own_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"
