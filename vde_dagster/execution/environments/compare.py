"""Differences between environments, versions and tables, and the changes of each version."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

from vde_dagster.base.names import ModelName, quote, split_identifier
from vde_dagster.base.texts import suggest
from vde_dagster.errors import UsageError
from vde_dagster.execution.published_version import published_entry
from vde_dagster.lakehouse.io.files import read_metadata
from vde_dagster.lakehouse.publishing.pins import growth_between
from vde_dagster.planning.environments.environment import environment_name
from vde_dagster.planning.intervals.interval import IntervalSet
from vde_dagster.planning.plan.compare_snapshots import classify
from vde_dagster.planning.plan.plan import Category, Change
from vde_dagster.planning.snapshots.snapshot import Snapshot

if TYPE_CHECKING:
    from vde_dagster.execution.engine import Engine
    from vde_dagster.execution.warehouse import Warehouse
    from vde_dagster.lakehouse.lakehouse import Lakehouse
    from vde_dagster.planning.environments.environment import Environment
    from vde_dagster.project.model import Model
    from vde_dagster.state import StateStore
    from vde_dagster.state.environments.pin_history import PinChange
    from vde_dagster.state.environments.pins import Growth, Pin
    from vde_dagster.state.environments.versions import EnvironmentVersion


@dataclass(frozen=True, slots=True)
class Difference:
    """A model that two environments do not show alike.

    Args:
        category: What that means for its data, or None.
        new: Its snapshot in the one environment, or None; `old` likewise.
    """

    name: ModelName
    change: Change
    category: Category | None
    new: Snapshot | None
    old: Snapshot | None

    @property
    def columns(self) -> dict[str, list[str]]:
        """Names of the columns that are added, removed, and changed in meaning or type."""
        before = {c.name: (c.version, c.type) for c in self.old.columns} if self.old else {}
        after = {c.name: (c.version, c.type) for c in self.new.columns} if self.new else {}
        return {
            "added": [name for name in after if name not in before],
            "removed": [name for name in before if name not in after],
            "changed": [n for n, what in after.items() if n in before and before[n] != what],
        }


def compare_environments(
    warehouse: Warehouse, new: Environment, old: Environment
) -> tuple[Difference, ...]:
    """Compare what an environment, or a version of one, shows with what another one does."""
    now, then = ({n: e.snapshot_id for n, e in one.entries.items()} for one in (new, old))
    ids = {name: (now.get(name, ""), then.get(name, "")) for name in sorted({**now, **then})}
    ids = {name: pair for name, pair in ids.items() if pair[0] != pair[1]}
    snapshots = warehouse.store.snapshots.load({*chain.from_iterable(ids.values())} - {""})
    found = []
    for name, pair in ids.items():
        one, two = map(snapshots.get, pair)
        change, category = classify(one, two)
        found.append(Difference(name, change, category, one, two))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class DataDifference:
    """A model of which two versions show other rows, or may do; numbers are None when unknown.

    Args:
        before: Rows in the other version.
        after: Rows in the version.
        added: Rows that commits in between wrote, in one table.
        removed: Rows that commits in between deleted or wrote anew.
    """

    name: ModelName
    same_table: bool
    before: int | None
    after: int | None
    added: int | None
    removed: int | None

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "model": str(self.name),
            "same_table": self.same_table,
            "rows_before": self.before,
            "rows": self.after,
            "rows_added": self.added,
            "rows_removed": self.removed,
        }


def compare_data(
    warehouse: Warehouse, new: Environment, old: Environment
) -> tuple[DataDifference, ...]:
    """Compare what two versions pin, by Iceberg's metadata; no rows are read.

    Returns:
        The models that both show, with their own table, as of another snapshot or table. What one
        of them has no pin of is left out.
    """
    pins = warehouse.store.pins
    now, then = (pins.at(one.name, one.version) for one in (new, old))
    found = []
    for name in sorted(new.entries.keys() & old.entries.keys()):
        one = now.get(new.entries[name].table_id or "")
        two = then.get(old.entries[name].table_id or "")
        if one is None or two is None:
            continue
        same = one.table_id == two.table_id
        if same and one.snapshot_id == two.snapshot_id:
            continue
        added, removed = _growth(warehouse, one, two) if same else (None, None)
        found.append(DataDifference(name, same, two.rows, one.rows, added, removed))
    return tuple(found)


def _growth(warehouse: Warehouse, new: Pin, old: Pin) -> tuple[int | None, int | None]:
    """Add up the commits between two snapshots; going back, what was added is removed."""
    with warehouse.store.database.reading() as conn:
        places = warehouse.store.pins.places(conn, [new.table_id])
    ref, _ = places[new.table_id]
    metadata = warehouse.lakehouse.table_metadata(ref)
    growth = growth_between(metadata, old.snapshot_id, new.snapshot_id)
    return growth.added, growth.removed


Rows = Sequence[tuple[Any, ...]]
SAMPLES = ("differing", "only_source", "only_target")


@dataclass(frozen=True, slots=True)
class Sample:
    """Some of the rows of a kind."""

    columns: tuple[str, ...]
    rows: Rows


@dataclass(frozen=True, slots=True)
class Comparison:
    """Differences between two tables.

    Args:
        source: The one, as it is called in Spark; `target` is the other.
        keys: The columns that rows are compared by.
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

    Raises:
        UsageError: There is no such environment or model, or it has no view.
    """
    first, _, second = environments.partition(":")
    name = ModelName.parse(model, warehouse.settings.default_namespace)
    shown: list[tuple[str, Model]] = []
    for text in (first, second):
        environment = environment_name(text)
        known, entry = published_entry(warehouse, environment, name)
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
    """Quote `schema.table`, of the project's catalog, or `catalog.schema.table`."""
    parts = split_identifier(text)
    if len(parts) == 2:
        parts = [warehouse.settings.catalog, *parts]
    if len(parts) != 3 or not all(parts):
        raise UsageError(
            f"'{text}' is no table's name",
            hint="write schema.table, catalog.schema.table, or two environments as dev:prod MODEL",
        )
    return quote(*parts)


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
        source: The one, quoted; `target` is the other.
        where: Spark SQL that the rows of both have to meet.

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


Types = Mapping[str, str]
"""Spark SQL types by column, in order."""


@dataclass(frozen=True, slots=True)
class SchemaDiff:
    """Differences between the columns of two tables.

    Args:
        added: Types of columns that only the target has.
        removed: Types of columns that only the source has.
        changed: Types in the source and in the target.
    """

    added: Types
    removed: Types
    changed: Mapping[str, tuple[str, str]]

    @classmethod
    def of(cls, source: Types, target: Types) -> SchemaDiff:
        """Compare columns, whose names have no case.

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
    """Writes the queries of a comparison.

    Args:
        source: The one table, quoted.
        target: The other one.
        keys: Columns that tell rows apart; NULL equals NULL.
        where: Spark SQL that rows of both have to meet, or None.

    Raises:
        UsageError: A key is no column of both.
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
        self._where = f" WHERE {where}" if where else ""
        there = {name.lower() for name in target_types}
        both = {name.lower(): name for name in source_types if name.lower() in there}
        for key in keys:
            if key.lower() not in both:
                raise UsageError(
                    f"'{key}' is no column of both tables",
                    hint=suggest(key, list(both.values()), "columns"),
                )
        self.keys = tuple(dict.fromkeys(both[key.lower()] for key in keys))
        others = [name for name in both.values() if name not in self.keys]
        self.columns = tuple(name for name in others if _comparable(source_types[name]))
        self.not_compared = tuple(name for name in others if name not in self.columns)

    def counts(self) -> str:
        """Write the query that counts; its one row is for `read_counts`."""
        differs = [f"NOT (s.c{i} <=> t.c{i})" for i in range(len(self.columns))]
        both = "s.there AND t.there"
        whole = f"{both} AND ({' OR '.join(differs)})" if differs else "false"
        said = [
            f"count_if({both})",
            f"count_if({whole})",
            "count_if(t.there IS NULL)",
            "count_if(s.there IS NULL)",
            *(f"count_if({both} AND {one})" for one in differs),
        ]
        named = ", ".join(f"{text} AS n{i}" for i, text in enumerate(said))
        return f"SELECT {named} FROM {self._joined()}"

    def sizes(self, side: int) -> str:
        """Write the query of the number of rows, and of keys, of the source (0) or target (1)."""
        keys = ", ".join(map(quote, self.keys))
        table = self._tables[side]
        return (
            f"SELECT count(*) AS rows, count(DISTINCT struct({keys})) AS keys "
            f"FROM {table}{self._where}"
        )

    def read_counts(self, row: Sequence[Any]) -> tuple[dict[str, int], dict[str, int]]:
        """Return the numbers of rows, and of differing values by column."""
        joined, differing, only_source, only_target, *values = row
        rows = {
            "joined": joined,
            "identical": joined - differing,
            "differing": differing,
            "only_source": only_source,
            "only_target": only_target,
        }
        return rows, dict(zip(self.columns, values, strict=True))

    def differing(self, columns: Sequence[str]) -> str:
        """Write the query of rows whose values differ: keys, then source and target by column."""
        places = [self.columns.index(name) for name in columns]
        keys = [f"s.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        values = [
            f"{side}.c{i} AS {quote(f'{self.columns[i]} ({word})')}"
            for i in places
            for side, word in (("s", "source"), ("t", "target"))
        ]
        differs = " OR ".join(f"NOT (s.c{i} <=> t.c{i})" for i in places)
        return (
            f"SELECT {', '.join([*keys, *values])} FROM {self._joined()} "
            f"WHERE s.there AND t.there AND ({differs}) ORDER BY {self._order('s')}"
        )

    def only(self, side: int) -> str:
        """Write the query of rows that only the source (0) or the target (1) has."""
        own, other = ("s", "t") if side == 0 else ("t", "s")
        shown = [f"{own}.k{i} AS {quote(name)}" for i, name in enumerate(self.keys)]
        shown += [f"{own}.c{i} AS {quote(name)}" for i, name in enumerate(self.columns)]
        return (
            f"SELECT {', '.join(shown)} FROM {self._joined()} WHERE {other}.there IS NULL "
            f"ORDER BY {self._order(own)}"
        )

    def _order(self, side: str) -> str:
        return ", ".join(f"{side}.k{i}" for i in range(len(self.keys)))

    def _joined(self) -> str:
        on = " AND ".join(f"s.k{i} <=> t.k{i}" for i in range(len(self.keys)))
        source, target = map(self._side, self._tables)
        return f"({source}) AS s FULL OUTER JOIN ({target}) AS t ON {on}"

    def _side(self, table: str) -> str:
        named = [f"{quote(name)} AS k{i}" for i, name in enumerate(self.keys)]
        named += [f"{quote(name)} AS c{i}" for i, name in enumerate(self.columns)]
        return f"SELECT {', '.join(named)}, true AS there FROM {table}{self._where}"


def _comparable(type_: str) -> bool:
    """Say whether Spark compares values of a type: maps and variants have no equality."""
    lowered = type_.lower()
    return "map<" not in lowered and "variant" not in lowered


_NOTHING = IntervalSet()
What = Literal["definitions", "data", "both", "nothing"]


@dataclass(frozen=True, slots=True)
class DataChange:
    """A table whose rows a version of an environment shows otherwise than the one before.

    Args:
        is_new: Whether the version before did not show it.
        is_back: Whether one before that did, as after a rollback.
        rows: Rows in it; like all numbers here, when known.
        added: Rows that were written since; one that is written anew counts twice.
        removed: Rows that were deleted or written anew.
        intervals: What the version's plan filled (UTC).
    """

    models: tuple[ModelName, ...]
    is_new: bool
    is_back: bool
    rows: int | None
    added: int | None
    removed: int | None
    intervals: IntervalSet

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return {
            "models": [str(name) for name in self.models],
            "new": self.is_new and not self.is_back,
            "back": self.is_back,
            "rows": self.rows,
            "rows_added": self.added,
            "rows_removed": self.removed,
            "intervals": self.intervals.to_json(),
        }


@dataclass(frozen=True, slots=True)
class VersionChange:
    """A version with what it changed."""

    version: EnvironmentVersion
    data: tuple[DataChange, ...]

    @property
    def what(self) -> What:
        """Whether definitions changed, data, or both."""
        version = self.version
        if version.added or version.changed or version.removed:
            return "both" if self.data else "definitions"
        return "data" if self.data else "nothing"


def changes_until(
    store: StateStore,
    lakehouse: Lakehouse | None,
    name: str,
    until: int | None,
    limit: int | None = None,
) -> list[VersionChange]:
    """Return versions of an environment up to one, with what each changed, newest first.

    Args:
        lakehouse: Where metadata say what tables gained that others moved; without it that is
            not known.
        until: The last version; None for the newest.
    """
    versions = store.versions.history(name, limit, until)
    if not versions:
        return []
    changes = store.pin_history.changes(name, versions[-1].version, versions[0].version)
    plans = {version.version: version.plan_id for version in versions}
    growths = _growths(store, lakehouse, changes) if lakehouse is not None else {}
    tables = {change.table_id for change in changes}
    models: dict[str, list[tuple[int, int | None, ModelName]]] = {}
    for table_id, since, until_version, model in store.pin_history.models(name, tables):
        models.setdefault(table_id, []).append((since, until_version, model))
    filled = store.fills.ranges_of_plans(
        tables, {plan_id for one in changes if (plan_id := plans.get(one.version)) is not None}
    )
    found: dict[int, list[DataChange]] = {}
    for change in changes:
        shown = [
            model
            for since, end, model in models.get(change.table_id, ())
            if since <= change.version and (end is None or end > change.version)
        ]
        growth = growths.get((change.version, change.table_id))
        found.setdefault(change.version, []).append(
            DataChange(
                tuple(shown),
                change.is_new,
                change.is_back,
                change.rows,
                growth.added if growth is not None else change.added,
                growth.removed if growth is not None else change.removed,
                filled.get((change.table_id, plans.get(change.version)), _NOTHING),
            )
        )
    for data in found.values():
        data.sort(key=lambda one: one.models)
    return [VersionChange(one, tuple(found.get(one.version, ()))) for one in versions]


def _growths(
    store: StateStore, lakehouse: Lakehouse, changes: Iterable[PinChange]
) -> dict[tuple[int, str], Growth]:
    """Count what tables gained that others moved, from their metadata as far as it goes back."""
    unknown = [one for one in changes if one.added is None and not one.is_new]
    if not unknown:
        return {}
    with store.database.reading() as conn:
        places = store.pins.places(conn, {one.table_id for one in unknown})
    locations = lakehouse.metadata_locations(ref for ref, _ in places.values())
    by_table: dict[str, list[PinChange]] = {}
    for one in unknown:
        by_table.setdefault(one.table_id, []).append(one)

    def read(table_id: str) -> list[tuple[tuple[int, str], Growth]]:
        location = locations.get(places[table_id][0])
        if location is None or not lakehouse.files.exists(location):
            return []
        metadata = read_metadata(lakehouse.files, location, str(places[table_id][0]))
        return [
            ((one.version, table_id), growth_between(metadata, one.before, one.snapshot_id))
            for one in by_table[table_id]
        ]

    return {
        key: growth for some in lakehouse.files.each(read, list(places)) for key, growth in some
    }
