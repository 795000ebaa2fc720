"""Graph of a project's models: order, neighbors, and the tables that audits read.

Audits add no edges to the graph: a model's definition does not depend on the tables that its audits
read. An audit runs when all tables that it reads are filled. If such a table can only be filled
after the audited model (two models that audit each other's keys, or an audit that reads the
model's child), the audit is late: it runs after both are filled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.errors import ProjectError
from vde_dagster.project.model import Model

Models = Mapping[ModelName, Model]
Node = TypeVar("Node", bound=Hashable)


def parents(models: Models, name: ModelName) -> tuple[ModelName, ...]:
    """Return the models among the tables that a model reads."""
    return tuple(parent for parent in models[name].depends_on if parent in models)


def children(models: Models) -> dict[ModelName, list[ModelName]]:
    """Map every model to the sorted names of the models that read it."""
    found: dict[ModelName, list[ModelName]] = {name: [] for name in models}
    for name in sorted(models):
        for parent in parents(models, name):
            found[parent].append(name)
    return found


def parents_first(graph: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """Sort nodes, given with their parents, so that parents come first; a correct order stays.

    >>> parents_first({"b": [], "a": ["b"]})
    ['b', 'a']
    >>> parents_first({"a": ["b"], "b": []})
    ['b', 'a']
    """
    seen: set[Node] = set()
    for node, before in graph.items():
        if not seen.issuperset(before):
            return list(TopologicalSorter(graph).static_order())
        seen.add(node)
    return list(graph)


def topological_order(models: Models) -> tuple[ModelName, ...]:
    """Return all models, parents before children, in a deterministic order.

    Raises:
        ProjectError: Models read each other in a cycle, which the message lists.
    """
    graph = {name: parents(models, name) for name in sorted(models)}
    try:
        return tuple(TopologicalSorter(graph).static_order())
    except CycleError as error:
        cycle: list[ModelName] = list(reversed(error.args[1]))[:-1]
        first = cycle.index(min(cycle))
        cycle = [*cycle[first:], *cycle[:first]]
        path = " → ".join(str(name) for name in [*cycle, cycle[0]])
        raise ProjectError(
            f"models read each other in a cycle: {path}",
            hint="remove one of these models from its reader's query",
            location=models[cycle[0]].location,
            models=tuple(cycle),
        ) from None


def ancestors(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return all other models that the given models read, directly or indirectly."""
    return _reach(names, {name: parents(models, name) for name in models})


def descendants(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return all other models that read the given models, directly or indirectly."""
    return _reach(names, children(models))


def needed_models(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return the given models and all models that they or their audits read, at any depth."""
    edges = {
        name: [one for one in (*model.depends_on, *model.audited_against) if one in models]
        for name, model in models.items()
    }
    return {*names} | _reach(names, edges)


def _reach(
    names: Iterable[ModelName], edges: Mapping[ModelName, Sequence[ModelName]]
) -> set[ModelName]:
    start = set(names)
    begun: set[ModelName] = set()
    return {found for name in start & edges.keys() for found in _walk(name, edges, begun)} - start


@dataclass(frozen=True, slots=True)
class AuditOrder:
    """Order of audits and fills, for audits that read tables of other models.

    Args:
        before: For each model, tables that its audits read and its query does not. They are filled
            before the model.
        late: For each model, tables that its audits read and that can only be filled after the
            model.
    """

    before: dict[ModelName, tuple[ModelName, ...]] = field(default_factory=dict)
    late: dict[ModelName, frozenset[ModelName]] = field(default_factory=dict)

    def is_late(self, model: ModelName, reads: Sequence[ModelName]) -> bool:
        """Return whether a model's audit must wait for a table that is filled after the model."""
        return not self.late.get(model, frozenset()).isdisjoint(reads)


def audit_order(models: Models) -> AuditOrder:
    """Return the order of audits and fills; the models must have no cycles."""
    order = AuditOrder()
    read = {
        name: [one for one in model.audited_against if one in models]
        for name, model in models.items()
        if model.audits
    }
    read = {name: others for name, others in read.items() if others}
    if not read:
        return order
    graph = {name: [*parents(models, name), *read.get(name, ())] for name in models}
    circle = strong_components(graph)
    for name, others in read.items():
        late = frozenset(other for other in others if circle[other] == circle[name])
        if late:
            order.late[name] = late
        order.before[name] = tuple(other for other in others if other not in late)
    return order


def strong_components(graph: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
    """Map each node to the number of its strongly connected component (Kosaraju's algorithm).

    >>> strong_components({"a": ["b"], "b": ["a"], "c": ["a"]})
    {'c': 0, 'b': 1, 'a': 1}
    """
    back: dict[Node, list[Node]] = {node: [] for node in graph}
    for node, others in graph.items():
        for other in others:
            back[other].append(node)
    begun: set[Node] = set()
    ended = [node for start in graph for node in _walk(start, graph, begun)]
    begun.clear()
    return {
        node: number
        for number, start in enumerate(reversed(ended))
        for node in _walk(start, back, begun)
    }


def _walk(start: Node, graph: Mapping[Node, Sequence[Node]], begun: set[Node]) -> Iterator[Node]:
    waiting: list[tuple[Node, bool]] = [(start, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            yield node
        elif node not in begun:
            begun.add(node)
            waiting.append((node, True))
            waiting += [(other, False) for other in graph[node] if other not in begun]
