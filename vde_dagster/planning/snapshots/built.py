"""The task of building a model's snapshot, and its result with its stored form."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.names import ModelName
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.serialise import field_types, from_bytes, to_bytes


class Task(NamedTuple):
    """A snapshot to build, with the snapshots of the model's parents and of models in its audits.

    Args:
        key: The result's key in the memo.
    """

    key: str
    model: Model
    parents: dict[ModelName, Snapshot]
    audited: dict[ModelName, Snapshot]


class Rules(NamedTuple):
    """Arguments of `checked_snapshot` that are the same for all models of a project."""

    scalar_functions: tuple[str, ...]
    functions: tuple[str, ...]
    canonicaliser: str


class Built(NamedTuple):
    """A model's snapshot, the hash that its children see (`as_seen`), and its problems."""

    snapshot: Snapshot
    seen: str
    problems: tuple[Problem, ...] = ()


def pack(built: Built) -> bytes:
    """Serialize a result without its model."""
    snapshot, seen, problems = built
    values = (getattr(snapshot, name) for name in _stored()[0])
    return to_bytes((seen, problems, *values))


def unpack(data: bytes, model: Model) -> Built:
    """Read the form of `pack`.

    Raises:
        ValueError: The data is damaged.
    """
    names, form = _stored()
    seen, problems, *values = from_bytes(form, data)
    return Built(Snapshot(model=model, **dict(zip(names, values, strict=True))), seen, problems)


@cache
def _stored() -> tuple[tuple[str, ...], Any]:
    """Return the fields of a snapshot, without its model, and their stored form."""
    types = field_types(Snapshot, without="model")
    return tuple(types), tuple[(str, tuple[Problem, ...], *types.values())]  # type: ignore[misc]
