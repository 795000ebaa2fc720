"""Unit tests of models, as values."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation

if TYPE_CHECKING:
    from vde_dagster.project.model import Model


@dataclass(frozen=True, slots=True)
class TestTable:
    """Rows of a parent, or rows that a query has to return.

    Args:
        columns: Column names in the order of first mention.
        rows: Values per row in that order; None where a row does not mention a column.
        types: Declared Spark SQL types by column.
        partial: Whether the model may return more columns than these.
        query: Spark SQL that gives the rows, instead of `rows`.
    """

    __test__ = False

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    types: tuple[tuple[str, str], ...] = ()
    partial: bool = False
    query: str | None = None


@dataclass(frozen=True, slots=True)
class UnitTest:
    """One test: the rows that a model makes of given rows.

    Args:
        name: The test's name.
        model: The tested model.
        location: Where it is written.
        inputs: Rows by parent.
        expected: The rows of the model's query, or None when only CTEs are checked.
        ctes: Rows by common table expression of the query.
        start: First instant for the time variables (UTC), or None.
        end: Their end (UTC, exclusive), or None.
        execution_time: What `@execution_ts` and its like say (UTC), or None.
        variables: Values that override the settings' variables.
        description: Text for people.
        tested: The model as it is with these variables, or None where there are none, or it was
            not read with them; see `loading.with_variables`.
    """

    name: str
    model: ModelName
    location: SourceLocation
    inputs: tuple[tuple[ModelName, TestTable], ...]
    expected: TestTable | None
    ctes: tuple[tuple[str, TestTable], ...] = ()
    start: datetime | None = None
    end: datetime | None = None
    execution_time: datetime | None = None
    variables: tuple[tuple[str, Any], ...] = ()
    description: str | None = None
    tested: Model | None = None
