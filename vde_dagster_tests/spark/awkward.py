"""Values at the edges of every type of Spark, and arguments made of them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from vde_dagster_tests.spark.outcomes import outcomes

TIMES = {
    "date": """
        DATE '2020-02-29' | DATE '0001-01-01' | DATE '9999-12-31' | DATE '1582-10-15'
        | DATE '1969-12-31' | DATE '2021-01-03' | CAST(NULL AS DATE)
    """,
    "timestamp": """
        TIMESTAMP '2021-03-14 02:30:00' | TIMESTAMP '2021-11-07 05:30:00.123456 UTC'
        | TIMESTAMP '0001-01-01 00:00:00' | TIMESTAMP '9999-12-31 23:59:59.999999'
        | TIMESTAMP '1883-11-18 12:03:57.999999' | TIMESTAMP '1986-01-01 00:07:00'
        | TIMESTAMP '1969-12-31 23:59:59.999999 UTC' | CAST(NULL AS TIMESTAMP)
    """,
    "timestamp_ntz": """
        TIMESTAMP_NTZ '2021-03-14 02:30:00' | TIMESTAMP_NTZ '0001-01-01 00:00:00'
        | TIMESTAMP_NTZ '9999-12-31 23:59:59.999999' | CAST(NULL AS TIMESTAMP_NTZ)
    """,
}

CLOCK = "TIME '00:00:00' | TIME '23:59:59.999999' | TIME '12:34:56.7' | CAST(NULL AS TIME)"

INTERVALS = {
    "interval year to month": """
        INTERVAL '-178956970-8' YEAR TO MONTH | INTERVAL '13' MONTH
        | INTERVAL '-0-11' YEAR TO MONTH | INTERVAL '2-3' YEAR TO MONTH
        | CAST(NULL AS INTERVAL YEAR TO MONTH)
    """,
    "interval day to second": """
        INTERVAL '-1 02:03:04.567891' DAY TO SECOND
        | INTERVAL '106751991 04:00:54.775807' DAY TO SECOND | INTERVAL '90' MINUTE
        | INTERVAL '400' DAY | CAST(NULL AS INTERVAL DAY TO SECOND)
    """,
    "interval": "make_interval(1, 2, 3, 4, 5, 6, 7.008009) | CAST(NULL AS INTERVAL)",
}

_POOLS = {
    **TIMES,
    **INTERVALS,
    "time": CLOCK,
    "boolean": "true | false | CAST(NULL AS BOOLEAN)",
    "byte": "-128Y | 127Y | 0Y | CAST(NULL AS TINYINT)",
    "short": "-32768S | 32767S | 0S | CAST(NULL AS SMALLINT)",
    "integer": "0 | 1 | -1 | 3 | -2147483648 | 2147483647 | CAST(NULL AS INT)",
    "long": "0L | -1L | 65L | -9223372036854775808L | 9223372036854775807L | CAST(NULL AS BIGINT)",
    "float": """
        0.0F | FLOAT('-0.0') | FLOAT('NaN') | FLOAT('Infinity') | FLOAT('-Infinity') | 3.4028235E38F
        | 1.4E-45F | -1.5F | CAST(NULL AS FLOAT)
    """,
    "double": """
        0.0D | DOUBLE('-0.0') | DOUBLE('NaN') | DOUBLE('Infinity') | DOUBLE('-Infinity')
        | 1.7976931348623157E308D | 4.9E-324D | -2.5D | 9.007199254740993E15D | CAST(NULL AS DOUBLE)
    """,
    "decimal": """
        0BD | -0.05BD | 2.5BD | 99999999999999999999999999999999999999BD
        | 0.00000000000000000000000000000000000001BD | CAST(NULL AS DECIMAL(10, 2))
    """,
    "string": r"""
        '' | ' ' | 'a' | ' Straße ' | 'İstanbul' | '😀e\u0301' | '\u0000' | '%' | '_\\' | '0' | '-1'
        | '1e3' | ' 7 ' | 'true' | 'NaN' | '2020-02-29' | '2021-03-14 02:30:00' | '12:34:56'
        | '+292278-01-01' | 'abc' | '.*' | '(' | CAST(NULL AS STRING)
    """,
    "binary": "X'' | X'00FF' | X'C3' | CAST(NULL AS BINARY)",
    "array": """
        array() | array(1, NULL, 3) | array(CAST(NULL AS INT)) | array(3, 1, 2) | array('b', 'a')
        | array(DOUBLE('NaN'), DOUBLE('-0.0')) | array(array(1), array()) | CAST(NULL AS ARRAY<INT>)
    """,
    "map": """
        map() | map('a', 1, 'b', NULL) | map(1, array()) | CAST(NULL AS MAP<STRING, INT>)
    """,
    "struct": "struct(1, NULL) | named_struct('a', 1, 'B', 'x') | CAST(NULL AS STRUCT<a: INT>)",
    "variant": "parse_json('{\"a\": [1, null]}') | parse_json('1.50') | CAST(NULL AS VARIANT)",
    "void": "NULL",
}


def pool(text: str) -> list[str]:
    """The values of a text that separates them by bars."""
    return [value.strip() for value in text.split(" | ")]


POOLS = {kind: pool(re.sub(r"\n\s*", " ", text)) for kind, text in _POOLS.items()}
"""Values by the name of the type, NULL among them."""

EVERY_VALUE = [value for values in POOLS.values() for value in values]


def argument_lists(
    session: Any, name: str, examples: Sequence[str], more: Sequence[tuple[str, ...]] = ()
) -> list[tuple[str, ...]]:
    """Arguments for a function: those of its examples, with each one varied by its type.

    Args:
        session: A Spark session, which says what types the arguments have.
        name: The function.
        examples: Statements that call it; calls that read columns are left out.
        more: Further arguments to vary.
    """
    calls = [*more, *(call for example in examples for call in find_calls(example, name))]
    known = outcomes(session, [a for call in calls for a in call if "->" not in a])
    lists: dict[tuple[str, ...], None] = {}
    for call in calls:
        # A lambda has no type of its own, and stays as it is.
        varied = [(i, known[a]) for i, a in enumerate(call) if "->" not in a]
        if any(isinstance(result, str) for _, result in varied):
            continue
        lists[call] = None
        for i, result in varied:
            for value in POOLS[type_name(result[0])]:
                lists[(*call[:i], value, *call[i + 1 :])] = None
        lists[tuple("NULL" for _ in call)] = None
    return list(lists)


def type_name(kind: str) -> str:
    """The pool of a type that is given as JSON."""
    described = json.loads(kind)
    if isinstance(described, dict):
        return {"udt": "void"}.get(described["type"], str(described["type"]))
    name = str(described).partition("(")[0]
    if name.startswith("interval "):
        months = "year" in name or "month" in name
        return "interval year to month" if months else "interval day to second"
    return name.split()[0]  # without a collation


def find_calls(text: str, name: str) -> Iterator[tuple[str, ...]]:
    """Find the calls of a function in a text, each as the texts of its arguments."""
    for match in re.finditer(rf"(?<![\w.`]){re.escape(name)}\(", text, re.IGNORECASE):
        arguments = _arguments(text[match.end() :])
        if arguments is not None:
            yield tuple(arguments)


def _arguments(text: str) -> list[str] | None:
    """Split what follows an opening bracket at its commas, up to the bracket that closes it."""
    arguments, start, depth = [], 0, 0
    for match in re.finditer(r"'(?:[^'\\]|\\.)*'|[(\[{]|[)\]}]|,", text):
        token = match[0]
        if token in "([{":
            depth += 1
        elif token in ")]}" and depth:
            depth -= 1
        elif depth == 0 and token[0] in ",)":
            arguments.append(text[start : match.start()].strip())
            start = match.end()
            if token == ")":
                return [] if arguments == [""] else arguments
    return None
