"""Spark's own account of its built-in functions: names, classes and documented examples."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

# Types and functions that are switched off in a fresh session.
EVERYTHING = {
    "spark.sql.timeType.enabled": "true",
    "spark.sql.geospatial.enabled": "true",
}

_EXAMPLE = re.compile(r"^\s*> (.*?)\s*$")
_CLOSED = re.compile(r";\s*$")


@dataclass(frozen=True)
class BuiltIn:
    """One built-in function.

    Args:
        name: As it is called; functions of a catalog without the catalog's name.
        class_name: The expression's class or its builder; empty for syntax and catalogs' functions.
        group: The chapter of Spark's documentation.
        examples: Documented statements, without their results, in order.
    """

    name: str
    class_name: str
    group: str
    examples: tuple[str, ...]


def built_ins(session: Any) -> dict[str, BuiltIn]:
    """List what ``SHOW FUNCTIONS`` lists, by name.

    Args:
        session: A Spark session; functions of its current catalog are listed too.
    """
    catalog = session._jsparkSession.sessionState().catalog()
    identifier = session._jvm.org.apache.spark.sql.catalyst.FunctionIdentifier
    found: dict[str, BuiltIn] = {}
    for (listed,) in session.sql("SHOW FUNCTIONS").collect():
        name = listed.rpartition(".")[2] if listed[0].isalpha() else listed
        if name != listed:
            found[name] = BuiltIn(name, "", "catalog", ())
            continue
        info = catalog.lookupFunctionInfo(identifier(listed))
        # The table functions of Spark 4.1 have their examples in the text of their usage.
        text = (info.getUsage() or "") + "\n" + (info.getExamples() or "")
        found[name] = BuiltIn(
            name, info.getClassName() or "", info.getGroup() or "", tuple(examples(text))
        )
    return found


def examples(text: str) -> Iterator[str]:
    """Read the statements of a documentation text: what follows ``>`` up to a semicolon."""
    open_lines: list[str] = []
    for line in text.splitlines():
        match = _EXAMPLE.match(line)
        if match:
            open_lines = [match[1]]
        elif open_lines:
            open_lines.append(line.strip())
        if open_lines and _CLOSED.search(open_lines[-1]):
            yield _CLOSED.sub("", " ".join(open_lines))
            open_lines = []


@contextmanager
def settings(session: Any, values: dict[str, str]) -> Iterator[None]:
    """Set properties of a session, and put back what was there."""
    before = {key: session.conf.get(key, None) for key in values}
    for key, value in values.items():
        session.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, value)


def analysed(session: Any, query: str, *, check: bool = True) -> Any:
    """Return the analysed plan of a query, without running it (a Java object).

    Args:
        session: A Spark session.
        query: A query or a command.
        check: Whether to fail if a part of it could not be resolved.
    """
    # The analyser asks the thread's active session for settings, whichever session it is of.
    session._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(session._jsparkSession)
    state = session._jsparkSession.sessionState()
    plan = state.sqlParser().parsePlan(query)
    if not check:
        return state.analyzer().execute(plan)
    return state.analyzer().executeAndCheck(plan, _tracker(session._jvm))


def _tracker(jvm: Any) -> Any:
    return jvm.org.apache.spark.sql.catalyst.QueryPlanningTracker(jvm.scala.Option.empty())
