"""The statements around a model's query, as Spark runs them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from vde_dagster.planning.interval import Interval
from vde_dagster.planning.render import Relation, replace_tables
from vde_dagster.project.macros.this_model import this_model_values
from vde_dagster.project.macros.time_variables import (
    substitute_time_variables,
    time_variable_values,
)
from vde_dagster.sql.scanner import SourceText
from vde_dagster.sql.temporary_views import temporary_view

_OF_SESSION = re.compile(
    r"(SET|RESET|USE|DECLARE|CREATE\s+(OR\s+REPLACE\s+)?(TEMPORARY|TEMP)\s+(FUNCTION|VIEW))\b",
    re.IGNORECASE,
)


def render_statements(
    statements: Sequence[str],
    relation_of: Relation,
    this_model: str,
    interval: Interval,
    execution_time: datetime,
) -> tuple[str, ...]:
    """Replace the variables of statements, and what temporary views read by tables.

    Args:
        statements: A model's statements.
        relation_of: What a table's name stands for.
        this_model: What `@this_model` stands for, quoted.
        interval: The half-open UTC range that the time variables describe.
        execution_time: What `@execution_ts` and its like say (UTC).
    """
    if not statements:
        return ()
    values = time_variable_values(interval.start, interval.end, execution_time)
    values |= this_model_values(this_model)
    return tuple(
        _over_tables(substitute_time_variables(one, values), relation_of) for one in statements
    )


def only_of_session(statement: str) -> bool:
    """Say whether a statement changes nothing but the session that it runs in.

    >>> only_of_session("SET spark.sql.ansi.enabled = false")
    True
    >>> only_of_session("INSERT INTO log SELECT 1")
    False
    """
    return bool(_OF_SESSION.match(statement))


def _over_tables(statement: str, relation_of: Relation) -> str:
    view = temporary_view(SourceText(Path("statement"), statement))
    if view is None or view.start is None:
        return statement
    query = replace_tables(statement[view.start :], relation_of)
    return statement[: view.start] + query
