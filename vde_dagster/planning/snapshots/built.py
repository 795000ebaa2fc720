"""The task of building a model's snapshot, and its result with its stored form."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import field_types, from_bytes, to_bytes


class BuildTask(NamedTuple):
    """A model whose snapshot must be built, with its parents' snapshots.

    Args:
        key: The result's key in the cache.
    """

    key: str
    model: Model
    parents: dict[ModelName, Snapshot]
    audited: dict[ModelName, Snapshot]


class BuildRules(NamedTuple):
    """The arguments of `build_and_check_snapshot` that are the same for all models."""

    scalar_functions: tuple[str, ...]
    functions: tuple[str, ...]
    canonicaliser: str


class BuiltSnapshot(NamedTuple):
    """A built snapshot, the hash that its children depend on, and its problems."""

    snapshot: Snapshot
    seen: str
    problems: tuple[Problem, ...] = ()


def pack(built: BuiltSnapshot) -> bytes:
    """Serialize a built snapshot for the cache, without its model."""
    snapshot, seen, problems = built
    values = (getattr(snapshot, name) for name in _stored()[0])
    return to_bytes((seen, problems, *values))


def unpack(data: bytes, model: Model) -> BuiltSnapshot:
    """Read a snapshot that `pack` serialized, or raise ValueError if the data is damaged."""
    names, form = _stored()
    seen, problems, *values = from_bytes(form, data)
    return BuiltSnapshot(
        Snapshot(model=model, **dict(zip(names, values, strict=True))), seen, problems
    )


@cache
def _stored() -> tuple[tuple[str, ...], Any]:
    types = field_types(Snapshot, without="model")
    return tuple(types), tuple[(str, tuple[Problem, ...], *types.values())]  # type: ignore[misc]
