"""Spark's exceptions as one clear line."""

from __future__ import annotations

import re

from vde_dagster.errors import ExecutionError, VdeError

_HINTS = {
    "TABLE_OR_VIEW_NOT_FOUND": "check the table's name, or plan and apply its model first",
    "UNRESOLVED_COLUMN": "check its name against the columns of the tables that are read",
    "DIVIDE_BY_ZERO": "use try_divide, or nullif on the divisor",
    "CAST_INVALID_INPUT": "use try_cast where bad values should become NULL",
    "CAST_OVERFLOW": "declare a wider type for the column",
    "NUMERIC_VALUE_OUT_OF_RANGE": "declare a wider type for the column",
    "MISSING_AGGREGATION": "add the column to GROUP BY, or aggregate it",
    "AMBIGUOUS_REFERENCE": "give the columns different names",
    "OutOfMemoryError": "give Spark more memory: spark.driver.memory under [tool.vde.spark.config]",
}


def execution_error(error: Exception, what: str) -> VdeError:
    """Return what to raise for an exception of Spark, of Iceberg or of a model's own code.

    Args:
        error: The exception; it becomes the cause of the one that is raised.
        what: What failed, for example `marts.sales 2024-01-01T00:00:00Z/2024-01-02T00:00:00Z`.
    """
    if isinstance(error, VdeError):
        return error
    cause = cause_line(error)
    hint = next((hint for key, hint in _HINTS.items() if key in cause), None)
    return ExecutionError(f"{what} failed: {cause}", hint=hint)


def cause_line(error: BaseException) -> str:
    """Return the one line that says most about an exception: never a Java stack trace."""
    java = java_causes(error)
    text = str(error)
    python = _python_worker_error(text)
    if python:
        return python
    if java and "[" not in _first_line(text):
        name, message = next(((n, m) for n, m in reversed(java) if m), (java[-1][0], java[-1][1]))
        simple = name.rpartition(".")[2]
        return _first_line(f"{simple}: {message}" if not message.startswith("[") else message)
    line = _first_line(text)
    condition = _condition(error)
    if condition and condition not in line:
        line = f"[{condition}] {line}"
    if not _is_spark_error(error):
        line = f"{type(error).__name__}: {line}" if line else type(error).__name__
    return line


def java_causes(error: BaseException) -> list[tuple[str, str]]:
    """Return (class, message) of the Java exceptions behind a Python one, outermost first."""
    java = getattr(error, "java_exception", None)
    if java is None:
        java = getattr(error, "_origin", None)
    found: list[tuple[str, str]] = []
    while java is not None and len(found) < 20:
        found.append((java.getClass().getName(), java.getMessage() or ""))
        java = java.getCause()
    return found


def has_java_cause(error: BaseException, *classes: str) -> bool:
    """Say whether a Java exception of one of the (simple or full) class names is behind it."""
    return any(
        name in classes or name.rpartition(".")[2] in classes for name, _ in java_causes(error)
    )


def _is_spark_error(error: BaseException) -> bool:
    return type(error).__module__.startswith(("pyspark.", "py4j."))


def _condition(error: BaseException) -> str | None:
    getter = getattr(error, "getCondition", None)
    return getter() if callable(getter) and _is_spark_error(error) else None


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"\s*SQLSTATE: \w+.*$", "", line)
    return line if len(line) <= 500 else line[:497] + "…"


def _python_worker_error(text: str) -> str | None:
    """Return the last line of a traceback that a Python worker sent (a failing UDF)."""
    if "Traceback (most recent call last)" not in text:
        return None
    lines = text[text.rindex("Traceback (most recent call last)") :].splitlines()[1:]
    for line in lines:
        if line and not line.startswith((" ", "\t")):
            return _first_line(line)
    return None
