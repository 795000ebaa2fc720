"""Decorators of a project's Python files, and the collector of decorated functions.

A decorator only adds the function to the collector of the current load, so a module can be executed
by several threads, or outside of a load.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class PythonModelDefinition:
    """A function with the decorator `@model(…)`, and the decorator's arguments.

    Args:
        name: The model's name as written.
        line: Line of the decorator in its file (1-based).
        for_sqlmesh: Whether the decorator was imported from SQLMesh; then SQLMesh's conventions
            apply.
    """

    name: str
    options: dict[str, Any]
    function: Callable[..., Any]
    line: int
    for_sqlmesh: bool = False


@dataclass(slots=True)
class Collector:
    """The functions that a file and its project imports decorate, in the order of execution."""

    macros: dict[str, Callable[..., Any]] = field(default_factory=dict)
    models: list[PythonModelDefinition] = field(default_factory=list)
    signals: dict[str, Callable[..., Any]] = field(default_factory=dict)
    materializations: dict[str, Callable[..., Any]] = field(default_factory=dict)


_current: ContextVar[Collector | None] = ContextVar("vde_collector", default=None)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Collect the functions that are decorated while the block runs, in this thread."""
    collector = Collector()
    token = _current.set(collector)
    try:
        yield collector
    finally:
        _current.reset(token)


def macro(name: str | None = None, *, metadata_only: bool = False) -> Callable[[F], F]:
    """Make a Python function a macro that queries call as `@name(…)`.

    The function gets the evaluator first, then the call's arguments as SQLGlot expressions (as
    Python values if its parameters are annotated `int`, `float`, `bool`, `str`, `list` or `tuple`),
    and returns SQL text, an expression, a list of them, or None for nothing.

    Args:
        name: The function's name by default.
        metadata_only: SQLMesh's argument, without effect: a version depends on a macro's result,
            not on its code.
    """
    return _register("macros", name, "write @macro() with parentheses")


def signal(name: str | None = None) -> Callable[[F], F]:
    """Make a Python function a signal, which models name in `signals (…)`.

    The function's first argument is a batch: a sequence of missing intervals without gaps between
    them, each a pair of instants (UTC, half-open). The function gets the call's arguments by name,
    and `execution_time` (UTC), `environment` and `model` if it has parameters of these names. It
    returns true or false for the whole batch, or the intervals of the batch that may be filled.
    """
    return _register("signals", name, "write @signal() with parentheses")


def materialization(name: str) -> Callable[[F], F]:
    """Make a Python function the writer of tables of kind CUSTOM.

    It is called as `write(rows, target)`, with the rows as a Spark DataFrame, and makes one commit
    on `target` (see `CustomTarget`). Models name it in `kind CUSTOM (materialization 'name')`.
    """
    return _register("materializations", name, "write @materialization('name') with a name")


def _register(where: str, name: str | None, hint: str) -> Callable[[F], F]:
    if callable(name):
        raise TypeError(hint)

    def decorate(function: F) -> F:
        note(where, name or function.__name__, function)
        return function

    return decorate


def model(
    name: str = "",
    *,
    kind: Any = None,
    columns: dict[str, str] | None = None,
    depends_on: Sequence[str] = (),
    **options: Any,
) -> Callable[[F], F]:
    """Make a Python function a model.

    The function is called as `execute(context, start, end, execution_time, **kwargs)` (it may take
    fewer arguments) and returns a Spark or pandas DataFrame.

    Args:
        name: `namespace.name`. It can be left out if names are derived from paths.
        kind: A kind's name, a dictionary with `name` and the kind's properties, or a `Kind`;
            FULL by default.
        columns: Spark SQL type by column, in the output's order.
        depends_on: Tables that the function reads in addition to those in `context.table("…")`.
        options: `cron`, `start`, `description`, `audits` and the other properties of a model.
    """
    line = sys._getframe(1).f_lineno
    given = {"kind": kind, "columns": columns or {}, "depends_on": tuple(depends_on), **options}
    return noting_model(name, given, line)


def noting_model(
    name: str, given: dict[str, Any], line: int, *, for_sqlmesh: bool = False
) -> Callable[[F], F]:
    """Return a decorator that registers a function as a model."""

    def decorate(function: F) -> F:
        collector = _current.get()
        if collector is not None:
            definition = PythonModelDefinition(name, given, function, line, for_sqlmesh)
            collector.models.append(definition)
        return function

    return decorate


def note(where: str, name: str, code: Callable[..., Any]) -> None:
    """Add a decorated function to the collector of the current load, if any.

    For example, `note("macros", "Daily", f)` sets `collector.macros["daily"] = f`.
    """
    collector = _current.get()
    if collector is not None:
        getattr(collector, where)[name.lower()] = code
