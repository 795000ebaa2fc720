"""A published environment as a file of DataHub's metadata change proposals (MCPs).

Plain JSON in the form that `datahub ingest` reads from a file: each proposal is one aspect of one
entity. Source: https://docs.datahub.com/docs/metadata-modeling/metadata-model
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from functools import cached_property
from typing import Any
from urllib.parse import quote

from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.reports import Document
from vde_dagster.plugins.exports.audited_columns import split_columns

_PLATFORM = "urn:li:dataPlatform:iceberg"
_ACTOR = "urn:li:corpuser:vde"
_FABRICS = (
    *("DEV", "TEST", "QA", "UAT", "EI", "PRE", "STG"),
    *("CORP", "RVW", "TST", "SIT", "SBX", "SANDBOX", "CERT"),
)
"""DataHub's names of environments other than production. DataHub accepts no further names, so
environments with any other name map to NON_PROD."""
_DIRECT_USES = ("identity", "transformation", "aggregation")
_UNKNOWN_USES = ("python", "unknown")
_COLUMN_AUDIT = re.compile(r"(not_null|unique_values)\(columns=\(([^()]*)\)\)")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_TYPES = {
    **dict.fromkeys(_NUMBERS, "NumberType"),
    "boolean": "BooleanType",
    "binary": "BytesType",
    "date": "DateType",
    "timestamp": "TimeType",
    "timestamp_ntz": "TimeType",
    "timestamp_ltz": "TimeType",
    "string": "StringType",
    "varchar": "StringType",
    "char": "StringType",
    "array": "ArrayType",
    "map": "MapType",
    "struct": "RecordType",
    "null": "NullType",
    "void": "NullType",
}
"""DataHub's types by Spark's, without parameters."""

Proposal = dict[str, Any]


def datahub_proposals(document: Document) -> list[Proposal]:
    """Convert the first environment of a document to metadata change proposals."""
    return list(_ProposalWriter(document, document.environments[0]).proposals())


@dataclass(frozen=True)
class _ProposalWriter:
    document: Document
    environment: Document.Environment

    @cached_property
    def _fabric(self) -> str:
        name = self.environment.name.upper()
        if self.environment.name == PRODUCTION:
            return "PROD"
        return name if name in _FABRICS else "NON_PROD"

    @cached_property
    def _models(self) -> Mapping[str, Document.Model]:
        return {one.name: one for one in self.document.models}

    @cached_property
    def _cells(self) -> Mapping[str, Document.Cell]:
        return {one.model: one for one in self.environment.models}

    @cached_property
    def _tables(self) -> Mapping[str, Document.Table]:
        return {one.id: one for one in self.document.tables}

    @cached_property
    def _stamp(self) -> dict[str, Any]:
        return {"time": _milliseconds(self.environment.published_at), "actor": _ACTOR}

    @cached_property
    def _instance(self) -> str:
        return f"urn:li:dataPlatformInstance:({_PLATFORM},{_escape(self.document.project)})"

    def proposals(self) -> Iterator[Proposal]:
        for model in self.document.models:
            if not self._is_dataset(model):
                continue
            urn = self._dataset_urn(model.name)
            for aspect, value in self._aspects(model):
                yield _proposal("dataset", urn, aspect, value)
            for audit in model.audits:
                yield from self._assertion_proposals(model, audit)

    # -- names ---------------------------------------------------------------------------------

    def _is_dataset(self, model: Document.Model) -> bool:
        """Return whether a model is in the catalog: a view, or an external table."""
        return model.kind == "EXTERNAL" or self._view_name(model.name) is not None

    def _view_name(self, name: str) -> str | None:
        cell = self._cells.get(name)
        return cell.view if cell is not None else None

    def _dataset_urn(self, name: str) -> str:
        shown = self._view_name(name) or name
        return (
            f"urn:li:dataset:({_PLATFORM},"
            f"{_escape(f'{self.document.project}.{shown}')},{self._fabric})"
        )

    def _field_urn(self, model: str, column: str) -> str:
        known = self._models.get(model)
        own = {one.name.lower(): one.name for one in known.columns} if known is not None else {}
        field = own.get(column.lower(), column)
        return f"urn:li:schemaField:({self._dataset_urn(model)},{_escape(field)})"

    # -- aspects of datasets -------------------------------------------------------------------

    def _aspects(self, model: Document.Model) -> Iterator[tuple[str, dict[str, Any]]]:
        yield "datasetProperties", self._dataset_properties(model)
        yield "schemaMetadata", self._schema_metadata(model)
        yield "status", {"removed": False}
        yield "dataPlatformInstance", {"platform": _PLATFORM, "instance": self._instance}
        is_table = model.has_table or model.kind == "EXTERNAL"
        yield "subTypes", {"typeNames": ["Table" if is_table else "View"]}
        schema = (self._view_name(model.name) or model.name).partition(".")[0]
        steps = [{"id": self._instance, "urn": self._instance}, {"id": self.environment.name}]
        yield "browsePathsV2", {"path": [*steps, {"id": schema}]}
        if model.query is not None:
            yield (
                "viewProperties",
                {"materialized": model.has_table, "viewLogic": model.query, "viewLanguage": "SQL"},
            )
        if model.kind != "EXTERNAL":
            yield "upstreamLineage", self._upstream_lineage(model)
        if model.owner:
            owner = {"owner": f"urn:li:corpuser:{_escape(model.owner)}", "type": "TECHNICAL_OWNER"}
            yield "ownership", {"owners": [owner], "lastModified": self._stamp}
        if model.tags:
            tags = [{"tag": f"urn:li:tag:{_escape(tag)}"} for tag in model.tags]
            yield "globalTags", {"tags": tags}
        cell = self._cells.get(model.name)
        if cell is not None and cell.rows is not None:
            counts = {"rowCount": cell.rows, "columnCount": len(model.columns)}
            yield "datasetProfile", {"timestampMillis": self._stamp["time"], **counts}

    def _dataset_properties(self, model: Document.Model) -> dict[str, Any]:
        cell = self._cells.get(model.name)
        table = self._tables.get(cell.table or "") if cell is not None else None
        said = {
            "model": model.name,
            "environment": self.environment.name,
            "environment_version": str(self.environment.version),
            "kind": model.kind,
            "version": model.version,
            "snapshot": model.snapshot,
            "grain": "; ".join(", ".join(grain) for grain in model.grains),
            "cron": model.cron if model.has_table and model.kind != "SEED" else "",
            "file": model.path,
            "physical_table": table.name if table is not None else "",
            "iceberg_snapshot": str(cell.pinned) if cell is not None and cell.pinned else "",
        }
        shown = self._view_name(model.name) or model.name
        found: dict[str, Any] = {
            "name": shown.partition(".")[2],
            "qualifiedName": f"{self.document.catalog}.{shown}",
            "customProperties": {key: value for key, value in said.items() if value},
            "tags": [],
        }
        return found | ({"description": model.description} if model.description else {})

    def _schema_metadata(self, model: Document.Model) -> dict[str, Any]:
        keys = [one.lower() for one in model.grains[0]] if model.grains else []
        partitioned = {one.lower() for one in model.partitioned_by}
        return {
            "schemaName": self._view_name(model.name) or model.name,
            "platform": _PLATFORM,
            "version": 0,
            "hash": model.version,
            "platformSchema": {"com.linkedin.schema.OtherSchema": {"rawSchema": ""}},
            "fields": [
                _schema_field(one, one.name.lower() in keys, one.name.lower() in partitioned)
                for one in model.columns
            ],
            **({"primaryKeys": list(model.grains[0])} if model.grains else {}),
        }

    def _upstream_lineage(self, model: Document.Model) -> dict[str, Any]:
        kind = "TRANSFORMED" if model.has_table else "VIEW"
        parents: dict[str, None] = {}
        for name in self._parents(model):
            parents[self._dataset_urn(name)] = None
        hows: dict[str, dict[str, set[str]]] = {}
        for flow in self._flows(model):
            parents[self._dataset_urn(flow.parent)] = None
            if flow.column is not None and flow.source != "*":
                field = self._field_urn(flow.parent, flow.source)
                hows.setdefault(flow.column, {}).setdefault(field, set()).add(flow.how)
        return {
            "upstreams": [
                {"auditStamp": self._stamp, "dataset": urn, "type": kind} for urn in parents
            ],
            "fineGrainedLineages": [
                one
                for column, fields in sorted(hows.items())
                for one in self._column_lineage(model, column, fields)
            ],
        }

    def _column_lineage(
        self, model: Document.Model, column: str, fields: Mapping[str, set[str]]
    ) -> Iterator[dict[str, Any]]:
        """Yield the lineage of a column, with the source fields grouped by their use."""
        groups: dict[str, tuple[list[str], set[str]]] = {}
        for field, hows in sorted(fields.items()):
            for how in hows:
                group = (
                    "made"
                    if how in _DIRECT_USES
                    else "unknown"
                    if how in _UNKNOWN_USES
                    else "decides"
                )
                members, said = groups.setdefault(group, ([], set()))
                if field not in members:
                    members.append(field)
                said.add(how.upper())
        for group in sorted(groups):
            members, said = groups[group]
            yield {
                "upstreamType": "FIELD_SET",
                "upstreams": members,
                "downstreamType": "FIELD",
                "downstreams": [self._field_urn(model.name, column)],
                "transformOperation": ", ".join(sorted(said)),
                "confidenceScore": 0.5 if group == "unknown" else 1.0,
            }

    def _parents(self, model: Document.Model) -> Iterator[str]:
        for name in model.parents:
            parent = self._models.get(name)
            if parent is None or self._is_dataset(parent):
                yield name
            else:
                yield from self._parents(parent)

    def _flows(self, model: Document.Model) -> Iterator[Document.Flow]:
        for flow in model.flows:
            parent = self._models.get(flow.parent)
            if parent is None or self._is_dataset(parent):
                yield flow
                continue
            for inner in self._flows(parent):
                if inner.column is None:
                    yield inner
                elif inner.column.lower() == flow.source.lower():
                    outer = flow.how
                    how = (
                        inner.how if outer == "identity" or inner.how not in _DIRECT_USES else outer
                    )
                    yield replace(inner, column=flow.column, how=how)

    # -- assertions ----------------------------------------------------------------------------

    def _assertion_proposals(
        self, model: Document.Model, audit: Document.Audit
    ) -> Iterator[Proposal]:
        dataset = self._dataset_urn(model.name)
        number = hashlib.sha256(f"{dataset}\0{audit.name}".encode()).hexdigest()[:32]
        urn = f"urn:li:assertion:{number}"
        looked: dict[str, Any] = {
            "dataset": dataset,
            "scope": "DATASET_ROWS",
            "operator": "_NATIVE_",
            "nativeType": audit.name,
            "logic": audit.query,
        }
        called = _COLUMN_AUDIT.fullmatch(audit.name)
        if called is not None:
            columns = [name for _, name in split_columns(called[2])]
            looked |= {
                "scope": "DATASET_COLUMN",
                "fields": [self._field_urn(model.name, one) for one in columns],
                **({"operator": "NOT_NULL"} if called[1] == "not_null" else {}),
            }
        told = {"blocking": str(audit.blocking).lower(), "environment": self.environment.name}
        yield _proposal(
            "assertion",
            urn,
            "assertionInfo",
            {
                "type": "DATASET",
                "datasetAssertion": looked,
                "customProperties": told,
                "source": {"type": "EXTERNAL"},
                "description": audit.name,
            },
        )
        yield _proposal(
            "assertion",
            urn,
            "dataPlatformInstance",
            {"platform": _PLATFORM, "instance": self._instance},
        )
        cell = self._cells.get(model.name)
        table = self._tables.get(cell.table or "") if cell is not None else None
        for outcome in table.audits if table is not None else ():
            if (outcome.model, outcome.audit) == (model.name, audit.name):
                yield _proposal(
                    "assertion", urn, "assertionRunEvent", _run_event(outcome, urn, dataset)
                )


def _proposal(entity: str, urn: str, aspect: str, value: dict[str, Any]) -> Proposal:
    return {
        "entityType": entity,
        "entityUrn": urn,
        "changeType": "UPSERT",
        "aspectName": aspect,
        "aspect": {"json": value},
    }


def _run_event(outcome: Document.Outcome, urn: str, dataset: str) -> dict[str, Any]:
    passed = not outcome.failed_rows
    return {
        "timestampMillis": _milliseconds(outcome.at),
        "runId": outcome.plan,
        "asserteeUrn": dataset,
        "assertionUrn": urn,
        "status": "COMPLETE",
        "result": {
            "type": "SUCCESS" if passed else "FAILURE",
            "unexpectedCount": outcome.failed_rows,
            "nativeResults": {
                "from": outcome.range.start.isoformat(),
                "to": outcome.range.end.isoformat(),
            },
        },
    }


def _schema_field(column: Document.Column, is_key: bool, is_partition: bool) -> dict[str, Any]:
    name = re.match(r"\w*", (column.type or "").lower())
    head = name[0] if name is not None else ""
    type_ = _TYPES.get(head, "NullType")
    found: dict[str, Any] = {
        "fieldPath": column.name,
        "nullable": True,
        "type": {"type": {f"com.linkedin.schema.{type_}": {}}},
        "nativeDataType": column.type or "unknown",
        "recursive": False,
        "isPartOfKey": is_key,
        "isPartitioningKey": is_partition,
    }
    return found | ({"description": column.description} if column.description else {})


def _escape(text: str) -> str:
    return re.sub("[%,()␟]", lambda one: quote(one[0]), text)


def _milliseconds(at: datetime) -> int:
    return (at - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
