"""Building a project's snapshots: versions flow from parents to children."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import NamedTuple

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks import CHECKS_VERSION
from vde_dagster.planning.snapshots.identity import identified
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, Snapshot
from vde_dagster.project.dag import audit_order, parents_first
from vde_dagster.project.kinds import External
from vde_dagster.project.model import Column, Model
from vde_dagster.sql.grammar.compiled import spark_jar
from vde_dagster.sql.trees import ParsedQueries

_TEXTS = ("query", "source", "origins")
_OTHERS = attrgetter(*(field.name for field in fields(Model) if field.name not in _TEXTS))

CatalogColumns = Callable[[ModelName], Sequence[tuple[str, str]] | None]
"""Looks up (name, Spark SQL type) of a table in the project's catalog; None if it is missing."""

MoreMistakes = Callable[[Mapping[ModelName, Snapshot]], Iterable[ProjectError]]
"""Yields further mistakes in the snapshots that could be made."""


class Built(NamedTuple):
    """A model's snapshot, the hash that its children see (`as_seen`), and its problems."""

    snapshot: Snapshot
    seen: str
    problems: tuple[Problem, ...] = ()


class Memo:
    """Cache of results by model; this default stores nothing."""

    def get(self, key: str, model: Model) -> Built | None:
        """Return the cached result for a key, with the model put into it, or None."""
        return None

    def put(self, key: str, built: Built) -> None:
        """Cache a model's result."""


def build_snapshots(
    models: Mapping[ModelName, Model],
    catalog_columns: CatalogColumns,
    *,
    memo: Memo | None = None,
    parsed: ParsedQueries | None = None,
    scalar_functions: Sequence[str] = (),
    functions: Sequence[str] = (),
    warnings: list[Problem] | None = None,
    canonicaliser: str = CANONICALISER,
    more: MoreMistakes | None = None,
    revise: Callable[[Snapshot], Snapshot] | None = None,
) -> dict[ModelName, Snapshot]:
    """Compute the snapshot of every model, in topological order.

    Args:
        models: The project's models, external ones included.
        catalog_columns: Columns of external tables that are not all declared. It returns no columns
            for a table that was not looked up; mistakes that unknown types may have caused are then
            only warnings.
        memo: Caches results between processes.
        parsed: Available trees of the models' queries; the call consumes them.
        scalar_functions: User functions that are deterministic and scalar.
        warnings: Receives likely mistakes; certain mistakes are raised. None for definitions that
            can no longer be corrected, such as stored ones.
        canonicaliser: Version of the hashing code, stored with each snapshot, part of every hash.
        more: Finds mistakes in a model's further files, so that all mistakes are reported at once.
        revise: Turns a snapshot computed from its definition alone into the one its children read.

    Raises:
        ProjectError: A query names a column that its parent does not have, or a check found a
            mistake. Descendants of a model with a mistake are not checked; all other models are.
    """
    memo, parsed = memo or Memo(), parsed or ParsedQueries()
    given = sorted(functions)
    jar = spark_jar()
    checks = (CHECKS_VERSION, "" if jar is None else jar.name)
    graph = {name: [p for p in model.depends_on if p in models] for name, model in models.items()}
    # What audits read is known before them, so that their columns can be looked at, too.
    before = audit_order(models).before
    out: dict[ModelName, Snapshot] = {}
    seen: dict[ModelName, str] = {}
    mistakes: list[ProjectError] = []
    problems: list[Problem] = []
    absent: list[ModelName] = []
    unseen: set[ModelName] = set()  # Columns not looked up, and everything computed from them.
    try:
        for name in parents_first({n: [*p, *before.get(n, ())] for n, p in graph.items()}):
            model = models[name]
            if any(parent not in out for parent in graph[name]):
                continue  # A parent has a mistake, so what it has is not known.
            if _needs_catalog_columns(model):
                columns = catalog_columns(name)
                if columns is None and not model.columns:
                    absent.append(name)
                elif columns is not None and not columns:
                    unseen.add(name)
                elif columns:
                    every = tuple(Column(column, type_) for column, type_ in columns)
                    model = replace(model, kind=External(), columns=every)
            if not unseen.isdisjoint(graph[name]):
                unseen.add(name)
            parents = {parent: out[parent] for parent in sorted(graph[name])}
            audited = {one: out[one] for one in before.get(name, ()) if one in out}
            read = [seen[parent] for parent in (*parents, *audited)]
            texts = (canonicaliser, *definition_texts(model), str(len(read)), *read)
            key = digest("memo", *checks, *texts, *sorted(scalar_functions), "|", *given)
            known = memo.get(key, model)
            if known is not None:
                # The memory has no text of the file, which is part of the id.
                out[name], seen[name] = _revised(identified(known.snapshot), known.seen, revise)
                problems += _likely(known.problems) if name in unseen else known.problems
                continue
            # What is as it was needs none of the code that makes versions and looks for mistakes.
            from vde_dagster.planning.build_snapshot import as_seen, checked_snapshot

            tree = parsed.take(model.query) if model.query else None
            try:
                snapshot, found = checked_snapshot(
                    model, parents, scalar_functions, functions, canonicaliser, tree, audited
                )
            except ProjectError as error:
                mistakes.append(error)
                continue
            except RecursionError:
                mistakes.append(_nested(model))
                continue
            alone = as_seen(snapshot)
            out[name], seen[name] = _revised(snapshot, alone, revise)
            problems += _likely(found) if name in unseen else found
            memo.put(key, Built(snapshot, alone, found))
    finally:
        parsed.clear()
    if warnings is not None:
        if absent:
            from vde_dagster.planning.checks.names import absent_tables

            problems += absent_tables(absent, models)
        mistakes += [problem.error() for problem in problems if problem.certain]
        warnings += _once(problem for problem in problems if not problem.certain)
    if more is not None:
        mistakes += more(out)
    if mistakes:
        raise ProjectError.combine(in_order(mistakes))
    return out


def _needs_catalog_columns(model: Model) -> bool:
    """Return whether a model is a table of the project's catalog with undeclared columns."""
    kind = model.kind
    return isinstance(kind, External) and not model.table and (not model.columns or kind.partial)


def _likely(problems: Iterable[Problem]) -> list[Problem]:
    """Turn problems that unknown types cause into warnings; return all other problems unchanged."""
    return [replace(one, certain=one.certain and not one.untyped) for one in problems]


def _once(warnings: Iterable[Problem]) -> Iterator[Problem]:
    """Yield warnings by their places, and equal warnings only once."""
    alike: dict[tuple[str, str | None], list[Problem]] = {}
    for warning in sorted(warnings, key=lambda problem: problem.location.order):
        alike.setdefault((warning.message, warning.hint), []).append(warning)
    for first, *others in alike.values():
        more = f" (and {len(others)} more like it)" if others else ""
        yield replace(first, message=first.message + more)


def _revised(
    snapshot: Snapshot, seen: str, revise: Callable[[Snapshot], Snapshot] | None
) -> tuple[Snapshot, str]:
    revised = snapshot if revise is None else revise(snapshot)
    if revised is snapshot:
        return snapshot, seen
    from vde_dagster.planning.build_snapshot import as_seen

    return revised, as_seen(revised)


def definition_texts(model: Model) -> tuple[str | None, ...]:
    """Return all parts of a model's definition as texts; long texts are not copied."""
    return (model.query, model.source, repr(_OTHERS(model)))


def in_order(mistakes: Sequence[ProjectError]) -> list[ProjectError]:
    """Sort mistakes by their places; mistakes without a place come first."""
    single = [one for mistake in mistakes for one in mistake.mistakes]
    return sorted(single, key=lambda one: one.location.order if one.location else ("", 0, 0))


def _nested(model: Model) -> ProjectError:
    return ProjectError(
        f"{model.name}: the query is nested too deeply",
        hint="split it into several models",
        location=model.location,
    )
