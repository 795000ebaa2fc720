"""Tables of a vault as cases in YAML: what is there, what is loaded, what is there then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

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

    def values(self, rows: Sequence[Row], *, case: str | None = None) -> str:
        """Write rows as a query, perhaps with the case that they are of."""
        types = {CASE: "string", **self.columns} if case is not None else self.columns
        made = [[case, *row] if case is not None else row for row in rows]
        selects = [
            "SELECT "
            + ", ".join(
                f"CAST({'NULL' if value is None else repr(str(value))} AS {type_}) AS {name}"
                for value, (name, type_) in zip(row, types.items(), strict=True)
            )
            for row in made or [[None] * len(types)]
        ]
        query = " UNION ALL ".join(selects)
        return query if made else f"SELECT * FROM ({query}) none WHERE 1 = 0"


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
