"""Name resolution: the table that a model's name refers to, and the tables that a fill reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from vde_dagster.base.names import ModelName, quote, quote_as, string_literal
from vde_dagster.errors import ConflictError, StoreError, UsageError
from vde_dagster.planning.environments.environment import PRODUCTION, Entry, ViewNames
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, Snapshot
from vde_dagster.planning.tables.column_types import widens
from vde_dagster.planning.tables.nested_fields import (
    ShownFields,
    is_nested,
    read_as_type,
    select_fields,
)
from vde_dagster.planning.tables.pinned_reads import CommitRange, PinnedTable, pinned_select
from vde_dagster.planning.tables.table import ExternalTable, PhysicalTable, TableRef, external_table
from vde_dagster.project.settings import EnvironmentMode, SuffixTarget


@dataclass(frozen=True, slots=True)
class Binding:
    """The table or query that a model's name refers to in an environment.

    If the model has a table, `table` or `external` is set. Otherwise, the model is a query that is
    inlined into its readers, and both are None.

    Args:
        columns: (output column, physical column) in output order, if there is a table.
        branch: The Iceberg branch to read, or None for `main`.
        stand_in: A subquery to read instead of the table, because the table does not exist yet.
        commits: The commits to read, if not all rows are read.
        pinned: The earlier state of the table to read; None for its current state.
        fields: How to read nested and widened columns, by output column.
    """

    snapshot: Snapshot
    table: PhysicalTable | None = None
    columns: tuple[tuple[str, str], ...] = ()
    branch: str | None = None
    external: ExternalTable | None = None
    stand_in: str | None = None
    commits: CommitRange | None = None
    pinned: PinnedTable | None = None
    fields: Mapping[str, ShownFields] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Resolver:
    """Finds the table that each model's name refers to in one version of an environment.

    Args:
        snapshots, tables: Snapshots and tables of the entries, by id.
        branches: Iceberg branches by table id, for tables that are written on a branch.
        production: Ids of production's tables.
        stand_ins: Subqueries that replace tables that do not exist yet, by table id.
        commits: Commits to read, by model. Of other models, all rows are read.
        pinned: The states of tables to read, by table id.
    """

    environment: str
    entries: Mapping[ModelName, Entry]
    snapshots: Mapping[str, Snapshot]
    tables: Mapping[str, PhysicalTable]
    branches: Mapping[str, str] = field(default_factory=dict)
    production: frozenset[str] = frozenset()
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    commits: Mapping[ModelName, CommitRange] = field(default_factory=dict)
    suffix: SuffixTarget = "schema"
    mode: EnvironmentMode = "full"
    # These states precede the entries' own pinned states.
    pinned: Mapping[str, PinnedTable] = field(default_factory=dict)

    @property
    def views(self) -> ViewNames:
        return ViewNames(self.environment, self.suffix, self.mode)

    def resolve(self, name: ModelName) -> Binding:
        """Return the table or query that a model's name refers to.

        Raises:
            UsageError: The environment has no such model.
            StoreError: The model's table is not live.
        """
        entry = self.entries.get(name)
        if entry is None:
            raise UsageError(
                f"environment '{self.environment}' has no model {name}",
                hint=f"plan and apply the project first: vde plan {self.environment}",
            )
        snapshot = self.snapshots[entry.snapshot_id]
        if entry.table_id is None:
            if snapshot.model.kind.is_external:
                external = external_table(snapshot.model)
                return Binding(snapshot, external=external, commits=self.commits.get(name))
            return Binding(snapshot)
        table = self.tables.get(entry.table_id)
        if table is None:
            raise StoreError(
                f"the state store has no live table {entry.table_id}, which '{self.environment}' "
                f"shows as {name}",
                hint="find what is lost, and how to repair it: vde fsck",
            )
        pinned = self.pinned.get(entry.table_id)
        if pinned is None and entry.held is not None:
            pinned = PinnedTable(entry.held.snapshot_id)
        if pinned is not None:
            return _pinned(snapshot, table, pinned)
        return Binding(
            snapshot,
            table,
            column_map(snapshot, table),
            self.branches.get(entry.table_id, table.branch),
            stand_in=self.stand_ins.get(entry.table_id),
            commits=self.commits.get(name),
            # A stand-in has the types of the model's query.
            fields={}
            if entry.table_id in self.stand_ins
            else {**wider_columns(snapshot, table), **nested_columns(snapshot, table)},
        )

    def with_own_table(self, filler: Snapshot, table: PhysicalTable) -> Resolver:
        """Return a resolver for the fill of a model that reads its own table."""
        # The table may not exist yet.
        stand_ins = dict(self.stand_ins)
        if not table.created:
            types = {column.name: column.type or "STRING" for column in filler.columns}
            made = ", ".join(
                f"CAST(NULL AS {types[output]}) AS {quote(physical)}"
                for output, physical in column_map(filler, table)
            )
            stand_ins[table.id] = f"(SELECT {made} WHERE false)"
        return replace(
            self,
            entries={**self.entries, filler.name: Entry(filler.name, filler.id, table.id)},
            snapshots={**self.snapshots, filler.id: filler},
            tables={**self.tables, table.id: table},
            stand_ins=stand_ins,
        )

    def require_writable(self, table: PhysicalTable) -> None:
        """Raise ConflictError if production reads the table, unless the environment is `prod`."""
        if self.environment != PRODUCTION and table.id in self.production:
            raise ConflictError(
                f"environment '{self.environment}' may not write {table.ref}: production reads it",
                hint=f"plan again: vde plan {self.environment}. To fill production's tables: "
                f"vde run {PRODUCTION}",
            )


def _pinned(snapshot: Snapshot, table: PhysicalTable, state: PinnedTable) -> Binding:
    # A preview's branch may be elsewhere by now; its snapshot is all that is read of it.
    # Columns that the table got later are left out.
    columns = tuple(c for c in table.columns if not state.columns or c.name in state.columns)
    table = replace(table, columns=columns, preview=None)
    fields = nested_columns(snapshot, table)
    return Binding(snapshot, table, column_map(snapshot, table), pinned=state, fields=fields)


def column_map(snapshot: Snapshot, table: PhysicalTable) -> tuple[tuple[str, str], ...]:
    """Pair each output column of a snapshot with its physical column in the table."""
    named = {column.name: column for column in table.columns}
    by_version = table.column_named_by_version()
    return tuple(
        (
            column.name,
            column.name
            if column.name in named and named[column.name].is_version(column.version)
            else by_version[column.version],
        )
        for column in snapshot.columns
    )


def nested_columns(snapshot: Snapshot, table: PhysicalTable) -> dict[str, ShownFields]:
    """Return how to read each nested column whose fields may change in place, by output column."""
    # All branches of a table share its schema, so a reader of whole structs would see fields that
    # another environment adds. Readers therefore name the fields of their definition. Inside of
    # arrays and maps this makes Spark read all fields, so there only readers of forward-only models
    # name the fields.
    kind, forward = snapshot.model.kind, snapshot.forward
    physical = {column.name: column for column in table.columns}
    whole = kind.forward_only or forward is not None or table.mixed or table.preview is not None
    found = {}
    for output, name in column_map(snapshot, table):
        column = physical[name]
        if column.type is None or not is_nested(column.type) or not kind.changes_in_place:
            continue
        has_many = any(word in column.type.lower() for word in ("array<", "map<"))
        if whole or column.fields or not has_many:
            shown = forward.column_fields(output) if forward is not None else ()
            found[output] = select_fields(column.type, column.fields, shown)
    return found


def wider_columns(snapshot: Snapshot, table: PhysicalTable) -> dict[str, ShownFields]:
    """Return how to read the columns whose types become wider when the snapshot is deployed."""
    # Before the deployment, the table has the narrower type. The readers of the preview get a cast
    # to the wider type.
    if snapshot.forward is None:
        return {}
    types = {column.name: column.type for column in table.columns}
    wanted = {column.name: column.type for column in snapshot.columns}
    return {
        output: read_as_type(becomes, has)
        for output, physical in column_map(snapshot, table)
        if (has := types[physical]) and (becomes := wanted[output]) and widens(has, becomes)
    }


def fill_map(snapshot: Snapshot, table: PhysicalTable) -> tuple[tuple[str, str], ...]:
    """Pair each physical column with an output column of the same version, which fills it.

    Returns:
        (output column, physical column), in physical order.

    Several outputs may have the same version, as in `SELECT d AS day, d AS also`. If the table has
    a column `also` but no column `day`, the time column `day` fills `also`, because a fill finds an
    interval's rows by the time column:

    >>> from types import SimpleNamespace as Some
    >>> from vde_dagster.planning.tables.table import PhysicalColumn
    >>> outputs = [Some(name="day", version="v"), Some(name="also", version="v")]
    >>> kind = Some(named_columns=("day",))
    >>> made = Some(columns=[PhysicalColumn("also", "v")])
    >>> fill_map(Some(model=Some(kind=kind), columns=outputs), made)
    (('day', 'also'),)
    """
    # Outputs of equal versions have equal values, so one output may fill several columns, and
    # another output none. Columns that the kind names (time column, key) always fill one.
    wanted = {name.lower() for name in snapshot.model.kind.named_columns}
    there = {column.name: column.version for column in table.columns}
    outputs = {column.name: column.version for column in snapshot.columns}
    any_of = {column.version: column.name for column in reversed(snapshot.columns)}
    homeless = {
        version: name
        for name, version in outputs.items()
        if name.lower() in wanted and there.get(name) != version
    }
    out = []
    for column in table.columns:
        if column.version not in any_of and (column.in_place or changes_in_place(table, snapshot)):
            continue  # Other definitions make it; rows of this one have NULL there.
        own = column.name if outputs.get(column.name) == column.version else None
        source = homeless.pop(column.version, None) or own or any_of[column.version]
        out.append((source, column.name))
    return tuple(out)


def changes_in_place(table: PhysicalTable, snapshot: Snapshot) -> bool:
    """Return whether a table has or gets rows of several definitions, by a change in place."""
    forward = snapshot.forward
    return table.mixed or (forward is not None and forward.table_id == table.id)


def select_physical(binding: Binding, catalog: str) -> str:
    """Return the query that reads a bound table under the model's output column names."""
    assert binding.table is not None
    if binding.pinned is not None:
        source = binding.table.ref.quoted(catalog)
        return pinned_select(source, binding.pinned, binding.columns, binding.fields)
    columns = ", ".join(
        f"{binding.fields[name].value(quote(physical))} AS {quote(name)}"
        if name in binding.fields
        else quote_as(physical, name)
        for name, physical in binding.columns
    )
    at = ""
    if binding.commits is not None:
        at = binding.commits.clause
    elif binding.branch and binding.stand_in is None:
        at = f" VERSION AS OF {string_literal(binding.branch)}"
    source = binding.stand_in or binding.table.ref.quoted(catalog)
    return f"SELECT {columns} FROM {source}{at}"


Columns = tuple[str, ...] | None
"""Physical columns, sorted; None for all columns."""

Outputs = frozenset[str] | None
"""Columns that a query returns, in lower case; None for all columns."""

_Asked = tuple[str, Outputs]


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table that a fill reads.

    Args:
        key: The physical table's id, or the name of an external table.
        branch: The Iceberg branch, or None for `main`.
        foreign: The table's catalog; None for the project's, empty for an undeclared table.
    """

    key: str
    ref: TableRef
    columns: Columns
    external: bool = False
    branch: str | None = None
    foreign: str | None = None


def tables_read(snapshot: Snapshot, resolver: Resolver, catalog: str) -> tuple[TableRead, ...]:
    """Return the tables that a fill of the snapshot reads, sorted by key."""
    found: dict[str, TableRead] = {}
    for read in _reads(snapshot, resolver, catalog, None, set()):
        known = found.get(read.key)
        columns = read.columns if known is None else _both(known.columns, read.columns)
        found[read.key] = replace(read, columns=columns)
    return tuple(found[key] for key in sorted(found))


def includes_columns(columns: Columns, wanted: Columns) -> bool:
    """Return whether `columns` include all wanted columns; None means all columns.

    >>> includes_columns(("a", "b"), ("a",)), includes_columns(("a",), None)
    (True, False)
    """
    return columns is None or (wanted is not None and set(wanted) <= set(columns))


def _reads(
    snapshot: Snapshot, resolver: Resolver, catalog: str, outputs: Outputs, seen: set[_Asked]
) -> Iterator[TableRead]:
    if (snapshot.id, outputs) in seen:
        return
    seen.add((snapshot.id, outputs))
    for name in snapshot.model.depends_on:
        if name not in resolver.entries:
            # Nobody declares it, so that the name is left to Spark.
            ref = TableRef(name.namespace, name.name)
            yield TableRead(str(name), ref, None, external=True, foreign="")
            continue
        binding = resolver.resolve(name)
        wanted = _wanted(snapshot, str(name), outputs)
        if binding.external is not None:
            table = binding.external
            foreign = None if table.catalog in (None, catalog) else table.catalog
            ref = TableRef(table.namespace, table.name)
            key = str(ref) if foreign is None else f"{foreign}.{ref}"
            yield TableRead(key, ref, None, external=True, foreign=foreign)
        elif binding.table is not None:
            columns = _physical(wanted, dict(column_map(binding.snapshot, binding.table)))
            yield TableRead(binding.table.id, binding.table.ref, columns, branch=binding.branch)
        else:
            yield from _reads(binding.snapshot, resolver, catalog, wanted, seen)


def _wanted(snapshot: Snapshot, parent: str, outputs: Outputs) -> Outputs:
    """Return the parent's columns that affect a query's rows or the given output columns."""
    if snapshot.canonicaliser != CANONICALISER:
        return None  # An earlier version may not have seen all that is read.
    if snapshot.version.opaque is not None or snapshot.model.python is not None:
        return None
    return frozenset(
        read.column.lower()
        for read in snapshot.reads
        if read.parent == parent
        and (outputs is None or read.output is None or read.output.lower() in outputs)
    )


def _physical(wanted: Outputs, physical: dict[str, str]) -> Columns:
    if wanted is None:
        return None
    names = {output.lower(): column for output, column in physical.items()}
    return tuple(sorted(names[one] for one in wanted)) if wanted <= set(names) else None


def _both(one: Columns, other: Columns) -> Columns:
    return None if one is None or other is None else tuple(sorted({*one, *other}))
