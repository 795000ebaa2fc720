"""Progress of recording in Dagster, which pages show until every filled partition has an event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import dagster as dg

from vde_dagster.base.names import ModelName
from vde_dagster.orchestration.models.catalog import AssetCatalog, count_partitions
from vde_dagster.orchestration.models.live import LiveVersion
from vde_dagster.state.store import StateStore


def filled_counts(catalog: AssetCatalog) -> dict[ModelName, int]:
    """Count the filled partitions of each model's published versions."""

    def count(version: LiveVersion) -> int:
        if version.table is None:
            return int(version.snapshot.is_virtual)
        return count_partitions(catalog.partitions_of(version.snapshot), version.table.intervals)

    return {
        name: sum(count(version) for version in model.versions if version.environments)
        for name, model in catalog.live.models.items()
    }


def with_recording_note(catalog: AssetCatalog, store: StateStore) -> AssetCatalog:
    """Return the catalog with a note on Dagster's progress, unless all fills are recorded."""
    left = store.outbox.last_remaining()
    if left is None and not store.outbox.has_work_outside_dagster():
        return catalog
    counts = filled_counts(catalog) if left != 0 else {}
    total = sum(counts.values())
    left = total if left is None else min(left, total)
    if not left:
        return catalog
    note = (
        f"**Dagster has recorded {total - left:,} of {total:,} filled partitions so far.** "
        "It shows the others as missing."
    )

    def with_note(spec: dg.AssetSpec) -> dg.AssetSpec:
        # The catalog lists the first line, which is the author's.
        first, _, rest = (spec.description or "").partition("\n\n")
        return spec.replace_attributes(description="\n\n".join(filter(None, (first, note, rest))))

    specs = {
        name: with_note(spec) if counts[name] else spec for name, spec in catalog.specs.items()
    }
    return replace(catalog, specs=specs, recording=note)


@dataclass
class Recording:
    """Counts the partitions that still lack an event while a sync writes events."""

    store: StateStore
    consumer: str
    counts: Mapping[ModelName, int]
    left: int = field(init=False)
    _open: int = field(init=False)
    _done: set[ModelName] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = self._open = sum(self.counts.values())

    def add(self, events: int) -> None:
        self.left = max(self.left - events, 1)
        self.store.outbox.set_remaining(self.consumer, self.left)

    def finish(self, name: ModelName | None) -> None:
        if name is not None and name not in self._done:
            self._done.add(name)
            self._open -= self.counts.get(name, 0)
            self.left = self._open

    def complete(self) -> None:
        self.left = 0
        self.store.outbox.set_remaining(self.consumer, 0)
