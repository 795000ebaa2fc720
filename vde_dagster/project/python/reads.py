"""The tables that a Python model reads, found in its code: `context.table("…")` and its like."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError, SourceLocation, placed
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.model import PythonSource
from vde_dagster.project.reading.file_context import FileContext
from vde_dagster.project.reading.rendering import render
from vde_dagster.sql.scanner import SourceText

_TABLE_METHODS = ("table", "resolve_table")
_QUERY_METHODS = ("sql", "fetchdf", "fetch_pyspark_df")


@dataclass(frozen=True, slots=True)
class CodeOfModel:
    """A model's code as it is looked through.

    Args:
        python: Its source: variables, and the dialect of its queries.
    """

    tree: ast.Module
    function: Callable[..., Any]
    python: PythonSource


def tables_read_by(
    code: CodeOfModel, path: Path, context: FileContext, *, told: bool
) -> dict[ModelName, SourceLocation]:
    """Find the tables that a model's function names, and those that its helpers name.

    Args:
        context: What the project's files share.
        told: Whether the model also says what it reads, so that a name may be unknown here.

    Raises:
        ProjectError: A name cannot be told from the code, or a query cannot be read.
    """
    reads: dict[ModelName, SourceLocation] = {}
    for function, call, method in _calls(code):
        location = SourceLocation(path, call.lineno, call.col_offset + 1)
        words = [word.value for word in call.keywords if word.arg in ("model_name", "query")]
        first = next(iter([*call.args, *words]), None)
        if method in _TABLE_METHODS:
            found = _text_of(first, function, code)
            if found is not None:
                with placed(location):
                    reads.setdefault(context.names.read(found), location)
            elif not told:
                raise ProjectError(
                    f"which table context.{method}(…) reads cannot be told from the code",
                    hint='write the name as a string, or add depends_on=["schema.table"] to @model',
                    location=location,
                )
        elif isinstance(first, ast.Constant) and isinstance(first.value, str):
            for name in _query_reads(first.value, location, context, code.python):
                reads.setdefault(name, location)
    return reads


def _calls(code: CodeOfModel) -> Iterator[tuple[ast.FunctionDef, ast.Call, str]]:
    """Yield the calls of the context's methods, in the function and in those that it names."""
    functions = {node.name: node for node in code.tree.body if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(code.tree):
        if isinstance(node, ast.FunctionDef):
            functions.setdefault(node.name, node)
    own = _own_node(code)
    if own is not None:
        functions[own.name] = own
    waiting, seen = [code.function.__name__], set()
    while waiting:
        name = waiting.pop()
        if name in seen or name not in functions:
            continue
        seen.add(name)
        function = functions[name]
        parameters = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        if name == code.function.__name__:
            contexts = {one.arg for one in parameters[:1]} | {"context"}
        else:
            contexts = {"context"}
        for node in ast.walk(function):
            if isinstance(node, ast.Name) and node.id in functions:
                waiting.append(node.id)
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            owner, method = node.func.value, node.func.attr
            if isinstance(owner, ast.Attribute) and owner.attr == "engine_adapter":
                owner = owner.value
            if not (isinstance(owner, ast.Name) and owner.id in contexts):
                continue
            if method in (*_TABLE_METHODS, *_QUERY_METHODS):
                yield function, node, method


def _own_node(code: CodeOfModel) -> ast.FunctionDef | None:
    """Find a model's function, which need not be the last one of its name."""
    compiled = getattr(inspect.unwrap(code.function), "__code__", None)
    for node in ast.walk(code.tree):
        if not isinstance(node, ast.FunctionDef) or compiled is None:
            continue
        lines = {node.lineno, *(one.lineno for one in node.decorator_list)}
        if node.name == compiled.co_name and compiled.co_firstlineno in lines:
            return node
    return None


class _Variables:
    """Stands for the context where an argument is computed while the project is read."""

    def __init__(self, python: PythonSource) -> None:
        self._python = python

    def var(self, name: str, default: Any = None) -> Any:
        return self._python.settings.get(name.lower(), default)

    def blueprint_var(self, name: str, default: Any = None) -> Any:
        return self._python.variables.get(name.lower(), default)


def _text_of(node: ast.expr | None, function: ast.FunctionDef, code: CodeOfModel) -> str | None:
    """Return an argument's text: written out, a constant of the module, or made of variables."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if node is None or _changes_names(node, function):
        return None
    parameters = function.args.posonlyargs + function.args.args
    stand_in = _Variables(code.python)
    names = {one.arg: stand_in for one in parameters[:1]} | {"context": stand_in}
    try:
        value = eval(  # the project's own code, as its module was run before
            compile(ast.Expression(node), "<depends_on>", "eval"),
            {**code.function.__globals__},
            names,
        )
    except Exception:
        return None
    return value if isinstance(value, str) else None


def _changes_names(node: ast.expr, function: ast.FunctionDef) -> bool:
    """Say whether an argument uses names that the function itself gives a value."""
    used = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    given = {
        one.id
        for one in ast.walk(function)
        if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)
    }
    parameters = function.args.posonlyargs + function.args.args + function.args.kwonlyargs
    given |= {one.arg for one in parameters[1:]}
    return bool(used & given - {"context"})


def _query_reads(
    sql: str, location: SourceLocation, context: FileContext, python: PythonSource
) -> list[ModelName]:
    source = SourceText(location.path, sql)
    expander = Expander(source, context.scope(python.sqlmesh_dialect or "spark"))
    with placed(location):
        return list(render(expander, expander.expand(0, len(sql)), context.names).reads)
