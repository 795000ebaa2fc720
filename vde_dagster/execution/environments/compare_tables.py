"""Differences between the rows of two tables, by a key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.execution.published_version import published_entry
from vde_dagster.planning.environments.environment import environment_name

if TYPE_CHECKING:
    from vde_dagster.execution.handles import Handles
    from vde_dagster.project.model import Model
    from vde_dagster.spark.engine import SparkEngine


Rows = Sequence[tuple[Any, ...]]
SAMPLES = ("differing", "only_source", "only_target")


@dataclass(frozen=True, slots=True)
class Sample:
    columns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """Counts and samples of the differing rows of two tables.

    Args:
        source: Name of the first table in Spark. `target` is the second table.
        rows: Numbers of rows by category: `source`, `target`, `joined`, `identical`, `differing`,
            `only_source`, `only_target`, `repeated_source`, `repeated_target` (rows
            after the first with the same key).
        columns: Number of differing values by common column.
        not_compared: Columns whose types do not support equality.
        samples: Sample rows of each category in `SAMPLES`.
    """

    source: str
    target: str
    keys: tuple[str, ...]
    schema: SchemaDiff
    rows: Mapping[str, int]
    columns: Mapping[str, int]
    not_compared: tuple[str, ...]
    samples: Mapping[str, Sample]


def views_to_compare(
    handles: Handles, environments: str, model: str
) -> tuple[str, str, tuple[str, ...]]:
    """Return a model's views in two environments, and its grain in the first.

    Raises:
        UsageError: The environment or model does not exist, or the model has no view.
    """
    first, _, second = environments.partition(":")
    name = ModelName.parse(model, handles.settings.default_namespace)
    shown: list[tuple[str, Model]] = []
    for text in (first, second):
        environment = environment_name(text)
        known, entry = published_entry(handles, environment, name)
        found = handles.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id].model
        if not found.kind.is_shown:
            raise UsageError(
                f"{name} is of kind {found.kind.name} and has no view in environments",
                hint="compare the models that read it",
            )
        shown.append((known.views.quoted(name, handles.settings.catalog), found))
    grains = shown[0][1].grains
    return shown[0][0], shown[1][0], grains[0] if grains else ()


def compare_model(
    handles: Handles, model: ModelName, environments: str, limit: int = 10
) -> Comparison | None:
    """Compare the rows of a model in two environments. Returns None without a grain or unique key.

    Args:
        environments: Both names, as `dev:prod`.
        limit: Maximum number of sample rows of each kind.

    Raises:
        UsageError: An environment or the model does not exist, or the model has no view.
        ExecutionError: Spark failed.
    """
    # The key is the model's grain in the first environment, or else the key of its kind.
    source, target, grain = views_to_compare(handles, environments, str(model))
    if not grain:
        first = environment_name(environments.partition(":")[0])
        _, entry = published_entry(handles, first, model)
        snapshot = handles.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id]
        grain = snapshot.model.kind.key_of_rows
    if not grain:
        return None
    return compare_tables(handles.engine(), source, target, grain, limit=limit)


def common_grain(handles: Handles, first: str, second: str) -> tuple[str, ...]:
    """Return the grain that one of two compared models declares, or an empty tuple."""
    default, models = handles.settings.default_namespace, handles.project.models
    declared = [
        models[name].grains
        for name in (
            ModelName.parse(text, default)
            for text in (first, second)
            if len(ModelName.split(text)) <= 2
        )
        if name in models and models[name].grains
    ]
    # A grain that both models declare is preferred.
    shared = [grain for grain in declared[0] if grain in declared[-1]] if declared else []
    return shared[0] if shared else declared[0][0] if declared else ()


def quote_table_name(handles: Handles, text: str) -> str:
    """Quote a table's name for Spark, with the project's catalog if the name has none."""
    parts = ModelName.split(text)
    if len(parts) == 2:
        parts = [handles.settings.catalog, *parts]
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"'{text}' is not a table name",
            hint="write schema.table, catalog.schema.table, or two environments and a model: "
            "dev:prod MODEL",
        )
    return quote(*parts)


def compare_tables(
    engine: SparkEngine,
    source: str,
    target: str,
    keys: Sequence[str],
    *,
    where: str | None = None,
    limit: int = 10,
) -> Comparison:
    """Match the rows of two tables by a key, then count and sample the differing rows.

    Args:
        source: Quoted name of the first table. `target` is the name of the second table.
        where: Spark SQL condition on the rows of both.

    Raises:
        UsageError: A table does not exist, or a key is not a column of both.
        ExecutionError: Spark failed.
    """
    types = [dict(engine.query(f"SELECT * FROM {one}", 1)[0]) for one in (source, target)]
    diff = TableDiff(source, target, keys, types[0], types[1], where)
    joined, other, only_source, only_target, *values = engine.query(diff.counts())[1][0]
    rows = {
        "joined": joined,
        "identical": joined - other,
        "differing": other,
        "only_source": only_source,
        "only_target": only_target,
    }
    columns = dict(zip(diff.columns, values, strict=True))
    for side, word in enumerate(("source", "target")):
        total, distinct = engine.query(diff.sizes(side))[1][0]
        rows[word], rows[f"repeated_{word}"] = total, total - distinct
    differing = [name for name, count in columns.items() if count]
    queries = {
        "differing": diff.differing(differing) if differing else None,
        "only_source": diff.only(0) if rows["only_source"] else None,
        "only_target": diff.only(1) if rows["only_target"] else None,
    }
    samples = {}
    for kind, query in queries.items():
        if query is not None and limit:
            named, found = engine.query(query, limit)
            samples[kind] = Sample(tuple(name for name, _ in named), found)
    return Comparison(
        source,
        target,
        diff.keys,
        SchemaDiff.of(types[0], types[1]),
        rows,
        columns,
        diff.not_compared,
        samples,
    )


Types = Mapping[str, str]
"""Spark SQL types by column, in order."""


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Columns added, removed or changed in type from a source table to a target table."""

    added: Types
    removed: Types
    changed: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, source: Types, target: Types) -> SchemaDiff:
        """Compare the columns of two tables. Column names are not case-sensitive.

        >>> SchemaDiff.of({"a": "int", "b": "int"}, {"A": "bigint", "c": "int"})
        SchemaDiff(added={'c': 'int'}, removed={'b': 'int'}, changed={'a': ('int', 'bigint')})
        """
        before = {name.lower(): type_ for name, type_ in source.items()}
        after = {name.lower(): type_ for name, type_ in target.items()}
        return cls(
            {name: type_ for name, type_ in target.items() if name.lower() not in before},
            {name: type_ for name, type_ in source.items() if name.lower() not in after},
            {
                name: (type_, after[name.lower()])
                for name, type_ in source.items()
                if after.get(name.lower(), type_) != type_
            },
        )


class TableDiff:
    """Builds the queries for comparing the rows of two tables. NULL keys are equal to each other.

    Raises:
        UsageError: A key is not a column of both tables.
    """

    def __init__(
        self,
        source: str,
        target: str,
        keys: Sequence[str],
        source_types: Types,
        target_types: Types,
        where: str | None = None,
    ) -> None:
        self._tables = (source, target)
        self._where = f" WHERE ({where}\n)" if where else ""
        there = {name.lower() for name in target_types}
        both = {name.lower(): name for name in source_types if name.lower() in there}
        for key in keys:
            if key.lower() not in both:
                raise UsageError(
                    f"'{key}' is not a column of both tables",
                    hint=suggest(key, list(both.values()), "columns"),
                )
        self.keys = tuple(dict.fromkeys(both[key.lower()] for key in keys))
        others = [name for name in both.values() if name not in self.keys]
        types = {name: source_types[name].lower() for name in others}
        # Maps and variants do not support equality in Spark.
        self.columns = tuple(
            name for name in others if "map<" not in types[name] and "variant" not in types[name]
        )
        self.not_compared = tuple(name for name in others if name not in self.columns)

    def counts(self) -> str:
        """Build the query that counts joined, differing and unmatched rows.

        The query also counts the differing values of each column.
        """
        differs = [f"NOT (s.c{i} <=> t.c{i})" for i in range(len(self.columns))]
        both = "s.there AND t.there"
        whole = f"{both} AND ({' OR '.join(differs)})" if differs else "false"
        counts = [
            f"count_if({both})",
            f"count_if({whole})",
            "count_if(t.there IS NULL)",
            "count_if(s.there IS NULL)",
            *(f"count_if({both} AND {one})" for one in differs),
        ]
        named = ", ".join(f"{text} AS n{i}" for i, text in enumerate(counts))
        return f"SELECT {named} FROM {self._full_join()}"

    def sizes(self, side: int) -> str:
        """Build the query that counts the rows and keys of the source (0) or target (1)."""
        keys = ", ".join(map(quote, self.keys))
        table = self._tables[side]
        return (
            f"SELECT count(*) AS rows, count(DISTINCT struct({keys})) AS keys "
            f"FROM {table}{self._where}"
        )

    def differing(self, columns: Sequence[str]) -> str:
        """Build the query for rows with differing values: keys, then both values of each column."""
        places = [self.columns.index(name) for name in columns]
        keys = [f"s.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        values = [
            f"{side}.c{i} AS {quote(f'{self.columns[i]} ({word})')}"
            for i in places
            for side, word in (("s", "source"), ("t", "target"))
        ]
        differs = " OR ".join(f"NOT (s.c{i} <=> t.c{i})" for i in places)
        return (
            f"SELECT {', '.join([*keys, *values])} FROM {self._full_join()} "
            f"WHERE s.there AND t.there AND ({differs}) ORDER BY {self._order('s')}"
        )

    def only(self, side: int) -> str:
        """Build the query for rows with a key that only the source (0) or the target (1) has."""
        own, other = ("s", "t") if side == 0 else ("t", "s")
        shown = [f"{own}.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        shown += [f"{own}.c{i} AS {quote(name)}" for i, name in enumerate(self.columns)]
        return (
            f"SELECT {', '.join(shown)} FROM {self._full_join()} WHERE {other}.there IS NULL "
            f"ORDER BY {self._order(own)}"
        )

    def _order(self, side: str) -> str:
        return ", ".join(f"{side}.k{i}" for i in range(len(self.keys)))

    def _full_join(self) -> str:
        on = " AND ".join(f"s.k{i} <=> t.k{i}" for i in range(len(self.keys)))
        source, target = map(self._select_side, self._tables)
        return f"({source}) AS s FULL OUTER JOIN ({target}) AS t ON {on}"

    def _select_side(self, table: str) -> str:
        named = [f"{quote(name)} AS k{i}" for i, name in enumerate(self.keys)]
        named += [f"{quote(name)} AS c{i}" for i, name in enumerate(self.columns)]
        return f"SELECT {', '.join(named)}, true AS there FROM {table}{self._where}"
