"""The project as Dagster sees it: live models with their asset keys, partitions and checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone

import dagster as dg

from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.live import LiveModel, LiveProject
from vde_dagster.orchestration.models.partitions import model_partitions
from vde_dagster.orchestration.models.translator import VdeTranslator, safe_name
from vde_dagster.orchestration.names import Names
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Audit


@dataclass(frozen=True)
class AssetCatalog:
    """Names and partitions of everything in a code location.

    Args:
        live: The models with their live versions.
        specs: What the translator made of each model, by name.
        partitions: Partitions by model; None for models that are never filled.
        translator: For tables that are no models.
    """

    live: LiveProject
    specs: Mapping[ModelName, dg.AssetSpec]
    partitions: Mapping[ModelName, dg.PartitionsDefinition | None]
    translator: VdeTranslator
    _more: dict[str, dg.PartitionsDefinition | None] = field(default_factory=dict)

    @property
    def names(self) -> Names:
        """The names of the project's other assets, of jobs and partitions."""
        return self.translator.names

    def key(self, name: ModelName) -> dg.AssetKey:
        """Return the asset key of a model or of a table that models read."""
        spec = self.specs.get(name)
        return spec.key if spec is not None else self.translator.get_asset_key(name)

    def partitions_of(self, snapshot: Snapshot) -> dg.PartitionsDefinition | None:
        """Return the partitions that a snapshot's intervals are shown by.

        A plan may hold models, or kinds of a model, that the location was not loaded with.
        """
        known = self.live.models.get(snapshot.name)
        if known is not None and known.snapshot.is_incremental == snapshot.is_incremental:
            return self.partitions.get(snapshot.name)
        if snapshot.id not in self._more:
            from vde_dagster.orchestration.models.live import LiveVersion

            version = LiveVersion(snapshot.table_version, snapshot, None, (), {})
            model = LiveModel(snapshot.name, snapshot, (version,))
            now = datetime.now(timezone.utc)
            self._more[snapshot.id] = model_partitions(model, snapshot.model.start_at(now), now)
        return self._more[snapshot.id]


def build_catalog(live: LiveProject, translator: VdeTranslator, now: datetime) -> AssetCatalog:
    """Give every live model its spec and its partitions.

    Args:
        live: The models.
        translator: Makes the specs.
        now: The present (UTC).
    """
    specs = {name: translator.get_asset_spec(model) for name, model in live.models.items()}
    partitions = {
        name: model_partitions(model, live.starts.get(name), now)
        for name, model in live.models.items()
    }
    return AssetCatalog(live, specs, partitions, translator)


def check_names(audits: Iterable[Audit]) -> dict[str, str]:
    """Return the check's name of each audit of a model, by the audit's label.

    Labels hold SQL, names only letters, digits and `_`; two labels never share a name.
    """
    names: dict[str, str] = {}
    for audit in audits:
        name = re.sub("_+", "_", safe_name(audit.label)).strip("_")[:80]
        if name in names.values() and audit.label not in names:
            name = f"{name}_{digest(audit.label)[:6]}"
        names[audit.label] = name
    return names
