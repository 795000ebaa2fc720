"""Writes a query with one reference to a table replaced by only the table's changed rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Literal

from sqlglot import exp

from vde_dagster.semantics.refresh.affected import CHANGED
from vde_dagster.semantics.refresh.qualified import Qualified, reading_number, write_spark_sql
from vde_dagster.sql.outline import replace_qualify

_ROWS = "vde_rows_6c1f0a58d4_"
_PLACE = re.compile(rf"\b{_ROWS}(\d+)_")
"""Pattern of placeholder names, each of which is replaced with a query of a table's rows."""
State = Literal["earlier", "now", "changed", "signed"]
"""Rows of a table that a step reads.

`changed`: added or removed rows, each at least once. `signed`: each of these rows as often as it
was added or removed, with 1 or -1 in the column `vde_sign`.
"""
Relation = Callable[[str, State], str]
"""Returns a query of a table's rows in a state, given the table's name in the schema."""


def write_step(
    tree: exp.Query, query: Qualified, reading: int, relation: Relation, changed: State
) -> str:
    """Write the query for the changes of one table as Spark SQL.

    If the query refers to several changed tables, references with a lower number than `reading` use
    the rows after the changes, and references with a higher number the rows before the changes.

    Args:
        tree: The query; the changed table is named `vde_changed`.
        reading: Number of the reference to the changed table.
        changed: The state to read for `vde_changed`.
    """
    tree = tree.copy()
    rows: list[str] = []
    for table in list(tree.find_all(exp.Table)):
        number = reading if table.name == CHANGED else reading_number(table.name)
        state: State = "now" if number < reading else "earlier"
        state = changed if table.name == CHANGED else state
        table.set("this", exp.to_identifier(f"{_ROWS}{len(rows)}_"))
        rows.append(relation(query.readings[number], state))
    text = write_spark_sql(tree)
    if tree.find(exp.Qualify):
        text = replace_qualify(text)
    return _PLACE.sub(lambda match: f"({rows[int(match[1])]})", text)
