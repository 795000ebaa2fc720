"""Runs queries on DuckDB and fails when equal versions go with unequal results."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import sqlglot

from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.errors import SemanticError
from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version
from vde_dagster_tests.semantics.dense_queries import NO_KEYS, DenseQueries
from vde_dagster_tests.semantics.mutations import mutate
from vde_dagster_tests.semantics.other_types import retyped
from vde_dagster_tests.semantics.random_queries import (
    DUCKDB_TYPES,
    KEYS,
    SCHEMA,
    Queries,
    random_rows,
)


class UnsoundError(AssertionError):
    """Two queries with equal versions returned different data."""


Results = list[list[tuple[Any, ...]]]


@dataclass(slots=True)
class Seen:
    """A query and, once it had to be compared, its results (None: DuckDB refuses it)."""

    text: str
    version: SemanticVersion
    ran: bool = False
    results: Results | None = None


@dataclass(slots=True)
class Tally:
    """What a run did."""

    queries: int = 0
    pairs: int = 0
    compared: int = 0
    opaque: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    recognised: Counter[str] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)


class Checker:
    """Compares every query with those of the same row version that ran before.

    Args:
        seed: Of the data and the queries.
        databases: How many sets of data every query runs on.
        undeclared: Tables whose columns the reader of the queries does not know.
        other_types: Whether columns of whole numbers have random types of numbers.
    """

    def __init__(
        self,
        seed: int,
        databases: int = 2,
        undeclared: Sequence[str] = (),
        *,
        other_types: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.tables = retyped(SCHEMA, self.rng) if other_types else SCHEMA
        self.other_types = other_types
        self.schema = {name: c for name, c in self.tables.items() if name not in undeclared}
        self.keyed = {
            name: replace(leaf_version(name, self.tables[name]), unique_keys=(frozenset(key),))
            for name, key in KEYS.items()
        }
        self.tally = Tally()
        self.seen: dict[str, list[Seen]] = {}
        self.connections = [self._database() for _ in range(databases)]

    def _database(self) -> duckdb.DuckDBPyConnection:
        connection = duckdb.connect(":memory:", config={"threads": 1})
        connection.execute("PRAGMA disable_optimizer")
        rows = random_rows(self.rng, self.tables)
        for table, columns in self.tables.items():
            listed = ", ".join(f"{c} {DUCKDB_TYPES.get(k, k)}" for c, k in columns.items())
            connection.execute(f"CREATE TABLE {table} ({listed})")
            for row in rows[table]:
                marks = ", ".join("?" * len(row))
                connection.execute(f"INSERT INTO {table} VALUES ({marks})", list(row))
        return connection

    def run(self, pairs: int) -> Tally:
        """Make queries and edits of them until so many pairs have been checked."""
        while self.tally.pairs < pairs:
            text, columns = Queries(self.rng).query()
            base = self.check(text)
            if base is None:
                continue
            if self.rng.random() < 0.3:
                self.chain(base, columns)
            current = base
            for _ in range(8):
                changed = mutate(current.text, self.rng)
                if changed is None:
                    continue
                after = self.check(changed[0])
                if after is None:
                    continue
                self.tally.pairs += 1
                self.tally.tried[changed[1]] += 1
                if after.version.rows == current.version.rows and set(
                    after.version.columns.values()
                ) & set(current.version.columns.values()):
                    self.tally.recognised[changed[1]] += 1
                if self.rng.random() < 0.5:
                    current = after
        return self.tally

    def run_dense(self, queries: int) -> Tally:
        """Make so many queries of few words, of which many have one version."""
        made = DenseQueries(self.rng)
        while self.tally.queries < queries:
            self.check(made.query())
        return self.tally

    def chain(self, parent: Seen, columns: list[tuple[str, str]]) -> None:
        """A model over a model: the child's version must follow what it reads."""
        names = [name for name, _ in columns]
        if list(parent.version.columns) != names:
            return
        schema = {**self.schema, "m": dict(columns)}
        child = Queries(self.rng)
        body, _ = child.select(1, [("m", columns)])
        if "m AS" not in body:
            return
        if not self.other_types:  # Whoever makes queries calls every number an INT.
            self.check(body, parent=parent, schema=schema)
        inlined = f"WITH m AS ({parent.text}) {body}"
        self.check(inlined)

    def check(
        self,
        text: str,
        *,
        parent: Seen | None = None,
        schema: dict[str, dict[str, str]] | None = None,
    ) -> Seen | None:
        """Version and run one query, and compare it with its like."""
        parents = {**self.keyed, **({"m": parent.version} if parent is not None else {})}
        try:
            version = analyze(text, schema or self.schema, parents=parents).version
        except SemanticError:
            self.tally.refused += 1
            return None
        self.tally.queries += 1
        if version.opaque is not None:
            self.tally.opaque[version.opaque] += 1
        whole = text if parent is None else f"WITH m AS ({parent.text}) {text}"
        now = Seen(whole, version)
        like = self.seen.setdefault(version.rows, [])
        for other in like:
            if other.text != now.text:
                self._compare(other, now)
        if len(like) < 4:
            like.append(now)
        return now

    def _results(self, query: Seen) -> Results | None:
        if not query.ran:
            query.ran = True
            try:
                written = query.text.replace(NO_KEYS, "'one group'")
                translated = sqlglot.transpile(written, read="spark", write="duckdb")[0]
                query.results = [c.execute(translated).fetchall() for c in self.connections]
            except (duckdb.Error, sqlglot.errors.SqlglotError):
                self.tally.refused += 1
            if query.results is not None and any(
                len(row) != len(query.version.columns) for rows in query.results for row in rows
            ):
                query.results = None
        return query.results

    def _compare(self, one: Seen, two: Seen) -> None:
        first, second = self._results(one), self._results(two)
        if first is None or second is None:
            return
        self.tally.compared += 1
        left = {v: i for i, v in enumerate(one.version.columns.values())}
        right = {v: i for i, v in enumerate(two.version.columns.values())}
        shared = sorted(left.keys() & right.keys())
        for a, b in zip(first, second, strict=True):
            rows_a = Counter(tuple(_plain(row[left[v]]) for v in shared) for row in a)
            rows_b = Counter(tuple(_plain(row[right[v]]) for v in shared) for row in b)
            if rows_a != rows_b:
                raise UnsoundError(
                    f"equal versions, unequal results:\n  {one.text}\n  {two.text}\n"
                    f"columns {shared}\n  {rows_a}\n  {rows_b}"
                )


def _plain(value: Any) -> Any:
    """A value of which equal ones are equal in Python; which zero a group shows is left open."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return tuple(value.items())
    return tuple(value) if isinstance(value, list) else value
