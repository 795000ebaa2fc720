"""Queries that return the key values whose output rows may differ after changes of tables."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from vde_dagster.semantics.analysis import Schema
from vde_dagster.semantics.refresh.affected import AffectedRowsQuery, find_affected
from vde_dagster.semantics.refresh.qualified import NotRefreshableError, Qualified, qualify
from vde_dagster.semantics.refresh.steps import Relation, write_step
from vde_dagster.semantics.refresh.trees import has_exact_equality


@dataclass(frozen=True, slots=True)
class KeySteps:
    """A query's key, and queries for the key values whose output rows may differ.

    Args:
        key: Output columns of the key, in lower case.
        steps: One query for each reference to a changed table.
    """

    key: tuple[str, ...]
    steps: tuple[KeyStep, ...]

    def write(self, relation: Relation) -> str:
        """Return Spark SQL for the affected key values, in the columns `k0`, `k1`, ….

        Args:
            relation: Returns a query for the rows of a table in a state, see `steps.State`.
        """
        return " UNION ALL ".join(step.write(self.key, relation) for step in self.steps)


@dataclass(frozen=True, slots=True)
class KeyStep:
    """A query for the key values whose output rows may differ after one table changed."""

    reading: int
    affected: AffectedRowsQuery
    query: Qualified

    def write(self, key: Sequence[str], relation: Relation) -> str:
        text = write_step(self.affected.query, self.query, self.reading, relation, "changed")
        listed = ", ".join(f"`{name}` AS k{n}" for n, name in enumerate(key))
        return f"SELECT DISTINCT {listed} FROM ({text}) AS affected"


def find_key_steps(
    query: Qualified,
    changed: Collection[str],
    *,
    key: Sequence[str] = (),
    unique: Collection[frozenset[str]] = (),
) -> KeySteps:
    """Derive a query's key, and queries for the key values that changed tables affect.

    Args:
        changed: Tables that changed, as the schema names them.
        key: Output columns of the key; by default, a unique key whose values are known for every
            affected row, or else all columns with known values.
        unique: Unique keys of the query, in lower case.

    Raises:
        NotRefreshableError: Any output row may change, or the key's values are not known.

    >>> schema = {"o": {"id": "INT", "c": "INT", "n": "INT"}, "c": {"id": "INT", "name": "STRING"}}
    >>> query = "SELECT c, n % 2 AS odd, sum(n) AS n FROM o GROUP BY 1, 2"
    >>> find_key_steps(qualify(query, schema), ["o"]).key
    ('c', 'odd')
    >>> query = "SELECT o.id, name FROM o LEFT JOIN c ON o.c = c.id"
    >>> find_key_steps(qualify(query, schema), ["c"]).write(lambda table, state: f"{state} {table}")
    'SELECT DISTINCT `id` AS k0 FROM (SELECT o.id AS `id` FROM (now o) AS `o` JOIN (changed c) AS `c` ON o.c = c.id) AS affected'
    """  # noqa: E501
    steps = tuple(
        KeyStep(number, find_affected(query, number), query)
        for number, table in enumerate(query.readings)
        if table in changed
    )
    if not steps:
        raise NotRefreshableError("the query reads none of the changed tables")
    wanted = tuple(name.lower() for name in key)
    columns = wanted or tuple(_common(query, steps))
    for step in steps:
        if missing := set(columns) - set(step.affected.columns):
            lost = ", ".join(name for name in columns if name in missing)
            what = (
                f"changed rows of {query.readings[step.reading]} do not determine the key ({lost})"
            )
            there = ", ".join(step.affected.columns)
            hint = f"choose a key among {there}"
            raise NotRefreshableError(f"{what} of the affected rows", hint=hint)
    if not columns:
        hint = "select a column that the joins make equal in all tables, but not a float"
        raise NotRefreshableError(
            "each output column is unknown for the changed rows of at least one table", hint=hint
        )
    for one in sorted(map(sorted, unique), key=len):
        if not wanted and one and set(one) <= set(columns):
            columns = tuple(name for name in columns if name in one)
    return KeySteps(columns, steps)


def tables_with_key(query: str, schema: Schema, key: Sequence[str]) -> frozenset[str]:
    """Return the tables whose changed rows determine the affected values of a key.

    >>> schema = {"o": {"id": "INT", "c": "INT"}, "c": {"id": "INT", "name": "STRING"}}
    >>> query = "SELECT c.id, max(o.id) AS o FROM c, o WHERE c.name IN (SELECT max(name) FROM c)"
    >>> sorted(tables_with_key(f"{query} GROUP BY c.id", schema, ["id"]))
    ['o']
    """
    try:
        known = qualify(query, schema)
    except NotRefreshableError:
        return frozenset()
    wanted = {name.lower() for name in key}
    lost = {
        table
        for number, table in enumerate(known.readings)
        if not wanted <= set(_columns(known, number))
    }
    return frozenset(known.readings) - lost if wanted else frozenset()


def _columns(query: Qualified, reading: int) -> tuple[str, ...]:
    try:
        return find_affected(query, reading).columns
    except NotRefreshableError:
        return ()


def _common(query: Qualified, steps: Sequence[KeyStep]) -> Iterator[str]:
    types = {name.lower(): type_ for name, type_ in query.types(query.tree).items()}
    for name in steps[0].affected.columns:
        known = all(name in step.affected.columns for step in steps)
        if known and has_exact_equality(types.get(name, "")):
            yield name
