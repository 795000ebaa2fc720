"""Random changes of small tables in DuckDB, and the rows of queries before and after them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import duckdb
import sqlglot
from sqlglot import exp

from vde_dagster.semantics.refresh.steps import State
from vde_dagster_tests.by_changes.random_queries import SCHEMA
from vde_dagster_tests.duck import empty_duckdb

Row = tuple[Any, ...]
_TYPES = {"INT": "INTEGER", "STRING": "VARCHAR"}


@dataclass(frozen=True, slots=True)
class History:
    """Rows of each table of `SCHEMA` before and after some changes."""

    before: Mapping[str, Sequence[Row]]
    after: Mapping[str, Sequence[Row]]

    @property
    def moved(self) -> list[str]:
        """Tables that gained or lost rows."""
        return [name for name in SCHEMA if Counter(self.before[name]) != Counter(self.after[name])]

    @property
    def only_added(self) -> bool:
        return all(not Counter(self.before[name]) - Counter(self.after[name]) for name in SCHEMA)

    def relation(self, table: str, state: State) -> str:
        """Write a query for a state's rows of a table."""
        return f"SELECT * FROM {table}_{state if table in self.moved else 'now'}"

    @contextmanager
    def in_duckdb(self) -> Iterator[duckdb.DuckDBPyConnection]:
        """Provide a database with the tables in all states."""
        with empty_duckdb() as connection:
            for name, columns in SCHEMA.items():
                old, new = Counter(self.before[name]), Counter(self.after[name])
                moved = [row for row in {**old, **new} if old[row] != new[row]]
                signed = [(*row, 1) for row in (new - old).elements()]
                signed += [(*row, -1) for row in (old - new).elements()]
                _create(connection, f"{name}_earlier", columns, self.before[name])
                _create(connection, f"{name}_now", columns, self.after[name])
                _create(connection, f"{name}_changed", columns, moved)
                _create(connection, f"{name}_signed", {**columns, "vde_sign": "INT"}, signed)
            yield connection


def random_history(chance: random.Random, *, only_adds: bool = False) -> History:
    """Change tables of a few rows, with duplicates and NULLs, at random."""
    before = {name: [_row(name, chance) for _ in range(chance.randrange(7))] for name in SCHEMA}
    after = {name: list(rows) for name, rows in before.items()}
    for _ in range(chance.randrange(1, 4)):
        name = chance.choice(sorted(SCHEMA))
        if after[name] and chance.random() < 0.5 and not only_adds:
            after[name].pop(chance.randrange(len(after[name])))
        elif after[name] and chance.random() < 0.2:
            after[name].append(chance.choice(after[name]))
        else:
            after[name].append(_row(name, chance))
    return History(before, after)


def read(connection: duckdb.DuckDBPyConnection, query: str) -> Counter[tuple[tuple[str, Any], ...]]:
    """Return the rows of a query in Spark SQL, as pairs of lower-case column and value."""
    found = connection.execute(_duckdb(query))
    names = [column[0].lower() for column in found.description or ()]
    return Counter(tuple(zip(names, row, strict=True)) for row in found.fetchall())


@cache
def at_state(query: str, state: State) -> str:
    """Return a query over the tables at a state."""
    tree = sqlglot.parse_one(query, read="spark")
    for table in tree.find_all(exp.Table):
        if table.name in SCHEMA:
            alias = table.alias_or_name
            table.set("this", exp.to_identifier(f"{table.name}_{state}"))
            table.set("alias", exp.TableAlias(this=exp.to_identifier(alias)))
    return tree.sql("spark")


@cache
def _duckdb(query: str) -> str:
    return sqlglot.transpile(query, read="spark", write="duckdb")[0]


def _create(
    connection: duckdb.DuckDBPyConnection,
    name: str,
    columns: Mapping[str, str],
    rows: Sequence[Row],
) -> None:
    listed = ", ".join(f"{column} {_TYPES[type_]}" for column, type_ in columns.items())
    connection.execute(f"CREATE TABLE {name} ({listed})")
    if rows:
        values = ", ".join(
            "(" + ", ".join("NULL" if value is None else repr(value) for value in row) + ")"
            for row in rows
        )
        connection.execute(f"INSERT INTO {name} VALUES {values}")


def _row(name: str, chance: random.Random) -> Row:
    return tuple(
        chance.choice("ab") if type_ == "STRING" else chance.choice([None, 1, 2, 3])
        for type_ in SCHEMA[name].values()
    )
