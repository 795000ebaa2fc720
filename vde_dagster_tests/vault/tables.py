"""Tables of a vault as cases in YAML: what is there, what is loaded, what is there then."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from hashlib import md5
from itertools import permutations
from pathlib import Path
from typing import Any

import duckdb
import sqlglot

from vde_dagster.base.names import ModelName
from vde_dagster.project.kinds import Kind
from vde_dagster.project.macros.expansion import Expander
from vde_dagster.project.macros.known_columns import KnownColumns
from vde_dagster.project.macros.scope import MacroScope
from vde_dagster.project.properties.model_properties import read_kind
from vde_dagster.project.property_value import Value
from vde_dagster.project.table_names import TableNames
from vde_dagster.sql.scanner import SourceText, Token
from vde_dagster_tests.yaml_files import read_yaml

Row = Sequence[Any]
Types = Mapping[str, str]
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

    @property
    def orders(self) -> list[tuple[list[Row], ...]]:
        """Both orders of two loads, or three of those of more; random loads come in random ones."""
        every = list(permutations(self.loads))
        return every[:: max(1, len(every) // 3)]


@dataclass(frozen=True)
class Table:
    """A table's definition, and what is told of it.

    Args:
        kind: As a header writes it.
        columns: Spark SQL type by column.
        shown: Of columns that the kind adds: those that are expected, too.
        alone: Whether a case's rows say something of another's, in one table.
        once: Whether one fill is enough on Spark.
    """

    name: str
    kind: str
    columns: Mapping[str, str]
    cases: tuple[Case, ...]
    shown: Mapping[str, str] = field(default_factory=dict)
    alone: bool = False
    once: bool = False

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
            item.get("once", False),
        )
        for item in read_yaml(Path(__file__).with_name(name))
    ]


def kind_of(text: str) -> Kind:
    """Read a kind as it stands in a header."""
    source = SourceText(Path("models/m.sql"), text)
    return read_kind(Value(source, "kind", tuple(Token.split(source)), 0))


@dataclass(frozen=True)
class Query:
    """Rows of tables, and those of a query over them.

    Args:
        tables: By name: columns and their types, and rows.
        columns: Type by column of the query.
    """

    name: str
    query: str
    tables: Mapping[str, tuple[Types, list[Row]]]
    columns: Types
    expected: list[Row]

    @property
    def expanded(self) -> str:
        """The query that the macro writes."""
        known = KnownColumns(
            {ModelName("v", name): types for name, (types, _) in self.tables.items()}
        )
        scope = MacroScope({}, {}, names=TableNames("c", "v"), known_columns=known)
        return Expander(SourceText(Path("m.sql"), self.query), scope).expand(whole=True).text

    @property
    def wanted(self) -> str:
        """The query of the rows that are expected."""
        return values_of(self.columns, self.expected)


def read_queries(name: str) -> list[Query]:
    """Read a file of this folder whose cases are queries that macros write."""
    return list(_queries(read_yaml(Path(__file__).with_name(name))))


def _queries(groups: Any) -> Iterator[Query]:
    for group in groups:
        for case in group["cases"]:
            tables = {name: (types, case["given"][name]) for name, types in group["tables"].items()}
            expected = [[_cell(value) for value in row] for row in case["expected"]]
            yield Query(case["name"], group["query"], tables, group["columns"], expected)


def _cell(value: Any) -> Any:
    return md5(value["md5"].encode()).hexdigest() if isinstance(value, dict) else value
