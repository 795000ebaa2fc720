"""Building a project's snapshots, from parents to children."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING

from vde_dagster.base.failures import Problem
from vde_dagster.base.hashing import digest
from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.planning.checks import CHECKS_VERSION
from vde_dagster.planning.snapshots.built import BuildRules, BuildTask, BuiltSnapshot
from vde_dagster.planning.snapshots.identity import with_content_id
from vde_dagster.planning.snapshots.snapshot import CANONICALISER, Snapshot
from vde_dagster.project.dag import audit_order, parents_first
from vde_dagster.project.kinds import External
from vde_dagster.project.model import Column, Model
from vde_dagster.sql.grammar.compiled import spark_jar
from vde_dagster.sql.trees import ParsedQueries

if TYPE_CHECKING:
    from vde_dagster.base.workers import Workers


_FEW, _MANY = 100, 400
"""Worker processes are used after `_FEW` snapshots were built if at least `_MANY` models are left.

Snapshots from the cache do not count as built. If workers have already parsed queries, `_FEW` does
not apply.
"""
_TEXTS = ("query", "source", "origins")
_OTHERS = attrgetter(*(field.name for field in fields(Model) if field.name not in _TEXTS))

CatalogColumns = Callable[[ModelName], Sequence[tuple[str, str]] | None]
"""Returns (name, Spark SQL type) of a catalog table's columns; None if the table is missing."""

MoreMistakes = Callable[[Mapping[ModelName, Snapshot]], Iterable[ProjectError]]
"""Finds further mistakes, given the snapshots that were built."""


class SnapshotCache:
    """Stores built snapshots between runs. This base class stores nothing."""

    def get(self, key: str, model: Model) -> BuiltSnapshot | None:
        return None

    def put(self, key: str, built: BuiltSnapshot) -> None:
        pass


def build_snapshots(
    models: Mapping[ModelName, Model],
    catalog_columns: CatalogColumns,
    *,
    memo: SnapshotCache | None = None,
    parsed: ParsedQueries | None = None,
    scalar_functions: Sequence[str] = (),
    functions: Sequence[str] = (),
    warnings: list[Problem] | None = None,
    canonicaliser: str = CANONICALISER,
    more: MoreMistakes | None = None,
    revise: Callable[[Snapshot], Snapshot] | None = None,
    workers: Workers | None = None,
) -> dict[ModelName, Snapshot]:
    """Compute the snapshot of every model, in topological order.

    Args:
        models: The project's models, external ones included.
        catalog_columns: Returns the columns of an external table that does not declare all of them;
            empty if the table was not looked up. Raises ProjectError if it may not be read.
        memo: Caches results between processes.
        parsed: Syntax trees of queries that were parsed before. The call modifies the trees.
        scalar_functions: User functions that are deterministic and scalar.
        warnings: Receives likely mistakes. None for definitions that cannot be corrected, such as
            stored ones.
        canonicaliser: Version of the hashing code, stored in every snapshot.
        more: Finds further mistakes, such as in unit tests. All mistakes are reported at once.
        revise: Changes each snapshot before its children are built.
        workers: Processes that share the work if there are many snapshots to build.

    Raises:
        ProjectError: A snapshot cannot be built, for example because of an unknown column, or a
            check found a mistake. All models are checked, except descendants of a model whose
            snapshot cannot be built.
    """
    parsed = parsed or ParsedQueries()
    rules = BuildRules(tuple(scalar_functions), tuple(functions), canonicaliser)
    building = _Building(models, catalog_columns, memo or SnapshotCache(), parsed, rules, revise)
    try:
        building.run(workers)
    finally:
        parsed.clear()
    out, mistakes, problems, absent = building.results()
    if warnings is not None:
        if absent:
            from vde_dagster.planning.checks.names import missing_table_problems

            problems += missing_table_problems(absent, models)
        mistakes += [problem.error() for problem in problems if problem.certain]
        warnings += _merge_repeated_warnings(problem for problem in problems if not problem.certain)
    if more is not None:
        mistakes += more(out)
    if mistakes:
        raise ProjectError.combine(sort_mistakes(mistakes))
    return out


class _Building:
    def __init__(
        self,
        models: Mapping[ModelName, Model],
        catalog_columns: CatalogColumns,
        memo: SnapshotCache,
        parsed: ParsedQueries,
        rules: BuildRules,
        revise: Callable[[Snapshot], Snapshot] | None,
    ) -> None:
        self._models = models
        self._catalog_columns = catalog_columns
        self._memo = memo
        self._parsed = parsed
        self._rules = rules
        self._revise = revise
        jar = spark_jar()
        self._checks = (CHECKS_VERSION, "" if jar is None else jar.name)
        functions = (*sorted(rules.scalar_functions), "|", *sorted(rules.functions))
        self._functions = functions
        self._graph = {
            name: [p for p in model.depends_on if p in models] for name, model in models.items()
        }
        # What audits read is known before them, so that their columns can be looked at, too.
        self._before = audit_order(models).before
        self._needed = {n: [*p, *self._before.get(n, ())] for n, p in self._graph.items()}
        self._order = parents_first(self._needed)
        self._out: dict[ModelName, Snapshot] = {}
        self._seen: dict[ModelName, str] = {}
        self._mistakes: dict[ModelName, ProjectError] = {}
        self._problems: dict[ModelName, Iterable[Problem]] = {}
        self._absent: set[ModelName] = set()
        # Columns not looked up, and everything computed from them.
        self._unseen: set[ModelName] = set()

    def run(self, workers: Workers | None) -> None:
        built = 0
        for number, name in enumerate(self._order):
            if workers is not None and workers.count and built >= (not workers.owners) * _FEW:
                left = self._order[number:]
                if len(left) >= _MANY:
                    self._run_shared(left, workers)
                    return
            task = self._task(name)
            if task is not None:
                self._build(task)
                built += 1

    def _run_shared(self, names: Sequence[ModelName], workers: Workers) -> None:
        from vde_dagster.planning.shared_building import TaskExchange

        workers.start()
        exchange = TaskExchange(workers, self._rules)
        missing: dict[ModelName, int] = {}
        readers: dict[ModelName, list[ModelName]] = {name: [] for name in names}
        for name in names:
            needed = {one for one in self._needed[name] if one in readers}
            missing[name] = len(needed)
            for one in needed:
                readers[one].append(name)
        ready = deque(name for name in names if not missing[name])

        def finish(name: ModelName) -> None:
            for reader in readers[name]:
                missing[reader] -= 1
                if not missing[reader]:
                    ready.append(reader)

        while ready or exchange.unfinished:
            while ready:
                name = ready.popleft()
                task = self._task(name)
                if task is None:
                    finish(name)
                else:
                    exchange.add(task)
            exchange.send_tasks()
            task = exchange.take_task()
            if task is not None:
                self._build(task)
                finish(task.model.name)
            for done, built in exchange.receive(wait=task is None):
                if built is None:
                    self._build(done)
                else:
                    self._accept(done.model.name, built)
                    self._memo.put(done.key, built)
                finish(done.model.name)

    def _task(self, name: ModelName) -> BuildTask | None:
        """Return the task that builds a model's snapshot, or None if there is nothing to build."""
        out, graph, model = self._out, self._graph, self._models[name]
        if any(parent not in out for parent in graph[name]):
            return None  # A parent has a mistake, so what it has is not known.
        if _needs_catalog_columns(model):
            try:
                columns = self._catalog_columns(name)
            except ProjectError as error:
                self._mistakes[name] = ProjectError(
                    error.message, hint=error.hint, location=model.location
                )
                return None
            if columns is None and not model.columns:
                self._absent.add(name)
            elif columns is not None and not columns:
                self._unseen.add(name)
            elif columns:
                every = tuple(Column(column, type_) for column, type_ in columns)
                model = replace(model, kind=External(), columns=every)
        if not self._unseen.isdisjoint(graph[name]):
            self._unseen.add(name)
        parents = {parent: out[parent] for parent in sorted(graph[name])}
        audited = {one: out[one] for one in self._before.get(name, ()) if one in out}
        read = [self._seen[parent] for parent in (*parents, *audited)]
        texts = (self._rules.canonicaliser, *definition_texts(model), str(len(read)), *read)
        key = digest("memo", *self._checks, *texts, *self._functions)
        known = self._memo.get(key, model)
        if known is None:
            return BuildTask(key, model, parents, audited)
        # The memory has no text of the file, which is part of the id.
        self._accept(name, known._replace(snapshot=with_content_id(known.snapshot)))
        return None

    def _build(self, task: BuildTask) -> None:
        # What is as it was needs none of the code that makes versions and looks for mistakes.
        from vde_dagster.planning.build_snapshot import build_and_check_snapshot, hash_for_children

        key, model, parents, audited = task
        tree = self._parsed.take(model.query) if model.query else None
        try:
            snapshot, found = build_and_check_snapshot(model, parents, *self._rules, tree, audited)
        except ProjectError as error:
            self._mistakes[model.name] = error
        except RecursionError:
            self._mistakes[model.name] = _nested(model)
        else:
            built = BuiltSnapshot(snapshot, hash_for_children(snapshot), found)
            self._accept(model.name, built)
            self._memo.put(key, built)

    def _accept(self, name: ModelName, built: BuiltSnapshot) -> None:
        snapshot, seen, found = built
        self._out[name], self._seen[name] = _revised(snapshot, seen, self._revise)
        if name in self._unseen:
            found = tuple(replace(one, certain=one.certain and not one.untyped) for one in found)
        self._problems[name] = found

    def results(
        self,
    ) -> tuple[dict[ModelName, Snapshot], list[ProjectError], list[Problem], list[ModelName]]:
        out = {name: self._out[name] for name in self._order if name in self._out}
        mistakes = [self._mistakes[name] for name in self._order if name in self._mistakes]
        problems = [one for name in out for one in self._problems[name]]
        return out, mistakes, problems, [name for name in self._order if name in self._absent]


def _needs_catalog_columns(model: Model) -> bool:
    kind = model.kind
    return isinstance(kind, External) and not model.table and (not model.columns or kind.partial)


def _merge_repeated_warnings(warnings: Iterable[Problem]) -> Iterator[Problem]:
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
    from vde_dagster.planning.build_snapshot import hash_for_children

    return revised, hash_for_children(revised)


def definition_texts(model: Model) -> tuple[str | None, ...]:
    """Return texts that change whenever any part of a model's definition changes."""
    return (model.query, model.source, repr(_OTHERS(model)))


def sort_mistakes(mistakes: Sequence[ProjectError]) -> list[ProjectError]:
    """Split combined errors into single mistakes, sorted by file and line."""
    single = [one for mistake in mistakes for one in mistake.mistakes]
    return sorted(single, key=lambda one: one.location.order if one.location else ("", 0, 0))


def _nested(model: Model) -> ProjectError:
    return ProjectError(
        f"{model.name}: the query is nested too deeply",
        hint="split it into several models",
        location=model.location,
    )
