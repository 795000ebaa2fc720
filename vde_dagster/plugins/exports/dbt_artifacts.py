"""A project's document as dbt's `manifest.json` and `catalog.json`, for other tools.

Source: https://schemas.getdbt.com/dbt/manifest/v12.json and
https://schemas.getdbt.com/dbt/catalog/v1.json
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import Any

from vde_dagster.api.plans import PRODUCTION
from vde_dagster.api.reports import Document
from vde_dagster.api.sql import Edit, apply_edits, read_query
from vde_dagster.plugins.exports.audited_columns import split_columns

_MANIFEST = "https://schemas.getdbt.com/dbt/manifest/v12.json"
_CATALOG = "https://schemas.getdbt.com/dbt/catalog/v1.json"
_DBT_VERSION = "1.11.6"
"""The dbt version whose artifact format is written."""

_COLUMN_TESTS = {
    "not_null": ("not_null", "SELECT * FROM {0} WHERE {1} IS NULL"),
    "unique_values": (
        "unique",
        "SELECT {1}, count(*) FROM {0} WHERE {1} IS NOT NULL GROUP BY 1 HAVING count(*) > 1",
    ),
}
"""dbt's names and queries for tests of one column, by the equivalent audit."""
_EMPTY_PARTS = (
    *("macros", "docs", "metrics", "groups", "selectors", "disabled", "group_map"),
    *("saved_queries", "semantic_models", "unit_tests", "functions"),
)
"""Parts that dbt's schema of the manifest requires."""
_EXPOSURE_TYPES = {"exposure": "dashboard", "sync": "application", "metric": "analysis"}
"""Types of exposures in dbt by the kind of reader."""
_COLUMN_AUDIT = re.compile(r"(\w+)\(columns=\(([^()]*)\)\)")
_THIS = re.compile(r"@this_model\b", re.IGNORECASE)

Node = dict[str, Any]


def dbt_manifest(document: Document) -> dict[str, Any]:
    """Convert a document to the content of dbt's `manifest.json`, version 12."""
    return _Artifacts(document).manifest()


def dbt_catalog(document: Document) -> dict[str, Any]:
    """Convert a document's environment, or production, to dbt's `catalog.json`, version 1."""
    return _Artifacts(document).catalog()


@dataclass(frozen=True)
class _Artifacts:
    document: Document

    @cached_property
    def _package(self) -> str:
        return re.sub(r"\W", "_", self.document.project) or "project"

    @cached_property
    def _environment(self) -> Document.Environment | None:
        """The described environment; production if the document describes the project's files."""
        shown = self.document.environments
        if self.document.of != "files":
            return next(iter(shown), None)
        return next((one for one in shown if one.name == PRODUCTION), None)

    @cached_property
    def _cells(self) -> dict[str, Document.Cell]:
        found = self._environment
        return {one.model: one for one in found.models} if found is not None else {}

    @cached_property
    def _names(self) -> dict[str, str]:
        """dbt's names by model: `daily`, or `marts__daily` if two schemas have a model `daily`."""
        last = Counter(_split_name(model.name)[1] for model in self.document.models)
        found: dict[str, str] = {}
        taken = {name for name, models in last.items() if models == 1}
        for model in self.document.models:
            schema, name = _split_name(model.name)
            if last[name] > 1:
                name = f"{schema}__{name}"
                while name in taken:
                    name += "_"
                taken.add(name)
            found[model.name] = name
        return found

    @cached_property
    def _ids(self) -> dict[str, str]:
        found = {}
        for model in self.document.models:
            resource = _resource_type(model)
            name = model.name if resource == "source" else self._names[model.name]
            found[model.name] = f"{resource}.{self._package}.{name}"
        return found

    def _relation(self, model: Document.Model) -> tuple[str, str, str]:
        """Return (catalog, schema, name) of the environment's view, or else of the model."""
        cell = self._cells.get(model.name)
        schema, name = _split_name(cell.view if cell is not None and cell.view else model.name)
        return self.document.catalog, schema, name

    # -- the manifest --------------------------------------------------------------------------

    def manifest(self) -> dict[str, Any]:
        nodes: dict[str, Node] = {}
        sources: dict[str, Node] = {}
        for model in self.document.models:
            if _resource_type(model) == "source":
                sources[self._ids[model.name]] = self._source_node(model)
            else:
                nodes[self._ids[model.name]] = self._model_node(model)
        for model in self.document.models:
            nodes |= {test["unique_id"]: test for test in self._test_nodes(model)}
        exposures = {one["unique_id"]: one for one in self._exposure_nodes()}
        parents = {
            key: list(one.get("depends_on", {}).get("nodes", ()))
            for key, one in (nodes | sources | exposures).items()
        }
        children: dict[str, list[str]] = {key: [] for key in parents}
        for key, read in parents.items():
            for parent in read:
                children[parent].append(key)
        return {
            "metadata": self._metadata(_MANIFEST)
            | {
                "project_name": self._package,
                "project_id": hashlib.md5(
                    self._package.encode(), usedforsecurity=False
                ).hexdigest(),
                # Databricks' SQL is Spark's, and more tools support its name.
                "adapter_type": "databricks",
            },
            "nodes": nodes,
            "sources": sources,
            "exposures": exposures,
            "parent_map": parents,
            "child_map": {key: sorted(read) for key, read in children.items()},
            **{part: {} for part in _EMPTY_PARTS},
        }

    def _metadata(self, schema: str) -> dict[str, Any]:
        return {
            "dbt_schema_version": schema,
            "dbt_version": _DBT_VERSION,
            "generated_at": f"{self.document.as_of:%Y-%m-%dT%H:%M:%S.%fZ}",
            "invocation_id": None,
            "env": {"made_by": "vde-dagster", "of": self.document.of},
        }

    def _common_fields(self, model: Document.Model) -> Node:
        catalog, schema, name = self._relation(model)
        path = model.seed or model.path
        return {
            "database": catalog,
            "schema": schema,
            "package_name": self._package,
            "path": path.removeprefix("models/").removeprefix("seeds/"),
            "original_file_path": path,
            "relation_name": f"`{catalog}`.`{schema}`.`{name}`",
        }

    def _description_fields(self, model: Document.Model) -> Node:
        details = {
            "kind": model.kind,
            "version": model.version,
            "snapshot": model.snapshot,
            "cron": model.cron,
            "owner": model.owner,
        }
        return {
            "description": model.description or "",
            "columns": {column.name: _column_fields(column) for column in model.columns},
            "tags": list(model.tags),
            "meta": {"vde": {key: value for key, value in details.items() if value is not None}},
        }

    def _model_node(self, model: Document.Model) -> Node:
        schema, name = _split_name(model.name)
        resource = _resource_type(model)
        checksum = hashlib.sha256(model.source.strip().encode()).hexdigest()
        node = {
            **self._common_fields(model),
            **self._description_fields(model),
            "name": self._names[model.name],
            "resource_type": resource,
            "unique_id": self._ids[model.name],
            "fqn": [self._package, schema, name],
            "alias": self._relation(model)[2],
            "checksum": {"name": "sha256", "checksum": checksum},
            "config": {
                "enabled": True,
                "materialized": _materialization(model),
                "tags": list(model.tags),
            },
            "docs": {"show": True, "node_color": None},
            "raw_code": model.source,
        }
        if resource == "seed":
            return node | {"depends_on": {"macros": []}}
        if model.grains:
            node["primary_key"] = list(model.grains[0])
        compiled = model.query is not None
        return node | {
            "language": "sql" if compiled else "python",
            "compiled": compiled,
            "compiled_code": self._compiled_query(model),
            "compiled_path": None,
            **self._parent_fields(model.parents),
        }

    def _compiled_query(self, model: Document.Model) -> str | None:
        # Tools read a model's parents from this query.
        if model.query is None or model.opaque is not None:
            return model.query
        edits = []
        for table in read_query(model.query).tables:
            found = self._relation_names.get(
                ".".join(part.name for part in table.parts[-2:]).lower()
            )
            if found is not None:
                first, last = table.parts[0], table.parts[-1]
                edits.append(Edit(first.meta["start"], last.meta["end"] + 1, found))
        return apply_edits(model.query, edits)

    @cached_property
    def _relation_names(self) -> dict[str, str]:
        return {
            model.name: str(self._common_fields(model)["relation_name"])
            for model in self.document.models
            if _materialization(model) != "ephemeral"
        }

    def _parent_fields(self, names: Sequence[str]) -> Node:
        known = [name for name in names if name in self._ids]
        sources = [name for name in known if self._ids[name].startswith("source.")]
        return {
            "refs": [
                {"name": self._names[name], "package": None, "version": None}
                for name in known
                if name not in sources
            ],
            "sources": [list(_split_name(name)) for name in sources],
            "metrics": [],
            "depends_on": {"macros": [], "nodes": [self._ids[name] for name in known]},
        }

    def _source_node(self, model: Document.Model) -> Node:
        schema, name = _split_name(model.name)
        return {
            **self._common_fields(model),
            **self._description_fields(model),
            "name": name,
            "resource_type": "source",
            "unique_id": self._ids[model.name],
            "fqn": [self._package, schema, name],
            "source_name": schema,
            "source_description": "",
            "loader": "",
            "identifier": self._relation(model)[2],
        }

    def _exposure_nodes(self) -> Iterator[Node]:
        # In dbt, their names share one namespace.
        seen: set[str] = set()
        for one in self.document.exposures:
            name = re.sub(r"\W", "_", one.name)
            numbered = (f"{name}_{number}" for number in count(2))
            names = chain((name, f"{one.what}_{name}"), numbered)
            name = next(free for free in names if free not in seen)
            seen.add(name)
            yield self._exposure_node(one, name)

    def _exposure_node(self, one: Document.Exposure, name: str) -> Node:
        read = list(dict.fromkeys(model for model, _ in one.reads))
        owner = {"email": one.owner} if one.owner and "@" in one.owner else {"name": one.owner}
        return {
            "name": name,
            "resource_type": "exposure",
            "package_name": self._package,
            "path": "",
            "original_file_path": "",
            "unique_id": f"exposure.{self._package}.{name}",
            "fqn": [self._package, name],
            "type": _EXPOSURE_TYPES[one.what],
            "label": one.name,
            "owner": owner,
            "url": one.url or "",  # Tools refuse null, though dbt's schema allows it.
            "description": one.description or "",
            **self._parent_fields(read),
        }

    # -- tests ---------------------------------------------------------------------------------

    def _test_nodes(self, model: Document.Model) -> Iterator[Node]:
        # An audit becomes one of dbt's own tests if possible, otherwise a test with a query.
        seen = Counter[str]()
        for audit in model.audits:
            called = _COLUMN_AUDIT.fullmatch(audit.name)
            if called is None or called[1] not in _COLUMN_TESTS:
                name = f"{audit.name.partition('(')[0]}_{self._names[model.name]}"
                seen[name] += 1
                number = "" if seen[name] == 1 else f"_{seen[name]}"
                yield self._test_node(model, audit, f"{name}{number}")
                continue
            test, query = _COLUMN_TESTS[called[1]]
            relation = self._common_fields(model)["relation_name"]
            for column, name in split_columns(called[2]):
                yield {
                    **self._test_node(model, audit, f"{test}_{self._names[model.name]}_{name}"),
                    "column_name": name,
                    "attached_node": self._ids[model.name],
                    "test_metadata": {
                        "name": test,
                        "kwargs": {"column_name": column},
                        "namespace": None,
                    },
                    "compiled_code": query.format(relation, column),
                }

    def _test_node(self, model: Document.Model, audit: Document.Audit, name: str) -> Node:
        number = hashlib.sha256(f"{model.name} {audit.name} {name}".encode()).hexdigest()[:10]
        severity = "ERROR" if audit.blocking else "WARN"
        relation = str(self._common_fields(model)["relation_name"])
        return {
            **self._common_fields(model),
            "relation_name": None,
            "name": name,
            "resource_type": "test",
            "unique_id": f"test.{self._package}.{name}.{number}",
            "fqn": [self._package, *_split_name(model.name), name],
            "alias": name,
            "checksum": {"name": "none", "checksum": ""},
            "config": {"enabled": True, "materialized": "test", "severity": severity},
            "description": audit.name,
            "columns": {},
            "tags": [],
            "raw_code": audit.query,
            "language": "sql",
            "compiled": True,
            "compiled_code": _THIS.sub(lambda _: relation, audit.query),
            **self._parent_fields([model.name]),
        }

    # -- the catalog ---------------------------------------------------------------------------

    def catalog(self) -> dict[str, Any]:
        nodes: dict[str, Node] = {}
        sources: dict[str, Node] = {}
        for model in self.document.models:
            if model.name not in self._cells or _materialization(model) == "ephemeral":
                continue
            of = sources if _resource_type(model) == "source" else nodes
            of[self._ids[model.name]] = self._catalog_node(model)
        metadata = self._metadata(_CATALOG)
        return {"metadata": metadata, "nodes": nodes, "sources": sources, "errors": None}

    def _catalog_node(self, model: Document.Model) -> Node:
        catalog, schema, name = self._relation(model)
        rows = self._cells[model.name].rows
        return {
            "unique_id": self._ids[model.name],
            "metadata": {
                "type": "table" if model.has_table else "view",
                "schema": schema,
                "name": name,
                "database": catalog,
                "comment": model.description,
                "owner": model.owner,
            },
            "columns": {
                column.name: {
                    "type": column.type or "",
                    "index": index,
                    "name": column.name,
                    "comment": column.description,
                }
                for index, column in enumerate(model.columns, 1)
            },
            "stats": {
                "has_stats": _stat("has_stats", "Has Stats?", rows is not None, False),
                **({} if rows is None else {"num_rows": _stat("num_rows", "Rows", rows, True)}),
            },
        }


def _split_name(name: str) -> tuple[str, str]:
    schema, _, last = name.partition(".")
    return schema, last


def _resource_type(model: Document.Model) -> str:
    return {"EXTERNAL": "source", "SEED": "seed"}.get(model.kind, "model")


def _materialization(model: Document.Model) -> str:
    if model.kind == "SEED":
        return "seed"
    if model.kind == "EXTERNAL":
        return "source"
    if not model.is_shown:
        return "ephemeral"
    if not model.has_table:
        return "view"
    return "table" if model.kind == "FULL" else "incremental"


def _column_fields(column: Document.Column) -> Node:
    details = {"vde": {"inherited_from": column.inherited_from}} if column.inherited_from else {}
    return {
        "name": column.name,
        "description": column.description or "",
        "data_type": column.type,
        "meta": details,
        "tags": [],
        "constraints": [],
    }


def _stat(name: str, label: str, value: bool | int, include: bool) -> Node:
    return {"id": name, "label": label, "value": value, "include": include, "description": ""}
