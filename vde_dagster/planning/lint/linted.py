"""A model as rules look at it, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.snapshot import Snapshot
from vde_dagster.project.model import Model

if TYPE_CHECKING:
    from sqlglot import exp


class Violation(NamedTuple):
    """What a rule says of a model.

    Args:
        message: What is wrong, in one sentence.
        location: Where in the project.
    """

    message: str
    location: SourceLocation


@dataclass(frozen=True)
class Linted:
    """A model with what rules may ask about it.

    Args:
        snapshot: Its snapshot.
        parents: The snapshots of the models that it reads.
        tested: Whether it has a unit test.
        undeclared: Tables that it reads, and that the project neither makes nor declares.
    """

    snapshot: Snapshot
    parents: Mapping[ModelName, Snapshot]
    tested: bool
    undeclared: tuple[ModelName, ...]

    @property
    def model(self) -> Model:
        """The model."""
        return self.snapshot.model

    @cached_property
    def tree(self) -> exp.Expr | None:
        """The tree of its query; None of a model that has none."""
        if self.model.query is None:
            return None
        from vde_dagster.sql.reading import read_query

        return read_query(self.model.query).tree

    def violation(self, message: str, *words: str) -> Violation:
        """Say what is wrong, at words of the model's header or where it begins."""
        from vde_dagster.planning.checks.places import place_in_header

        where = place_in_header(self.model, *words) if words else self.model.location
        return Violation(f"{self.model.name} {message}", where)


Check = Callable[[Linted], Iterator[Violation]]


def check_of(rule: str) -> Check:
    """Return the function of one of `RULES`."""
    check: Check = import_module(f"vde_dagster.planning.lint.{rule}").check
    return check
