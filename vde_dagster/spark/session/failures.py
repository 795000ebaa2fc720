"""Conversion of Spark's exceptions to a message of one line, with the place in query or code."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from vde_dagster.base.failures import NO_SPACE_HINT, QueryPlace, is_no_space, path_of_project_frame
from vde_dagster.errors import ExecutionError, SourceLocation, VdeError, shortened
from vde_dagster.spark.session.jvm_failure import MEMORY_HINT, ended_error

_NO_TABLE = "TABLE_OR_VIEW_NOT_FOUND"
_HINTS = {
    _NO_TABLE: "check the table's name, or plan and apply its model first",
    "UNRESOLVED_COLUMN": "compare its name with the columns of the tables in the query",
    "DIVIDE_BY_ZERO": "use try_divide, or nullif on the divisor",
    "CAST_INVALID_INPUT": "use try_cast where bad values should become NULL",
    "CAST_OVERFLOW": "declare a wider type for the column",
    "NUMERIC_VALUE_OUT_OF_RANGE": "declare a wider type for the column",
    "MISSING_AGGREGATION": "add the column to GROUP BY, or aggregate it",
    "AMBIGUOUS_REFERENCE": "write `table.column`, or give the columns different names",
    "OutOfMemoryError": MEMORY_HINT,
    "JVM_ATTRIBUTE_NOT_SUPPORTED": "set warm = false under [tool.vde.spark], and a master other "
    "than sc://…: Spark Connect supports DataFrames, but neither SparkContext nor RDDs",
}


_OUT_OF_MEMORY = re.compile(
    r"MemoryError\b|exceeding (?:\w+ )*memory limits"
    r"|\b(?:exit status|(?:exited with|exit)(?: exit)? code):? (?:137|52)\b",
    re.I,
)
"""Messages of Java, Python and Spark's executors about a lack of memory.

Exit code 137 means that the process was killed, 52 that Spark ran out of memory.
"""
_WRAPPED = "SELECT * FROM (\n{}\n)"
_SHOWN_PLACE = re.compile(r"== SQL \(line (\d+), position (\d+)\) ==\n(.*)\n( *)(\^+)")
_PLACE = re.compile(r"\bline (\d+),? pos (\d+)")
_EXPRESSION = re.compile(r'expression "([^"]+)" is based on')
_CAST = re.compile(r"CAST\(`((?:[^`]|``)*)` AS ", re.IGNORECASE)
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_THROWN = re.compile(r"^(?:Caused by: )?([\w$]+(?:\.[\w$]+)+)(?:: (.*))?$", re.MULTILINE)
_CONNECT_MESSAGE = re.compile(r"(?:\(([\w.$]+)\) )?(.*?)(?:\n\nJVM stacktrace:.*)?", re.DOTALL)
_TRACEBACK = "Traceback (most recent call last)"


def hush_pyspark() -> None:
    """Stop PySpark and Py4J from logging every failed statement."""
    # Py4J logs to the root logger when the JVM ends amid a command.
    logging.getLogger().addFilter(_is_not_from_py4j)
    # Our exceptions contain the stack of a failed statement.
    # Connect logs sessions that ended before their last response was acknowledged.
    contexts = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")
    for name in (*contexts, "pyspark.sql.connect.logging"):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def _is_not_from_py4j(record: logging.LogRecord) -> bool:
    return record.module != "java_gateway"


def as_subquery(sql: str) -> str:
    """Wrap a query as a subquery, so that Spark refuses a statement that writes."""
    return _WRAPPED.format(sql.rstrip().rstrip(";"))


def execution_error(error: Exception, what: str, query: str | None = None) -> VdeError:
    """Convert an exception of Spark, Iceberg or a model's code to an error with a message and hint.

    Args:
        what: The failed work, for example `marts.sales 2024-01-01T00:00:00Z/2024-01-02T00:00:00Z`.
        query: The query that was run, directly or as a subquery.
    """
    if isinstance(error, VdeError):
        return error
    ended = ended_error(error)
    if ended is not None:
        return ended
    cause = cause_line(error)
    hint = next((hint for key, hint in _HINTS.items() if key in cause), None)
    if is_no_space(error) or any(is_no_space(OSError(text)) for _, text in java_causes(error)):
        hint = NO_SPACE_HINT
        if not is_no_space(OSError(cause)):
            cause = f"no space left on device: {cause}"
    raised = ExecutionError(f"{what} failed: {cause}", hint=hint, location=project_frame(error))
    raised.cause = cause
    chain = [(type(error).__name__, str(error)), *java_causes(error)]
    raised.lacks_memory = any(_OUT_OF_MEMORY.search(f"{kind}: {text}") for kind, text in chain)
    if query is not None:
        raised.place = query_place(str(error), query, _failing_words(error))
    return raised


@contextmanager
def translated_errors(
    what: str, query: str | None = None, location: SourceLocation | None = None
) -> Iterator[None]:
    """Convert the exceptions of a block by `execution_error`.

    Args:
        location: The error's location if the exception has no place in the project.
    """
    try:
        yield
    except Exception as error:
        raised = execution_error(error, what, query)
        raised.location = raised.location or location
        if raised is error:
            raise
        raise raised from error


def is_missing_table(error: VdeError, table: str) -> bool:
    """Return whether a query failed because a table (quoted `schema.name`) is missing."""
    return f"[{_NO_TABLE}]" in error.message and table in error.message


def query_place(text: str, query: str, words: str = "") -> QueryPlace | None:
    """Find the place in a query that Spark's error message points to.

    If the cause is a cast that vde added around the query, the place is the column of the cast.

    Args:
        query: The query, which Spark may have received as a subquery.
        words: The offending words, if the exception contains them.
    """
    shown = _SHOWN_PLACE.search(text)
    if shown:
        line, position = int(shown[1]), int(shown[2]) - 1
        words = words or shown[3][len(shown[4]) :][: len(shown[5])].removesuffix("...")
    else:
        found = _PLACE.search(text)
        if found is None:
            return _find_quoted_expression(text, query)
        line, position = int(found[1]), int(found[2])
    before = _WRAPPED.index("{}")
    for given, begin in ((query, 0), (as_subquery(query), before)):
        offset = _character_offset(given, line, position)
        if offset is None or not begin <= offset < begin + len(query):
            continue
        # A cast around the query has a separate text and line 1, so the words decide.
        if given.startswith(words, offset):
            return QueryPlace(query, offset - begin, words)
    column = column_of_cast(words)
    return QueryPlace(query, None, column=column) if column else None


def column_of_cast(words: str) -> str | None:
    """Return the column's name from words such as ``CAST(`x` AS double)``, or None for other words.

    >>> column_of_cast("CAST(`x` AS double) AS `x`")
    'x'
    """
    cast = _CAST.match(words)
    return cast[1].replace("``", "`") if cast else None


def _find_quoted_expression(text: str, query: str) -> QueryPlace | None:
    """Find the expression that an error message quotes, if the message has no position."""
    named = _EXPRESSION.search(text)
    words = named[1] if named else ""
    found = re.search(rf"(?<!\w){re.escape(words)}(?!\w)", query, re.IGNORECASE)
    return QueryPlace(query, found.start(), words) if words and found else None


def _character_offset(text: str, line: int, position: int) -> int | None:
    lines = text.splitlines(keepends=True)
    if line > len(lines) or position > len(lines[line - 1]):
        return None
    return sum(map(len, lines[: line - 1])) + position


def _failing_words(error: BaseException) -> str:
    try:
        contexts = error.getQueryContext()  # type: ignore[attr-defined]
        return str(contexts[0].fragment()) if contexts else ""
    except Exception:  # It calls the JVM, and has no words for calls of DataFrames.
        return ""


def project_frame(error: BaseException) -> SourceLocation | None:
    """Return the last file and line of the project's Python code in an exception's traceback."""
    text = str(error)  # It contains the traceback of one of Spark's workers.
    if _TRACEBACK in text:
        frames = _FRAME.findall(text[text.rindex(_TRACEBACK) :])
    else:
        frames = [(f.filename, f.lineno) for f in traceback.extract_tb(error.__traceback__)]
    for name, line in reversed(frames):
        path = path_of_project_frame(name)
        if path is not None:
            return SourceLocation(Path(path), int(line))
    return None


def whole_stack(error: BaseException) -> str:
    """Return an exception's Python traceback and Java stacks as text."""
    parts = ["".join(traceback.format_exception(error))]
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        stack = getattr(current, "_stackTrace", None)
        if isinstance(stack, str) and stack not in parts[0]:
            parts.append(f"Java's stack of {type(current).__name__}:\n{stack}")
        current = current.__cause__ or current.__context__
    return "\n".join(parts)


def is_spark_failure(error: BaseException) -> bool:
    """Return whether Spark raised an error, in this process's JVM or on a Connect server."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    # PySpark converts only some of Java's exceptions; Spark Connect has one class for the others.
    return isinstance(error, PySparkException | Py4JJavaError)


def cause_line(error: BaseException) -> str:
    """Return the most informative line of an exception, such as the message of its Java cause."""
    java = java_causes(error)
    text = str(error)
    if _TRACEBACK in text:  # A Python worker sent it, of a failing UDF.
        lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
        raised = next((line for line in lines if line and not line.startswith((" ", "\t"))), None)
        if raised:
            return _first_line(raised)
    if java and "[" not in _first_line(text):
        name, message = next(((n, m) for n, m in reversed(java) if m), java[-1])
        simple = name.rpartition(".")[2]
        return _first_line(f"{simple}: {message}" if not message.startswith("[") else message)
    line = _first_line(text)
    if not type(error).__module__.startswith(("pyspark.", "py4j.")):
        return f"{type(error).__name__}: {line}" if line else type(error).__name__
    getter = getattr(error, "getCondition", None)
    condition = getter() if callable(getter) else None
    return f"[{condition}] {line}" if condition and condition not in line else line


def java_causes(error: BaseException) -> list[tuple[str, str]]:
    """Return class and message of each Java exception in the chain of causes, outermost first."""
    stack = getattr(error, "getStackTrace", None)
    if callable(stack):  # From Spark Connect, where Java's exceptions arrive as text.
        return _parse_causes(str(error), stack() or "")
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    found: list[tuple[str, str]] = []
    while java is not None and len(found) < 20:
        found.append((java.getClass().getName(), java.getMessage() or ""))
        java = java.getCause()
    return found


def _parse_causes(text: str, stack: str) -> list[tuple[str, str]]:
    found = [(one[1], one[2] or "") for one in _THROWN.finditer(stack)]
    chain = _CONNECT_MESSAGE.fullmatch(text)
    assert chain is not None
    if found:
        return [(found[0][0], found[0][1] or chain[2]), *found[1:]]
    return [(chain[1], chain[2])] if chain[1] else []


def has_java_cause(error: BaseException, *classes: str) -> bool:
    """Return whether an error has a Java cause of one of the classes, given by simple names."""
    return any(name.rpartition(".")[2] in classes for name, _ in java_causes(error))


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    line = re.sub(r"\s*SQLSTATE: \w+.*$", "", line)
    return shortened(line, 500)
