"""OpenLineage datasets: physical tables, named by location, with view names as symlinks.

A dataset's fields have the names of the view's columns. Naming of files and tables:
https://openlineage.io/docs/spec/naming.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from openlineage.client.event_v2 import InputDataset, OutputDataset, StaticDataset
from openlineage.client.facet_v2 import (
    DatasetFacet,
    column_lineage_dataset,
    dataset_type_dataset,
    dataset_version_dataset,
    documentation_dataset,
    ownership_dataset,
    schema_dataset,
    symlinks_dataset,
    tags_dataset,
)

from vde_dagster.api.plans import PRODUCTION, Environment, Plan, Snapshot
from vde_dagster.api.values import ModelName
from vde_dagster.api.workspace import FillRecord, Workspace

_SCHEME = re.compile(r"([a-z][a-z0-9+.-]*):(?://([^/]*))?")
_TRANSFORMATIONS = {
    "identity": ("DIRECT", "IDENTITY"),
    "transformation": ("DIRECT", "TRANSFORMATION"),
    "aggregation": ("DIRECT", "AGGREGATION"),
    "join": ("INDIRECT", "JOIN"),
    "filter": ("INDIRECT", "FILTER"),
    "group": ("INDIRECT", "GROUP_BY"),
    "sort": ("INDIRECT", "SORT"),
    "window": ("INDIRECT", "WINDOW"),
    "conditional": ("INDIRECT", "CONDITIONAL"),
}


@dataclass(frozen=True, slots=True)
class DatasetName:
    namespace: str
    name: str

    @classmethod
    def from_location(cls, location: str) -> DatasetName:
        """Split a location into the namespace (`s3://bucket` or `file`) and the path."""
        found = _SCHEME.match(location)  # A folder's name may have # and ?, unlike parts of a URL.
        if found is None:
            return cls("file", location)
        scheme, path = re.sub("^s3[an]$", "s3", found[1]), location[found.end() :]
        return cls(f"{scheme}://{found[2]}", path.strip("/")) if found[2] else cls(scheme, path)


@dataclass
class DatasetFactory:
    """Converts models of a plan or version to datasets; `view` returns a model's view name."""

    workspace: Workspace
    content: Plan | Environment
    view: Callable[[ModelName], object]
    snapshots: Mapping[str, Snapshot]
    tables: Mapping[str, Plan.Table]
    _others: dict[str, list[tuple[str, ModelName]]] = field(default_factory=dict)

    def snapshot(self, name: ModelName) -> Snapshot | None:
        entry = self.content.entries.get(name)
        return self.snapshots.get(entry.snapshot_id) if entry is not None else None

    def table(self, name: ModelName) -> Plan.Table | None:
        entry = self.content.entries.get(name)
        return self.tables.get(entry.table_id) if entry is not None and entry.table_id else None

    @cached_property
    def catalog(self) -> str:
        """The warehouse's location, which is the namespace of tables and views in the catalog."""
        return self.workspace.lakehouse.warehouse

    def name(self, model: ModelName) -> DatasetName:
        """Return the dataset's name, from the physical table, the view or the external table."""
        table, snapshot = self.table(model), self.snapshot(model)
        if table is not None:
            return self.table_name(table)
        if snapshot is None or not snapshot.model.kind.is_shown:
            of = snapshot.model.table if snapshot is not None else ()
            return DatasetName(self.catalog, ".".join(of) or str(model))
        return DatasetName(self.catalog, str(self.view(model)))

    def table_name(self, table: Plan.Table) -> DatasetName:
        """Return the dataset name of a physical table: the table's location."""
        location = self.workspace.lakehouse.table_location(table.ref, table.id)
        return DatasetName.from_location(location)

    def output(self, snapshot: Snapshot, commit: int | None = None) -> OutputDataset:
        """Return a model's dataset as the output of a run that wrote Iceberg snapshot `commit`."""
        at = self.name(snapshot.name)
        return OutputDataset(
            namespace=at.namespace, name=at.name, facets=self.facets(snapshot, commit)
        )

    def static(self, snapshot: Snapshot, **more: DatasetFacet) -> StaticDataset:
        """Return a model's dataset for events outside of a run, with additional facets."""
        at = self.name(snapshot.name)
        return StaticDataset(
            namespace=at.namespace, name=at.name, facets={**self.facets(snapshot), **more}
        )

    def inputs(self, snapshot: Snapshot, fill: FillRecord | None = None) -> list[InputDataset]:
        """Return the datasets that a model reads, directly or through embedded models.

        Args:
            fill: The fill whose input versions are reported.
        """
        found: dict[DatasetName, InputDataset] = {}
        for parent in self._parents(snapshot, set()):
            at, own = self.name(parent), self.snapshot(parent)
            facets = self.static_facets(own) if own is not None else {}
            commit = self._commit_read(parent, fill) if fill is not None else None
            if commit is not None:
                facets["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(commit))
            found.setdefault(at, InputDataset(namespace=at.namespace, name=at.name, facets=facets))
        return list(found.values())

    def _commit_read(self, parent: ModelName, fill: FillRecord) -> int | None:
        read = fill.facts.inputs or {}
        table, own = self.table(parent), self.snapshot(parent)
        if table is not None:
            state = read.get(table.id)
        else:
            names = own.model.table if own is not None and own.model.kind.is_external else ()
            state = read.get(".".join(names) or str(parent))
        return None if state is None else state.read_id or state.snapshot_id

    def _parents(self, snapshot: Snapshot, seen: set[ModelName]) -> Iterable[ModelName]:
        for parent in snapshot.model.depends_on:
            own = self.snapshot(parent)
            if parent in seen:
                continue
            seen.add(parent)
            if own is not None and self._is_inlined(own):
                yield from self._parents(own, seen)
            else:
                yield parent

    def _is_inlined(self, snapshot: Snapshot) -> bool:
        kind = snapshot.model.kind
        return not (kind.is_shown or kind.is_external or snapshot.has_table)

    def facets(self, snapshot: Snapshot, commit: int | None = None) -> dict[str, DatasetFacet]:
        found = self.static_facets(snapshot)
        lineage = self.lineage(snapshot)
        if lineage is not None:
            found["columnLineage"] = lineage
        if commit is not None:
            found["version"] = dataset_version_dataset.DatasetVersionDatasetFacet(str(commit))
        return found

    def static_facets(self, snapshot: Snapshot) -> dict[str, DatasetFacet]:
        model, table = snapshot.model, self.table(snapshot.name)
        found: dict[str, DatasetFacet] = {
            "schema": schema_dataset.SchemaDatasetFacet(
                [
                    schema_dataset.SchemaDatasetFacetFields(
                        name=one.name, type=one.type, description=one.description
                    )
                    for one in snapshot.columns
                ]
            ),
            "datasetType": dataset_type_dataset.DatasetTypeDatasetFacet(
                "VIEW" if snapshot.is_virtual else "TABLE"
            ),
        }
        if model.description:
            found["documentation"] = documentation_dataset.DocumentationDatasetFacet(
                model.description
            )
        if model.owner:
            owner = ownership_dataset.Owner(model.owner)
            found["ownership"] = ownership_dataset.OwnershipDatasetFacet([owner])
        if model.tags:
            tags = [tags_dataset.TagsDatasetFacetFields(one, "true", "vde") for one in model.tags]
            found["tags"] = tags_dataset.TagsDatasetFacet(tags)
        if table is not None:
            names = [*self._symlink_names(snapshot.name, table)]
            found["symlinks"] = symlinks_dataset.SymlinksDatasetFacet(
                [
                    symlinks_dataset.Identifier(self.catalog, name, type_)
                    for name, type_ in dict.fromkeys(names)
                ]
            )
        return found

    def _symlink_names(self, own: ModelName, table: Plan.Table) -> Iterable[tuple[str, str]]:
        # Receivers show the first name.
        if table.id not in self._others:
            entries = self.workspace.store.shown.entries_on_tables([table.id])
            self._others[table.id] = [(env, entry.name) for env, entry in entries]
        shown = [*self._others[table.id], (self.environment, own)]
        for environment, model in sorted(shown, key=lambda one: (one[0] != PRODUCTION, *one)):
            yield str(self._view_name(environment, model)), "VIEW"
        yield str(table.ref), "TABLE"

    @property
    def environment(self) -> str:
        of = self.content
        return of.name if isinstance(of, Environment) else of.environment

    def _view_name(self, environment: str, model: ModelName) -> object:
        if environment == self.environment:
            return self.view(model)
        return self.workspace.environments.views(environment).ref(model)

    def lineage(
        self, snapshot: Snapshot
    ) -> column_lineage_dataset.ColumnLineageDatasetFacet | None:
        """Return OpenLineage's column lineage of a model, or None if no source column is known.

        `fields` has the source columns of each output column. `dataset` has the columns that
        determine which rows the model has, such as columns of filters.
        """
        by_output: dict[str | None, dict[tuple[DatasetName, str], list[str]]] = {}
        for parent, column, output, how in self._resolved_reads(snapshot):
            known = by_output.setdefault(output, {})
            hows = known.setdefault((self.name(ModelName(*parent.split(".", 1))), column), [])
            if how not in hows:
                hows.append(how)
        if not by_output:
            return None
        of_rows = by_output.pop(None, {})
        return column_lineage_dataset.ColumnLineageDatasetFacet(
            fields={
                one: column_lineage_dataset.Fields(_input_fields(by_output[one]))
                for one in sorted(filter(None, by_output))
            },
            dataset=_input_fields(of_rows),
        )

    def _resolved_reads(self, snapshot: Snapshot) -> Iterable[tuple[str, str, str | None, str]]:
        """Yield a model's reads, with the reads of embedded parents in place of these parents."""
        for read in snapshot.reads:
            parent = self.snapshot(ModelName(*read.parent.split(".", 1)))
            if parent is None or not self._is_inlined(parent):
                yield read
                continue
            for source, column, output, how in self._resolved_reads(parent):
                if output is None:
                    yield source, column, output, how
                elif output.lower() == read.column.lower():
                    through = how if read.how == "identity" else _combine_uses(read.how, how)
                    yield source, column, read.output, through


def _combine_uses(outer: str, inner: str) -> str:
    """Return how an outer query uses a column that it reads through an inner query.

    An indirect use in the inner query, such as a filter, stays indirect.
    """
    if _TRANSFORMATIONS.get(inner, ("INDIRECT", ""))[0] == "INDIRECT":
        return inner
    return outer


def _input_fields(
    reads: Mapping[tuple[DatasetName, str], list[str]],
) -> list[column_lineage_dataset.InputField]:
    return [
        column_lineage_dataset.InputField(
            at.namespace, at.name, column, [_transformation(how) for how in sorted(hows)]
        )
        for (at, column), hows in reads.items()
        if column != "*"
    ]


def _transformation(how: str) -> column_lineage_dataset.Transformation:
    if how in _TRANSFORMATIONS:
        return column_lineage_dataset.Transformation(*_TRANSFORMATIONS[how], masking=False)
    # Code, or SQL that cannot be analyzed: the column is read, and may affect anything.
    said = "read by code" if how == "python" else "not understood"
    return column_lineage_dataset.Transformation("INDIRECT", "UNKNOWN", said, masking=False)
