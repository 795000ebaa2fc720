"""Comparing the rows of two tables, or of one model in two environments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vde_dagster.base.names import ModelName, quote, split_identifier
from vde_dagster.errors import UsageError
from vde_dagster.execution.published_entry import published_entry
from vde_dagster.planning.environment import environment_name
from vde_dagster.planning.table_diff import SchemaDiff, TableDiff

if TYPE_CHECKING:
    from vde_dagster.execution.engine import Engine
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.project.model import Model

Rows = Sequence[tuple[Any, ...]]
SAMPLES = ("differing", "only_source", "only_target")


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the rows of a kind.

    Args:
        columns: The names of their columns.
        rows: Their values.
    """

    columns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two tables differ.

    Args:
        source: The one, as it is called in Spark.
        target: The other.
        keys: The columns that rows are compared by.
        schema: How the columns differ.
        rows: Numbers of rows: `source`, `target`, `joined`, `identical`, `differing`,
            `only_source`, `only_target`, `repeated_source`, `repeated_target` (rows whose key
            another row has too).
        columns: Numbers of differing values by column that both have.
        not_compared: Columns whose types have no equality.
        samples: Some rows, by `SAMPLES`.
    """

    source: str
    target: str
    keys: tuple[str, ...]
    schema: SchemaDiff
    rows: Mapping[str, int]
    columns: Mapping[str, int]
    not_compared: tuple[str, ...]
    samples: Mapping[str, Sample]


def tables_of_environments(
    warehouse: Warehouse, environments: str, model: str
) -> tuple[str, str, tuple[str, ...]]:
    """Return the views of a model in two environments, and its grain as the first one has it.

    Args:
        warehouse: The project's warehouse.
        environments: `source:target`.
        model: The model.

    Raises:
        UsageError: There is no such environment or model, or it has no view.
    """
    first, _, second = environments.partition(":")
    name = ModelName.parse(model, warehouse.settings.default_namespace)
    shown: list[tuple[str, Model]] = []
    for text in (first, second):
        environment = environment_name(text)
        known, entry = published_entry(warehouse.store, environment, name)
        found = warehouse.store.snapshots.load([entry.snapshot_id])[entry.snapshot_id].model
        if not found.kind.is_shown:
            raise UsageError(
                f"{name} is {found.kind.name}: environments have no view of it",
                hint="compare the models that read it",
            )
        shown.append((known.views.quoted(name, warehouse.settings.catalog), found))
    grains = shown[0][1].grains
    return shown[0][0], shown[1][0], grains[0] if grains else ()


def table_in_spark(warehouse: Warehouse, text: str) -> str:
    """Quote `schema.table`, of the project's catalog, or `catalog.schema.table`.

    Raises:
        UsageError: It is neither.
    """
    parts = split_identifier(text)
    if len(parts) == 2:
        parts = [warehouse.settings.catalog, *parts]
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"'{text}' is no table's name",
            hint="write schema.table, catalog.schema.table, or two environments as dev:prod MODEL",
        )
    return ".".join(map(quote, parts))


def compare_tables(
    engine: Engine,
    source: str,
    target: str,
    keys: Sequence[str],
    *,
    where: str | None = None,
    limit: int = 10,
) -> Comparison:
    """Compare two tables by a key.

    Args:
        engine: Reads them.
        source: The one, quoted.
        target: The other.
        keys: Columns that tell rows apart.
        where: Spark SQL that the rows of both have to meet.
        limit: The most rows of each sample.

    Raises:
        UsageError: A table is not there, or a key is no column of both.
        ExecutionError: Spark failed.
    """
    types = [dict(engine.query(f"SELECT * FROM {one}", 1)[0]) for one in (source, target)]
    diff = TableDiff(source, target, keys, types[0], types[1], where)
    rows, columns = diff.read_counts(engine.query(diff.counts())[1][0])
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
