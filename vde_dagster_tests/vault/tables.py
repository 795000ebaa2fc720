"""Tables of a vault as cases in YAML: what is there, what is loaded, what is there then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from vde_dagster.project.kinds import Kind
from vde_dagster.project.properties.header import Value
from vde_dagster.project.properties.model_properties import read_kind
from vde_dagster.sql.scanner import SourceText, tokens_of
from vde_dagster_tests.yaml_files import read_yaml

Row = Sequence[Any]
CASE = "in_case"
"""A column that keeps the rows of several cases apart in one table."""


@dataclass(frozen=True)
class Case:
    """One table's story.

    Args:
        refused: The words of the mistake that its last load is; None where none is.
    """

    name: str
    loads: list[list[Row]]
    expected: list[Row]
    refused: str | None = None


@dataclass(frozen=True)
class Table:
    """A table's definition, and what is told of it.

    Args:
        kind: As a header writes it.
        columns: Spark SQL type by column.
        shown: Of columns that the kind adds: those that are expected, too.
        alone: Whether a case's rows say something of another's, in one table.
    """

    name: str
    kind: str
    columns: Mapping[str, str]
    cases: tuple[Case, ...]
    shown: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False

    @property
    def all_shown(self) -> Table:
        """The table with the columns that rows are expected to have."""
        return replace(self, columns={**self.columns, **self.shown})

    def values(self, rows: Sequence[Row]) -> str:
        """Write rows as a query."""
        return values_of(self.columns, rows)


def values_of(types: Mapping[str, str], rows: Sequence[Row]) -> str:
    """Write rows as a query, of one relation: Spark runs a task for each part of a UNION.

    Args:
        types: Spark SQL type by column.
    """
    texts = (
        ["CAST(NULL AS STRING)" if value is None else _literal(str(value)) for value in row]
        for row in rows or [[None] * len(types)]
    )
    listed = ", ".join(f"({', '.join(row)})" for row in texts)
    names = ", ".join(f"c{at}" for at in range(len(types)))
    casts = ", ".join(f"CAST(c{at} AS {types[name]}) AS {name}" for at, name in enumerate(types))
    nothing = "" if rows else " WHERE 1 = 0"
    return f"SELECT {casts} FROM (VALUES {listed}) AS given({names}){nothing}"


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


@cache
def _as_duckdb(sql: str) -> str:
    (there,) = sqlglot.transpile(sql, read="spark", write="duckdb")
    return there


def run(database: duckdb.DuckDBPyConnection, sql: str) -> list[Any]:
    """Run Spark SQL on DuckDB; return its rows."""
    return database.execute(_as_duckdb(sql)).fetchall()


def read_tables(name: str) -> list[Table]:
    """Read a file of this folder."""
    return [
        Table(
            item["table"],
            item["kind"],
            item["columns"],
            tuple(
                Case(
                    case["name"],
                    [*([case["given"]] if "given" in case else []), *case["loads"]],
                    case["expected"],
                    case.get("refused"),
                )
                for case in item["cases"]
            ),
            item.get("shown", {}),
            item.get("alone", False),
        )
        for item in read_yaml(Path(__file__).with_name(name))
    ]


def kind_of(text: str) -> Kind:
    """Read a kind as it stands in a header."""
    source = SourceText(Path("models/m.sql"), text)
    return read_kind(Value(source, "kind", tuple(tokens_of(source)), 0))
