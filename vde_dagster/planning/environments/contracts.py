"""Contracts: the columns that an environment shows, and how a plan breaks them.

Readers of a view depend on its columns' names and types, so changes of these are reported even if
no data is recomputed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.base.texts import suggest
from vde_dagster.errors import ProjectError
from vde_dagster.planning.environments.resolver import nested_columns
from vde_dagster.planning.snapshots.snapshot import Snapshot, column_types
from vde_dagster.planning.tables.column_types import iceberg_type, widens
from vde_dagster.planning.tables.nested_fields import ShownFields
from vde_dagster.planning.tables.table import PhysicalTable
from vde_dagster.project.model import Exposure
from vde_dagster.semantics.versions.lineage import EVERY_COLUMN
from vde_dagster.sql.other_dialects import SPARKS

ViewTypes = Mapping[str, tuple[tuple[str, str], ...]]
"""(column, Spark SQL type) of VIEW models by snapshot id, as Spark analyzed them."""

_UNSAID = frozenset({"VOID", "NULL", "UNKNOWN"})


class Reader(NamedTuple):
    """A model that reads a broken column or model.

    Args:
        columns: The columns that depend on the break. Empty if the break may affect all columns.
    """

    model: ModelName
    columns: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.model} ({', '.join(self.columns)})" if self.columns else str(self.model)


@dataclass(frozen=True, slots=True)
class ContractBreak:
    """A column, or a whole model, that a plan changes or removes for readers.

    Args:
        column: None if the environment no longer shows the model.
        was: The column's Spark SQL type; None if unknown.
        becomes: The column's new type; None if the column is removed or renamed.
        widens: Whether the new type holds every value of the old one.
        readers: The models that read the column or model in the current version.
        renamed: The new name of a column that is only renamed.
        exposures, syncs, metrics: Names of those that read the column or model.
    """

    model: ModelName
    column: str | None
    was: str | None = None
    becomes: str | None = None
    widens: bool = False
    readers: tuple[Reader, ...] = ()
    renamed: str | None = None
    exposures: tuple[str, ...] = ()
    syncs: tuple[str, ...] = ()
    metrics: tuple[str, ...] = ()

    @property
    def change(self) -> str:
        """Kind of the change: `removed`, `renamed`, `widened` or `retyped`."""
        if self.becomes is None:
            return "renamed" if self.renamed else "removed"
        return "widened" if self.widens else "retyped"

    def covers(self, other: ContractBreak) -> bool:
        """Return whether this break includes another: same change, at least the same readers."""
        return (
            (self.model, self.column, self.was, self.becomes)
            == (other.model, other.column, other.was, other.becomes)
            and {one.model for one in self.readers} >= {one.model for one in other.readers}
            and {*self.exposures, *self.syncs, *self.metrics}
            >= {*other.exposures, *other.syncs, *other.metrics}
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "model": str(self.model),
            "column": self.column,
            "change": self.change,
            "from": self.was,
            "to": self.becomes,
            "renamed_to": self.renamed,
            "readers": [
                {"model": str(reader.model), "columns": list(reader.columns)}
                for reader in self.readers
            ],
            "exposures": list(self.exposures),
            "syncs": list(self.syncs),
            "metrics": list(self.metrics),
        }


class ShownModel(NamedTuple):
    """A model in an environment before or after a plan, with its physical table."""

    snapshot: Snapshot
    table: PhysicalTable | None


def find_contract_breaks(
    old: ShownModel, new: ShownModel | None, view_types: ViewTypes, among: Collection[Snapshot]
) -> tuple[ContractBreak, ...]:
    """Return the columns of a model's view that a plan removes, renames or retypes.

    Unknown columns and types are not compared.

    Args:
        new: None if the model is removed.
        among: The environment's models, to search for readers.
    """
    # Unknown are types that only Spark can determine, and the columns of a star in a view that
    # cannot be analyzed.
    name = old.snapshot.name
    if not old.snapshot.model.kind.is_shown:
        return ()
    if new is None or not new.snapshot.model.kind.is_shown:
        return (ContractBreak(name, None, readers=tuple(_readers(name, None, among))),)
    if old.snapshot.means(new.snapshot):
        return ()
    after = {column.lower(): type_ for column, type_ in _columns(new, view_types).items()}
    complete = _knows_all(new.snapshot) or new.snapshot.id in view_types
    shown = _versions(old.snapshot)
    kept = {column for column, _ in shown.items() & _versions(new.snapshot).items()}
    moved = {c.version: c.name for c in new.snapshot.columns if c.name.lower() not in shown}
    out = []
    for column, was in _columns(old, view_types).items():
        key = column.lower()
        becomes = after.get(key)
        if key not in after:
            if complete:
                found = tuple(_readers(name, key, among))
                same_values = moved.get(shown.get(key, ""))
                out.append(ContractBreak(name, column, was, readers=found, renamed=same_values))
        elif was and becomes and key not in kept and iceberg_type(was) != iceberg_type(becomes):
            found = tuple(_readers(name, key, among))
            out.append(ContractBreak(name, column, was, becomes, widens(was, becomes), found))
    return tuple(out)


def find_unknown_columns(
    readers: Iterable[Exposure], snapshots: Mapping[ModelName, Snapshot]
) -> Iterator[tuple[Exposure, ModelName, Problem]]:
    """Yield columns that a metric, sync or exposure reads from a model without them."""
    # For a metric or a sync, a missing column is an error. For an exposure it is a warning, because
    # a plan that removes a column lists the dashboards that read it.
    reported: set[tuple[ModelName, str]] = set()
    for reader in readers:
        for name, column, place in reader.reads:
            snapshot = snapshots.get(name)
            if column is None or snapshot is None or not snapshot.columns:
                continue
            known = [one.name for one in snapshot.columns]
            is_metric = reader.what == "metric"
            if column in map(str.lower, known) or (is_metric and (name, column) in reported):
                continue
            if _knows_all(snapshot):
                if is_metric:  # Several metrics of one measure have one mistake.
                    reported.add((name, column))
                problem = Problem(
                    f"the {reader.what} '{reader.name}' reads {name}.{column}, but the model has "
                    "no such column",
                    suggest(column, known, "columns"),
                    place,
                    certain=reader.what != "exposure",
                )
                yield reader, name, problem


def find_reader_mistakes(
    readers: Iterable[Exposure], snapshots: Mapping[ModelName, Snapshot], warnings: list[Problem]
) -> Iterator[ProjectError]:
    """Yield the errors in metrics, syncs and exposures; append other problems to `warnings`."""
    readers = tuple(readers)
    problems = [problem for _, _, problem in find_unknown_columns(readers, snapshots)]
    for problem in (*problems, *_operators(readers, snapshots)):
        if problem.certain:
            yield problem.error()
        else:
            warnings.append(problem)


def _operators(
    readers: Iterable[Exposure], snapshots: Mapping[ModelName, Snapshot]
) -> Iterator[Problem]:
    for reader in readers:
        if reader.dialect in SPARKS:
            continue
        from vde_dagster.semantics.checks.operands import Origin
        from vde_dagster.semantics.translated import find_operators

        read = {name: snapshots[name] for name, _, _ in reader.reads if name in snapshots}
        origin = Origin(reader.dialect, frozenset(reader.dialect_trust), "dbt")
        for one in find_operators(reader.query, column_types(read), origin):
            message = f"the {reader.what} '{reader.name}': {one.message}"
            yield Problem(message, one.hint, reader.location, certain=not one.untyped)


def _columns(shown: ShownModel, view_types: ViewTypes) -> dict[str, str | None]:
    # The types come from the table. For a model without a table, they come from Spark's analysis of
    # the published view, or else from the analysis of the query.
    snapshot, table = shown
    analysed = view_types.get(snapshot.id)
    if table is None and analysed is not None:
        return {name: _printable_type(type_) for name, type_ in analysed}
    written: dict[str, str | None] = {}
    nested: dict[str, ShownFields] = {}
    if table is not None and table.created:
        for column in table.columns:
            for version in (column.version, *column.earlier):
                written.setdefault(version, column.type)
        if all(column.version in written for column in snapshot.columns):
            nested = nested_columns(snapshot, table)
    return {
        column.name: _printable_type(
            nested[column.name].shown
            if column.name in nested
            else written.get(column.version) or column.type
        )
        for column in snapshot.columns
    }


def _printable_type(type_: str | None) -> str | None:
    if type_ is None or type_.upper() in _UNSAID:
        return None
    return type_ if "<" in type_ else type_.upper()


def _knows_all(snapshot: Snapshot) -> bool:
    # A star may add unknown columns.
    if snapshot.has_table or snapshot.version.opaque is None or snapshot.model.query is None:
        return True
    from vde_dagster.sql.reading import read_query

    tree = read_query(snapshot.model.query).tree
    return not any(output.is_star for output in getattr(tree, "selects", ()))


def _versions(snapshot: Snapshot) -> dict[str, str]:
    return {column.name.lower(): column.version for column in snapshot.columns}


def _readers(name: ModelName, column: str | None, among: Iterable[Snapshot]) -> Iterator[Reader]:
    """Yield the readers of a model, or of one of its columns (in lower case)."""
    own = str(name)
    for snapshot in among:
        if name not in snapshot.parents or snapshot.name == name:
            continue
        reads = [
            read
            for read in snapshot.reads
            if read.parent == own
            and (column is None or read.column.lower() in (column, EVERY_COLUMN))
        ]
        if reads or snapshot.version.opaque or column is None:
            outputs = [read.output for read in reads if read.output] if column else []
            yield Reader(snapshot.name, tuple(dict.fromkeys(outputs)))
