"""Queries of Python models that read other models only through literal queries.

The code is parsed, not run. A function reads rows of other models only through its first parameter,
the context. If each use of the context is a query written as a literal, or reads no rows, the model
depends only on the results of these queries.
"""

from __future__ import annotations

import ast

_QUERIES = frozenset({"sql", "fetchdf", "fetch_pyspark_df"})
_WITHOUT_ROWS = frozenset(
    {"interval", "execution_time", "start", "end", "latest", "logger", "model", "dialect"}
    | {"var", "blueprint_var", "page", "is_cancelled", "gateway"}
)
_MAKES_FRAMES = frozenset({"createDataFrame", "range"})
_LOOKS_AROUND = frozenset({"eval", "exec", "locals", "vars", "globals", "inspect", "super"})


def literal_queries(text: str, function: str) -> tuple[str, ...] | None:
    """Return a top-level function's queries in order; None if it may read rows in any other way.

    >>> code = "@model('s.wet')\\ndef run(c):\\n    return c.fetchdf('SELECT a FROM s.t')"
    >>> literal_queries(code, "run")
    ('SELECT a FROM s.t',)
    >>> literal_queries(code.replace("c.fetchdf(", "c.fetchall("), "run") or "unknown"
    'unknown'
    """
    try:
        body = ast.parse(text).body
    except SyntaxError:
        return None
    found = [one for one in body if getattr(one, "name", None) == function]
    if len(found) != 1 or not isinstance(found[0], ast.FunctionDef):
        return None
    node = found[0]
    parameters = [*node.args.posonlyargs, *node.args.args]
    if not parameters or not all(map(_is_model_decorator, node.decorator_list)):
        return None
    context = parameters[0].arg
    names = [one for one in ast.walk(node) if isinstance(one, ast.Name)]
    if any(one.id in _LOOKS_AROUND for one in names):
        return None
    reading = _Uses(context)
    reading.visit(node)
    uses = sum(one.id == context for one in names)
    own = sum(one.arg == context for one in ast.walk(node) if isinstance(one, ast.arg))
    return tuple(reading.queries) if reading.understood == uses and own == 1 else None


class _Uses(ast.NodeVisitor):
    """Collects literal queries.

    `understood` is the number of uses of the context that run a literal query or read no rows.
    """

    def __init__(self, context: str) -> None:
        self.context = context
        self.queries: list[str] = []
        self.understood = 0

    def visit_Call(self, node: ast.Call) -> None:
        method = node.func
        if isinstance(method, ast.Attribute):
            owner, query = method.value, _literal(node)
            adapter = isinstance(owner, ast.Attribute) and owner.attr == "engine_adapter"
            if adapter and isinstance(owner, ast.Attribute):
                owner = owner.value
            if self._is_context(owner) and method.attr in _QUERIES and query is not None:
                self.understood += 1
                self.queries.append(query)
                return
            spark = isinstance(owner, ast.Attribute) and owner.attr == "spark"
            if spark and isinstance(owner, ast.Attribute) and method.attr in _MAKES_FRAMES:
                self.understood += self._is_context(owner.value)
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if self._is_context(node.value) and isinstance(node.ctx, ast.Load):
            self.understood += node.attr in _WITHOUT_ROWS
        self.generic_visit(node)

    def _is_context(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id == self.context


def _is_model_decorator(node: ast.expr) -> bool:
    called = node.func if isinstance(node, ast.Call) else None
    name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", None)
    return name == "model"


def _literal(node: ast.Call) -> str | None:
    """Return the literal query that is a call's only argument, or None."""
    given = [*node.args, *(one.value for one in node.keywords if one.arg == "query")]
    if len(given) != 1 or len(node.args) + len(node.keywords) != 1:
        return None
    value = given[0].value if isinstance(given[0], ast.Constant) else None
    return value if isinstance(value, str) else None
