"""Translator from models to Dagster's asset specs: the one place to customize them."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.description import describe_model
from vde_dagster.orchestration.models.live import LiveModel
from vde_dagster.orchestration.names import (
    CONTROL_ASSETS,
    POOL,
    SHORT,
    Names,
    dagster_name,
    dagster_owners,
    dagster_tag,
)
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Automation, Exposure, Model
from vde_dagster.reports.markdown import markdown_table
from vde_dagster.semantics.versions.lineage import EVERY_COLUMN


class VdeTranslator:
    """Maps models to assets. To change the assets, override methods in a subclass.

    `vde_definitions` adds the parents, the partitions, the code version and the checks to the
    result of `get_asset_spec`, and makes the asset's step with the retry policy, the op tags and
    the pool.

    Example:
        ```python
        from dagster import AutomationCondition
        from vde_dagster.orchestration import VdeTranslator, vde_definitions

        class Translator(VdeTranslator):
            def get_automation_condition(self, model):
                return AutomationCondition.eager() if "hot" in model.tags else None

        defs = vde_definitions(project_root, Translator(project_root))
        ```

    Args:
        root: The project's folder, for links to source files; None for no links.
        catalog: The Iceberg catalog's name, a part of table names.
    """

    names: Names = SHORT
    given: Mapping[ModelName, tuple[str, ...]] = {}
    """Key parts of models whose source defines their asset key."""
    reserved: Set[tuple[str, ...]] = frozenset()
    """Key parts of the project's assets that are not models."""
    docs_url: str | None = None
    """URL of the project's documentation site."""

    def __init__(self, root: Path | None = None, catalog: str = "lakehouse") -> None:
        self.root = root
        self.catalog = catalog

    def with_names(self, names: Names, docs_url: str | None = None) -> VdeTranslator:
        """Return a copy with a project's names, for its code location.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def with_names(self, names, docs_url=None):
                    return super().with_names(names, "https://docs.example.com/lake")
            ```
        """
        found = copy.copy(self)
        found.names, found.docs_url = names, docs_url
        return found

    def with_model_keys(
        self, models: Mapping[ModelName, LiveModel], readers: Iterable[Exposure] = ()
    ) -> VdeTranslator:
        """Return a copy with the asset keys that models' sources define.

        If a model would share a key with another asset of the project, its key consists of its
        schema and name.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def with_model_keys(self, models, readers=()):
                    found = super().with_model_keys(models, readers)
                    found.given = {}  # ignores the keys of dbt's `meta.dagster.asset_key`
                    return found
            ```

        Args:
            readers: Exposures, syncs and metrics of the project.
        """
        found = copy.copy(self)
        found.reserved = {
            *(("vde", name) for name in CONTROL_ASSETS),
            *(_reader_key(reader) for reader in readers),
        }
        assets = {name: model.snapshot.model.asset for name, model in models.items()}
        found.given = {name: asset.key for name, asset in assets.items() if asset and asset.key}
        while True:
            taken = Counter((*found.reserved, *map(found._key_parts, models)))
            left = {name: key for name, key in found.given.items() if taken[key] == 1}
            if len(left) == len(found.given):
                return found
            found.given = left

    def get_asset_key(self, name: ModelName) -> dg.AssetKey:
        """Return the asset key of a model or of a table that models read, with the prefix.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_asset_key(self, name):
                    return super().get_asset_key(name).with_prefix("lake")
            ```
        """
        return self.names.asset_key(*self._key_parts(name))

    def _key_parts(self, name: ModelName) -> tuple[str, ...]:
        plain = (name.namespace, name.name)
        return self.given.get(name) or (("model", *plain) if plain in self.reserved else plain)

    def get_asset_spec(self, model: LiveModel) -> dg.AssetSpec:
        """Return a model's spec, from the results of the other methods.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_asset_spec(self, model):
                    spec = super().get_asset_spec(model)
                    return spec.merge_attributes(tags={"layer": model.name.namespace})
            ```
        """
        definition = model.snapshot.model
        return dg.AssetSpec(
            key=self.get_asset_key(model.name),
            description=self.get_description(model),
            group_name=self.names.named(dagster_name(self.get_group(model))),
            kinds=self.get_kinds(definition),
            owners=self.get_owners(definition),
            tags={dagster_tag(tag): "" for tag in definition.tags if tag.strip()},
            metadata=self.get_metadata(model),
            freshness_policy=self.get_freshness_policy(definition),
            automation_condition=self.get_automation_condition(definition),
        )

    def get_freshness_policy(self, model: Model) -> dg.FreshnessPolicy | None:
        """Return the policy for the model's property `freshness`, which Dagster evaluates.

        Example:
            ```python
            from datetime import timedelta
            from dagster import FreshnessPolicy
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_freshness_policy(self, model):
                    if "hourly" not in model.tags:
                        return super().get_freshness_policy(model)
                    return FreshnessPolicy.time_window(fail_window=timedelta(hours=2))
            ```
        """
        if model.freshness is None:
            return None
        return dg.FreshnessPolicy.time_window(fail_window=timedelta(seconds=model.freshness))

    def get_automation_condition(self, model: Model) -> dg.AutomationCondition[Any] | None:
        """Return the condition under which Dagster's daemon materializes a model's partitions.

        Example:
            ```python
            from dagster import AutomationCondition
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_automation_condition(self, model):
                    if "reports" in model.tags:
                        return AutomationCondition.on_cron("0 6 * * *", "Europe/Berlin")
                    return super().get_automation_condition(model)
            ```
        """
        match model.automation_condition:
            case Automation("eager"):
                return dg.AutomationCondition.eager()
            case Automation("on_missing"):
                return dg.AutomationCondition.on_missing()
            case Automation("on_cron", cron, zone):
                return dg.AutomationCondition.on_cron(cron, zone)
        return None

    def get_retry_policy(self, model: Model) -> dg.RetryPolicy | None:
        """Return the retry policy of a model's step.

        Errors that would recur are not retried.

        Example:
            ```python
            from dagster import Backoff, RetryPolicy
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_retry_policy(self, model):
                    default = RetryPolicy(3, delay=30, backoff=Backoff.EXPONENTIAL)
                    return super().get_retry_policy(model) or default
            ```
        """
        policy = model.retry_policy
        if policy is None:
            return None
        return dg.RetryPolicy(
            policy.max_retries,
            policy.delay,
            dg.Backoff(policy.backoff.upper()) if policy.backoff else None,
            dg.Jitter(policy.jitter.upper()) if policy.jitter else None,
        )

    def get_op_tags(self, model: Model) -> Mapping[str, Any]:
        """Return the tags of a model's step, for executors such as Kubernetes and Celery.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_op_tags(self, model):
                    limits = {"memory": "16Gi" if "big" in model.tags else "4Gi"}
                    container = {"container_config": {"resources": {"limits": limits}}}
                    return {**super().get_op_tags(model), "dagster-k8s/config": container}
            ```
        """
        return dict(model.op_tags)

    def get_pool(self, model: Model) -> str | None:
        """Return the pool that limits how many steps of models run at a time.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_pool(self, model):
                    return "vde_python" if model.python else super().get_pool(model)
            ```
        """
        return model.pool or POOL

    def get_exposure_spec(
        self, exposure: Exposure, asset_key: Callable[[ModelName], dg.AssetKey]
    ) -> dg.AssetSpec:
        """Return the spec of a dashboard or another reader, which is never materialized.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_exposure_spec(self, exposure, asset_key):
                    spec = super().get_exposure_spec(exposure, asset_key)
                    return spec.replace_attributes(group_name="dashboards")
            ```
        """
        all_of = dg.AllPartitionMapping()
        models = dict.fromkeys(model for model, _, _ in exposure.reads)
        url = {"url": dg.MetadataValue.url(exposure.url)} if exposure.url else {}
        return dg.AssetSpec(
            key=self.names.asset_key(*_reader_key(exposure)),
            deps=[dg.AssetDep(asset_key(model), partition_mapping=all_of) for model in models],
            description=f"{exposure.name}, see {exposure.location}.",
            group_name=self.names.group,
            kinds={"exposure"},
            owners=dagster_owners([exposure.owner]),
            metadata=url,
        )

    def get_kinds(self, model: Model) -> set[str]:
        """Return the kinds, shown as icons on the model's node.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_kinds(self, model):
                    return {*super().get_kinds(model), "gold"} - {"sql"}
            ```
        """
        if model.kind.is_external:
            return {"iceberg"}
        if not model.kind.is_read:
            return {"sql"}
        return {"spark", "iceberg", "python" if model.python else "sql"}

    def get_group(self, model: LiveModel) -> str:
        """Return the group's name without the prefix: from the model's source, or its schema.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_group(self, model):
                    return next(iter(model.snapshot.model.tags), model.name.namespace)
            ```
        """
        asset = model.snapshot.model.asset
        return (asset.group if asset else None) or model.name.namespace

    def get_owners(self, model: Model) -> list[str]:
        """Return owners in the form that Dagster accepts: addresses and teams.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_owners(self, model):
                    return super().get_owners(model) or ["team:data-platform"]
            ```
        """
        others = model.asset.owners if model.asset else ()
        return dagster_owners((model.owner, *others))

    def get_description(self, model: LiveModel) -> str:
        """Return Markdown: the author's text, the state, an error in the file, and the source.

        Dagster's catalog lists only the first line.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_description(self, model):
                    return model.snapshot.model.description or "Not described yet"
            ```
        """
        return describe_model(model)

    def get_metadata(self, model: LiveModel) -> dict[str, Any]:
        """Return the definition's metadata: columns, lineage, table name, source, versions.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_metadata(self, model):
                    wiki = f"https://wiki.example.com/{model.name}"
                    return {**super().get_metadata(model), "wiki": wiki}
            ```
        """
        snapshot = model.published or model.snapshot
        definition = snapshot.model
        metadata: dict[str, Any] = {
            "vde/kind": definition.kind.name,
            "vde/cron": definition.cron,
            **({"vde/version": model.current.key} if model.current else {}),
        }
        if definition.kind.is_read:
            metadata["dagster/table_name"] = f"{self.catalog}.{model.name}"
            metadata["dagster/storage_kind"] = "iceberg"
        if (schema := self.get_column_schema(model)) is not None:
            metadata["dagster/column_schema"] = schema
        if definition.query and definition.query.strip() != definition.source.strip():
            rendered = dg.MetadataValue.md(f"```sql\n{definition.query}\n```")
            metadata["vde/rendered"] = rendered
        if (lineage := self.get_column_lineage(model)) is not None:
            metadata["dagster/column_lineage"] = lineage
        if rows := _lineage_rows(snapshot):
            metadata["vde/column_lineage"] = dg.MetadataValue.md(markdown_table(rows))
        if model.versions:
            versions: list[dict[str, object]] = [
                {"version": f"`{one.key}`", "shown by": ", ".join(one.labels)}
                for one in model.versions
            ]
            metadata["vde/versions"] = dg.MetadataValue.md(markdown_table(versions))
        if model.error:
            metadata["vde/error"] = model.error
        metadata.update(self._source(definition))
        if self.docs_url is not None:
            site = self.docs_url.rstrip("/") + ("" if self.docs_url.endswith(".html") else "/")
            page = f"{site}#/model/{quote(str(model.name), safe='')}"
            metadata["vde/docs"] = dg.MetadataValue.url(page)
        return metadata

    def get_column_schema(self, model: LiveModel) -> dg.TableSchema | None:
        """Return the columns with types and descriptions; None if they are not known.

        Example:
            ```python
            from dagster import TableColumn, TableSchema
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_column_schema(self, model):
                    known = super().get_column_schema(model)
                    shown = [c for c in known.columns if c.name != "ssn"] if known else []
                    return TableSchema(shown)
            ```
        """
        snapshot = model.published or model.snapshot
        if not snapshot.columns:
            return None
        built = (version.table for version in model.versions if version.table is not None)
        types = {column.version: column.type for table in built for column in table.columns}
        return dg.TableSchema(
            [
                dg.TableColumn(
                    column.name,
                    column.type or types.get(column.version) or "unknown",
                    description=column.description,
                )
                for column in snapshot.columns
            ]
        )

    def get_column_lineage(self, model: LiveModel) -> dg.TableColumnLineage | None:
        """Return the parents' columns that each column is computed from, or None without lineage.

        Example:
            ```python
            from vde_dagster.orchestration import VdeTranslator

            class Translator(VdeTranslator):
                def get_column_lineage(self, model):
                    return None if "pii" in model.snapshot.model.tags else (
                        super().get_column_lineage(model)
                    )
            ```
        """
        reads = (model.published or model.snapshot).reads
        columns: dict[str, list[dg.TableColumnDep]] = {}
        parents = dict.fromkeys(read.parent for read in reads)
        keys = {parent: self.get_asset_key(ModelName.parse(parent)) for parent in parents}
        for read in reads:
            if read.output is not None and read.column != EVERY_COLUMN:
                key = keys[read.parent]
                dependency = dg.TableColumnDep(asset_key=key, column_name=read.column)
                found = columns.setdefault(read.output, [])
                if dependency not in found:
                    found.append(dependency)
        return dg.TableColumnLineage(columns) if reads else None

    def _source(self, model: Model) -> dict[str, Any]:
        if self.root is None or not str(model.location.path):
            return {}
        path = model.location.path
        file = str(path if path.is_absolute() else self.root / path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Code references are a beta feature of Dagster.
            reference = dg.LocalFileCodeReference(
                file_path=file, line_number=model.location.line or 1, label=str(path)
            )
            references = dg.CodeReferencesMetadataValue(code_references=[reference])
        return {"dagster/code_references": references}


def _lineage_rows(snapshot: Snapshot) -> list[dict[str, object]]:
    return [
        {
            "column": read.output or "*rows*",
            "computed from": f"{read.parent}.{read.column}",
            "how": read.how,
        }
        for read in snapshot.reads
    ]


def _reader_key(reader: Exposure) -> tuple[str, ...]:
    name = dagster_name(reader.name) if reader.what == "exposure" else reader.name
    return reader.what, name
