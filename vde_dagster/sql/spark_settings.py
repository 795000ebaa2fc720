"""Settings of Spark sessions that can change the results of a query.

Versions compare queries by rules that hold for Spark's default settings. If a session has a setting
that may break a rule, its queries are opaque: they are compared as text. The lists cover every
setting of Spark 4.1, which `vde_dagster_tests/spark/test_spark_settings.py` verifies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from vde_dagster.base.texts import lines_by_key

PREFIX = "spark.sql."

_LISTS = Path(__file__).with_name("spark_settings.txt")


def _settings(name: str) -> tuple[str, ...]:
    lines = lines_by_key(_LISTS)[name]
    return tuple(PREFIX + word for line in lines for word in line.partition("\t")[2].split())


_WITHOUT_EFFECT = _settings("without effect")
"""Settings without effect on a query's result."""

_SAFE = _settings("safe")
"""Settings that may change results, but break no rule, whatever their value is.

They decide how data is read and written, or the result of functions that no rule rewrites. ANSI
mode and the time zone are included: every rule is tested in both modes and in three zones.
"""

_DEFAULTS = {
    name: key.removeprefix("default ")
    for key in lines_by_key(_LISTS)
    if key.startswith("default ")
    for name in _settings(key)
}
"""Settings of the language, with Spark's default values, which the rules assume."""

ASSUMED = {
    f"{PREFIX}{name}": value
    for name, value in {
        "ansi.enabled": "true",
        "ansi.doubleQuotedIdentifiers": "false",
        "ansi.enforceReservedKeywords": "false",
        "ansi.relationPrecedence": "false",
        "caseSensitive": "false",
        "decimalOperations.allowPrecisionLoss": "true",
        "parser.escapedStringLiterals": "false",
        "parser.quotedRegexColumnNames": "false",
        "timestampType": "TIMESTAMP_LTZ",
    }.items()
}
"""Language settings of every session. They override a cluster's; a project may override them."""

TIMESTAMP_TYPE = f"{PREFIX}timestampType"


def may_affect_results(key: str) -> bool:
    """Return whether a setting may affect results; true for unknown `spark.sql` settings."""
    return key.startswith(PREFIX) and not key.startswith(_WITHOUT_EFFECT)


def may_break_rules(key: str, value: str | None) -> bool:
    """Return whether a setting may break the rules that versions use to compare queries.

    >>> may_break_rules("spark.sql.caseSensitive", "true")
    True
    >>> may_break_rules("spark.sql.ansi.enabled", "false")
    False

    Args:
        value: The setting's value; None if it is unknown.
    """
    if not may_affect_results(key) or key.startswith(_SAFE):
        return False
    other = "false" if key.startswith(f"{PREFIX}legacy.") else None
    default = _DEFAULTS.get(key, other)
    return default is None or value is None or value.strip().lower() != default.lower()


_NAME = r"(?:`[^`]+`|[\w.\-]+)"
_SET = re.compile(rf"\s*SET\s+({_NAME})\s*=\s*(.*?)\s*;?\s*", re.IGNORECASE | re.DOTALL)
_SET_OTHER = re.compile(
    r"\s*SET\s+(TIME\s+ZONE|VAR|VARIABLE|CATALOG|PATH|-v|ROLE)\b", re.IGNORECASE
)
_RESET = re.compile(rf"\s*RESET(?:\s+({_NAME}))?\s*;?\s*", re.IGNORECASE)
_QUERY_OF_SETTING = re.compile(rf"\s*SET(?:\s+{_NAME})?\s*;?\s*", re.IGNORECASE)
_VALUE = re.compile(r"[\w.,:/+\- ]+")


def read_settings(statements: Iterable[str]) -> list[tuple[str, str | None]]:
    """Return (name, value) of each setting that SET and RESET statements change.

    RESET, and values with quotes or signs such as `$`, have the value None.

    >>> read_settings(["SET spark.sql.caseSensitive = true", "RESET spark.sql.ansi.enabled"])
    [('spark.sql.caseSensitive', 'true'), ('spark.sql.ansi.enabled', None)]
    """
    found: list[tuple[str, str | None]] = []
    for statement in statements:
        if _SET_OTHER.match(statement) or _QUERY_OF_SETTING.fullmatch(statement):
            continue
        made = _SET.fullmatch(statement)
        if made is not None:
            value = made[2].strip("`")
            found.append((made[1].strip("`"), value if _VALUE.fullmatch(value) else None))
            continue
        reset = _RESET.fullmatch(statement)
        if reset is not None:
            # The cluster's own value takes its place.
            found.append(((reset[1] or TIMESTAMP_TYPE).strip("`"), None))
        elif re.match(r"\s*(SET|RESET)\b", statement, re.IGNORECASE):
            found.append((PREFIX + "unknown", None))
    return found
