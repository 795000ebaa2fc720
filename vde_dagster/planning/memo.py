"""What is remembered of models between processes, by the key of everything that decides it."""

from __future__ import annotations

from typing import NamedTuple

from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Model
from vde_dagster.project.problem import Problem


class Built(NamedTuple):
    """What is made of one model.

    Args:
        snapshot: Its snapshot.
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
