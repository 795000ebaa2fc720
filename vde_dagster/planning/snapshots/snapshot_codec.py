"""Snapshots as JSON: with their models for the state store, without them for the memo on disk.

The memo's key stands for everything that decides a snapshot, its model among it, and who asks has
the model at hand. Lists without names parse fast: a rollback of a thousand models reads a thousand.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Forward, OutputColumn, Read, Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.model_codec import model_from_json, model_to_json
from vde_dagster.project.problem import Problem
from vde_dagster.semantics import SemanticVersion

Json = Any


def stored_to_json(snapshot: Snapshot) -> list[Json]:
    """Write a snapshot together with its model."""
    return [model_to_json(snapshot.model), snapshot_to_json(snapshot)]


def stored_from_json(data: list[Json]) -> Snapshot:
    """Read what `stored_to_json` wrote.

    Raises:
        KeyError, TypeError, ValueError: It has another form.
    """
    model, rest = data
    return snapshot_from_json(model_from_json(model), rest)


def snapshot_to_json(snapshot: Snapshot) -> list[Json]:
    """Write everything but the model, which has a form of its own (`project.model_codec`)."""
    version, forward = snapshot.version, snapshot.forward
    extends = [] if forward is None else [_forward_to_json(forward)]
    return [
        snapshot.id,
        [version.rows, version.columns, version.opaque, [sorted(k) for k in version.unique_keys]],
        snapshot.fill_version,
        snapshot.metadata_hash,
        snapshot.layout_hash,
        snapshot.columns,
        [[parent.namespace, parent.name] for parent in snapshot.parents],
        snapshot.canonicaliser,
        snapshot.definition_hash,
        snapshot.reads,
        *extends,
    ]


def _forward_to_json(forward: Forward) -> Json:
    own = [forward.own_id, forward.rows, forward.fill_version]
    return [forward.table_id, *own, forward.columns]


def _forward_from_json(data: Json) -> Forward:
    table_id, own_id, rows, fill, columns = data
    return Forward(table_id, own_id, rows, fill, tuple((name, value) for name, value in columns))


def snapshot_from_json(model: Model, data: list[Json]) -> Snapshot:
    """Read what `snapshot_to_json` wrote.

    Raises:
        ValueError, TypeError: It has another form.
    """
    known, extends = data[:10], data[10:]
    id_, version, fill, metadata, layout, columns, parents, canonicaliser, definition, reads = known
    rows, versions, opaque, keys = version
    return Snapshot(
        id_,
        model,
        SemanticVersion(rows, versions, opaque, tuple(frozenset(key) for key in keys)),
        fill,
        metadata,
        layout,
        tuple(map(OutputColumn._make, columns)),
        tuple(ModelName(*parent) for parent in parents),
        canonicaliser,
        definition,
        tuple(map(Read._make, reads)),
        _forward_from_json(*extends) if extends else None,
    )


class Built(NamedTuple):
    """What is made of one model.

    Args:
        seen: What its children see of it, see `as_seen`.
        problems: What the checks say of it.
    """

    snapshot: Snapshot
    seen: str
    problems: tuple[Problem, ...] = ()


class Memo:
    """Remembers what was made of models, by the key of everything that decides.

    The default remembers nothing; the execution layer keeps one on disk.
    """

    def get(self, key: str, model: Model) -> Built | None:
        """Return what is stored under a key, if anything, with the model put into it."""
        return None

    def put(self, key: str, built: Built) -> None:
        """Store what was made of a model."""
