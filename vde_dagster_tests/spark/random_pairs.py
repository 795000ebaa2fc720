"""Random queries and edits of them on Spark: equal versions must mean equal answers."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from vde_dagster.errors import VdeError
from vde_dagster.semantics.analysis import analyze
from vde_dagster.semantics.versions.version import SemanticVersion, leaf_version
from vde_dagster_tests.semantics import random_queries
from vde_dagster_tests.semantics.dense_queries import DenseQueries
from vde_dagster_tests.semantics.mutations import mutate
from vde_dagster_tests.semantics.other_types import retyped
from vde_dagster_tests.spark.answers import ask, make_views

QUICK = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # Generating code takes longer than nine rows.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@dataclass
class Tally:
    """What a run did.

    Args:
        queries: Queries that were made.
        compared: Pairs of equal versions that Spark answered both of.
        wrong: Pairs whose answers differ.
    """

    queries: int = 0
    compared: int = 0
    wrong: tuple[str, ...] = ()


def quick_session(session: Any) -> Any:
    """A session of its own for small queries."""
    made = session.newSession()
    for key, value in QUICK.items():
        made.conf.set(key, value)
    return made


def shared(one: SemanticVersion, two: SemanticVersion) -> tuple[list[int], list[int]]:
    """Where the columns of equal versions stand in either query."""
    left = {v: i for i, v in enumerate(one.columns.values())}
    right = {v: i for i, v in enumerate(two.columns.values())}
    both = sorted(left.keys() & right.keys())
    return [left[v] for v in both], [right[v] for v in both]


def compare_random_pairs(
    session: Any, seed: int, queries: int, *, other_types: bool = False
) -> Tally:
    """Make random queries, edit each once, and ask Spark for both where versions are equal.

    Args:
        session: A session of its own.
        seed: Of the data, the queries and the edits.
        queries: How many queries to make.
        other_types: Whether columns of whole numbers have random types of numbers, with values at
            their edges; equal ones are then told apart by casts to text.
    """
    rng = random.Random(seed)
    tables = _tables(rng, other_types=other_types)
    make_views(session, tables, {}, rng, rows=5, edges=other_types)
    known = {name: leaf_version(name, types) for name, types in tables.items()}
    tally = Tally()
    while tally.queries < queries:
        text, _ = random_queries.Queries(rng, texts=other_types).query(1)
        changed = mutate(text, rng)
        if changed is None:
            continue
        tally.queries += 1
        try:
            one, two = (
                analyze(query, tables, parents=known).version for query in (text, changed[0])
            )
        except VdeError:
            continue
        left, right = shared(one, two)
        if one.rows != two.rows or not left:
            continue
        first, second = ask(session, text), ask(session, changed[0])
        if first.error or second.error:
            continue
        tally.compared += 1
        if first.columns(left) != second.columns(right):
            tally.wrong += (f"{text}\n  {changed[0]}\n  {first}\n  {second}",)
    return tally


def _tables(rng: random.Random, *, other_types: bool) -> dict[str, dict[str, str]]:
    known = random_queries.SCHEMA
    return retyped(known, rng) if other_types else known


def compare_dense_pairs(
    session: Any, seed: int, queries: int, *, other_types: bool = False
) -> Tally:
    """Ask Spark for queries of few words that got one version by being rewritten.

    Args:
        session: A session of its own.
        seed: Of the data and the queries.
        queries: How many queries to make.
        other_types: As in `compare_random_pairs`.
    """
    rng = random.Random(seed)
    tables = _tables(rng, other_types=other_types)
    keys = {table: [list(key)] for table, key in random_queries.KEYS.items()}
    make_views(session, tables, keys, rng, rows=5, edges=other_types)
    known = {
        table: replace(
            leaf_version(table, types), unique_keys=tuple(map(frozenset, keys.get(table, ())))
        )
        for table, types in tables.items()
    }
    made = DenseQueries(rng, texts=other_types)
    seen: dict[tuple[str, ...], str] = {}
    answers: dict[str, Any] = {}
    tally = Tally()
    while tally.queries < queries:
        text = made.query()
        tally.queries += 1
        version = analyze(text, tables, parents=known).version
        other = seen.setdefault((version.rows, *version.columns.values()), text)
        if other == text:
            continue
        for query in (other, text):
            answers[query] = answers.get(query) or ask(session, query)
        first, second = answers[other], answers[text]
        if first.error or second.error:
            continue
        tally.compared += 1
        places = list(range(len(version.columns)))
        if first.columns(places) != second.columns(places):
            tally.wrong += (f"{other}\n  {text}\n  {first}\n  {second}",)
    return tally
