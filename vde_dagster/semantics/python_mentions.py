"""What a piece of Python code mentions: names, and ways to reach what it does not name."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

_ANYWHERE = frozenset(
    {"eval", "exec", "compile", "globals", "setattr", "delattr", "__import__", "__builtins__"}
)
"""Built-in names through which code reaches or changes what it does not name."""

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
"""Built-in names through which code reaches its own module."""

_TEXT = frozenset({"__cached__", "__file__", "__loader__", "__package__", "__path__", "__spec__"})
_TEXT_MODULES = frozenset({"dis", "inspect", "linecache", "tokenize", "traceback"})
_TEXT_ATTRIBUTES = _TEXT | frozenset(
    {"__code__", "__module__", "__traceback__", "_getframe", "co_filename", "co_firstlineno"}
    | {"f_code", "f_lineno", "getsource", "tb_frame", "tb_lineno"}
)
"""Through these code can tell its own lines and file, which are not in its tree."""

_DOCUMENTS = frozenset({"__doc__", "docopt", "doctest", "getdoc", "help", "inspect", "pydoc"})
_CALLERS_NAMES = frozenset({"eval", "query"})
"""Methods (of pandas) whose text may name the caller's variables: `df.query("x > @LIMIT")`."""

_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(slots=True)
class Mentions:
    """What statements mention.

    Args:
        chains: Dotted names as they stand (`lib.rates.FACTOR`), a plain name being a chain of one.
        words: Words in their strings; a string may hold an annotation, or a name for a library.
        texts: Their strings.
        anywhere: Whether they may reach or change things in any module without naming them.
        here: Whether they may reach things in their own module without naming them.
        by_text: Whether they may depend on the module's very text or place.
        documents: Whether they may read docstrings.
    """

    chains: set[tuple[str, ...]] = field(default_factory=set)
    words: set[str] = field(default_factory=set)
    texts: set[str] = field(default_factory=set)
    anywhere: bool = False
    here: bool = False
    by_text: bool = False
    documents: bool = False


def mentions(statements: Iterable[ast.stmt]) -> Mentions:
    """Collect what statements mention, docstrings left out."""
    visitor = _Visitor()
    for statement in statements:
        visitor.visit(statement)
    return visitor.found


def is_docstring(node: ast.stmt) -> bool:
    """Say whether a statement is a string and nothing else."""
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
        self._chain((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        parts: list[str] = []
        base: ast.expr = node
        while isinstance(base, ast.Attribute):
            parts.append(base.attr)
            base = base.value
        self._attributes(parts)
        if isinstance(base, ast.Name):
            self._chain((base.id, *reversed(parts)))
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
                arguments = [a for a in arguments if not _is_own_name(a)]
        for part in (function, *arguments, *node.keywords):
            self.visit(part)

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        if any(_is_text(side) and _value(side) == "__main__" for side in sides):
            sides = [side for side in sides if not _is_own_name(side)]
        for side in sides:
            self.visit(side)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            words = _WORD.findall(node.value)
            self.found.words.update(words)
            self.found.texts.add(node.value)
            self._attributes([word for word in words if word.startswith("__")])

    def visit_Global(self, node: ast.Global) -> None:
        self.found.chains |= {(name,) for name in node.names}

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._module(alias.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        self._module(node.module or "")
        self._attributes([alias.name for alias in node.names])

    def _chain(self, chain: tuple[str, ...]) -> None:
        found, name = self.found, chain[0]
        found.chains.add(chain)
        found.anywhere |= name in _ANYWHERE
        found.here |= name in _HERE
        found.by_text |= name in _TEXT or chain == ("__name__",)
        found.documents |= name in _DOCUMENTS

    def _attributes(self, names: Iterable[str]) -> None:
        found = self.found
        for name in names:
            found.anywhere |= name in _ANYWHERE_ATTRIBUTES
            found.by_text |= name in _TEXT_ATTRIBUTES
            found.documents |= name in _DOCUMENTS

    def _module(self, dotted: str) -> None:
        found, name = self.found, dotted.partition(".")[0]
        found.anywhere |= name in _ANYWHERE_MODULES
        found.by_text |= name in _TEXT_MODULES
        found.documents |= name in _DOCUMENTS


def _value(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def _is_text(node: ast.expr) -> bool:
    return isinstance(_value(node), str)


def _is_own_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "__name__"
