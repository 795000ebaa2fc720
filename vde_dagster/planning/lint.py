"""Lint rules: the rules that a project may hold its models to, and a model as they look at it.

What cannot be so is a mistake of every plan, rule or not; this is what may be, or may not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.planning.snapshots.snapshot import Snapshot
from vde_dagster.project.model import Model

if TYPE_CHECKING:
    from sqlglot import exp
import re
from collections import Counter


class Violation(NamedTuple):
    """A violation of a rule by a model.

    Args:
        message: What is wrong, in one sentence.
    """

    message: str
    location: SourceLocation


@dataclass(frozen=True)
class Linted:
    """A model with what rules may ask about it.

    Args:
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
        """Return a violation at words of the model's header, or at its begin."""
        from vde_dagster.planning.checks.diagnostics import place_in_header

        where = place_in_header(self.model, *words) if words else self.model.location
        return Violation(f"{self.model.name} {message}", where)


Check = Callable[[Linted], Iterator[Violation]]


LINT_VERSION = "1"
"""Raised whenever rules find more, or less: what is remembered of models is looked at again."""


def outermost(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the projections of the outermost SELECT, or of all sides of a set operation."""
    from sqlglot import exp

    waiting, found = [tree], []
    while waiting:
        query = waiting.pop()
        if isinstance(query, exp.SetOperation):
            waiting += [query.this, query.expression]
        elif isinstance(query, exp.Subquery):
            waiting.append(query.this)
        elif isinstance(query, exp.Select):
            found += query.expressions
    return found


def first_side(tree: exp.Expr | None) -> list[exp.Expr]:
    """Return the SELECT that names a query's columns: the first of a set operation."""
    from sqlglot import exp

    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return list(tree.expressions) if isinstance(tree, exp.Select) else []


_UNCLEAR = re.compile(r"may belong to|tables are called")


def ambiguousorinvalidcolumn(linted: Linted) -> Iterator[Violation]:
    """Find a column that may be one of several tables."""
    why = linted.snapshot.version.opaque or ""
    if _UNCLEAR.search(why):
        yield linted.violation(f"has a column that may be ambiguous, or not there: {why}")


def cronintervalalignment(linted: Linted) -> Iterator[Violation]:
    """Find parents with longer intervals than their reader's."""
    own = linted.snapshot.cadence.unit
    for name, parent in linted.parents.items():
        timed = parent.model.kind.by_intervals
        if timed and parent.cadence.unit.value > own.value:
            yield linted.violation(
                f"has intervals of a {_words(own.name)}, and reads {name}, which has those of a "
                f"{_words(parent.cadence.unit.name)}",
                "cron",
            )


def _words(unit: str) -> str:
    return unit.lower().replace("_", " ")


_NOT_KNOWN = re.compile(r"the columns of (.+) are not known")


def invalidselectstarexpansion(linted: Linted) -> Iterator[Violation]:
    """Find a star over a table whose columns are not known."""
    found = _NOT_KNOWN.search(linted.snapshot.version.opaque or "")
    if found:
        yield linted.violation(f"selects * of {found[1]}, whose columns are not known")


def noambiguousprojections(linted: Linted) -> Iterator[Violation]:
    """Find columns without a name, or with that of another."""
    columns = [column for column in first_side(linted.tree) if not column.is_star]
    names = [column.output_name.lower() for column in columns]
    for place, name in enumerate(names, start=1):
        if not name:
            yield linted.violation(f"has a column without a name, at position {place}")
    for name, count in Counter(filter(None, names)).items():
        if count > 1:
            yield linted.violation(f"selects {count} columns of the name '{name}'")


def nomissingaudits(linted: Linted) -> Iterator[Violation]:
    """Find a model without audits; what is only a part of other queries can have none."""
    if linted.model.kind.is_shown and not linted.model.audits:
        yield linted.violation("has no audits")


def nomissingdescription(linted: Linted) -> Iterator[Violation]:
    """Find a model of which nothing is said to people."""
    if not linted.model.description:
        yield linted.violation("has no description")


def nomissingexternalmodels(linted: Linted) -> Iterator[Violation]:
    """Find tables that a model reads and nobody declares."""
    if linted.undeclared:
        names = ", ".join(map(str, linted.undeclared))
        yield linted.violation(
            f"reads what external_models.yaml does not declare: {names} "
            "(vde create-external-models writes it)"
        )


def nomissinggrain(linted: Linted) -> Iterator[Violation]:
    """Find a model without a grain."""
    if linted.model.kind.owns_table and not linted.model.grains:
        yield linted.violation("has no grain")


def nomissingowner(linted: Linted) -> Iterator[Violation]:
    """Find a model that nobody owns."""
    if not linted.model.owner:
        yield linted.violation("has no owner")


def nomissingunittest(linted: Linted) -> Iterator[Violation]:
    """Find a model that no unit test is of; a seed has nothing to test."""
    model = linted.model
    if not linted.tested and (model.query is not None or model.python is not None):
        yield linted.violation("has no unit test")


def noselectstar(linted: Linted) -> Iterator[Violation]:
    """Find a star among the outermost columns of a query."""
    if any(column.is_star for column in outermost(linted.tree)):
        yield linted.violation("selects * instead of naming its columns")


RULES: Mapping[str, Check] = {
    check.__name__: check
    for check in (
        ambiguousorinvalidcolumn,
        cronintervalalignment,
        invalidselectstarexpansion,
        noambiguousprojections,
        nomissingaudits,
        nomissingdescription,
        nomissingexternalmodels,
        nomissinggrain,
        nomissingowner,
        nomissingunittest,
        noselectstar,
    )
}
"""The rules that there are without any of the project's own, by their names."""
