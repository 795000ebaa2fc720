"""Settings and statements of a session that can change the meaning of a query."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vde_dagster.semantics import spark_functions
from vde_dagster.sql.spark_settings import may_break_rules, read_settings

_FUNCTION = re.compile(
    r"\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:TEMPORARY|TEMP)\s+FUNCTION\s+(?:IF\s+NOT\s+EXISTS\s+)?"
    r"`?(\w+)`?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Session:
    """Assumptions about the Spark session that runs a query.

    Args:
        has_zoned_timestamps: Whether TIMESTAMP certainly has a time zone, which is the default
            (`spark.sql.timestampType`).
        unlike: A setting or statement that may change queries' meaning; then texts are compared.
    """

    has_zoned_timestamps: bool
    unlike: str | None = None


UNKNOWN = Session(has_zoned_timestamps=False)
"""A session about which nothing is assumed except Spark's default language."""


def read_session(settings: Iterable[tuple[str, str]], statements: Iterable[str]) -> Session:
    """Return the session that a project's settings and a model's statements create."""
    statements = tuple(statements)
    last: dict[str, str | None] = {**dict(settings), **dict(read_settings(statements))}
    for key, value in last.items():
        if may_break_rules(key, value):
            return Session(False, f"{key} = {value}" if value is not None else key)
    for statement in statements:
        made = _FUNCTION.match(statement)
        if made is not None and spark_functions.function_kind(made[1].lower()) is not None:
            return Session(False, f"a function with the name of a Spark function, {made[1]}")
    return Session(has_zoned_timestamps=True)
