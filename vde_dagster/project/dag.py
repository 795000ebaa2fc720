"""The graph of a project's models: order, neighbours, and the tables that audits read.

An audit makes no edge of the graph: what it reads is no part of what its model is. It is run when
everything is filled that it reads. Where that waits for the audited model itself (two models that
audit each other's keys, a model whose audit reads its child), the audit is late: it runs when both
are filled.
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
    """Return the models among what a model reads."""
    return tuple(parent for parent in models[name].depends_on if parent in models)


def children(models: Models) -> dict[ModelName, list[ModelName]]:
    """Return for every model the models that read it, sorted."""
    found: dict[ModelName, list[ModelName]] = {name: [] for name in models}
    for name in sorted(models):
        for parent in parents(models, name):
            found[parent].append(name)
    return found


def parents_first(graph: Mapping[Node, Sequence[Node]]) -> list[Node]:
    """Return a graph's nodes, each after those that it names; as they stand if they do already.

    Args:
        graph: What each node comes after; all of them are nodes of the graph.

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
    """Return all models, parents before children, the same order for the same project.

    Raises:
        ProjectError: Models read each other in a circle; names it.
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
            f"models read each other in a circle: {path}",
            hint="take one of these out of its reader's query",
            location=models[cycle[0]].location,
            models=tuple(cycle),
        ) from None


def ancestors(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return everything that the given models read, directly or not, without themselves."""
    return _reach(names, {name: parents(models, name) for name in models})


def descendants(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return everything that reads the given models, directly or not, without themselves."""
    return _reach(names, children(models))


def needed_models(models: Models, names: Iterable[ModelName]) -> set[ModelName]:
    """Return models with everything that they and their audits read, directly or not."""
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
    """The order of audits: the models to be filled before each.

    Args:
        before: By model, the models that its audits read and that come before it, as its parents.
        late: By model, the models that its audits read and that wait for it.
    """

    before: dict[ModelName, tuple[ModelName, ...]] = field(default_factory=dict)
    late: dict[ModelName, frozenset[ModelName]] = field(default_factory=dict)

    def is_late(self, model: ModelName, reads: Sequence[ModelName]) -> bool:
        """Say whether an audit of a model that reads some tables runs after all fills."""
        return not self.late.get(model, frozenset()).isdisjoint(reads)


def audit_order(models: Models) -> AuditOrder:
    """Find out which of the tables that audits read wait for the audited model.

    Args:
        models: Without circles.
    """
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
    circle = circles(graph)
    for name, others in read.items():
        late = frozenset(other for other in others if circle[other] == circle[name])
        if late:
            order.late[name] = late
        order.before[name] = tuple(other for other in others if other not in late)
    return order


def circles(graph: Mapping[Node, Sequence[Node]]) -> dict[Node, int]:
    """Number the strongly connected components of a graph (Kosaraju's two walks).

    Args:
        graph: By node, where its edges lead; all of them are nodes of the graph.

    >>> circles({"a": ["b"], "b": ["a"], "c": ["a"]})
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
    """Yield in depth what was not begun before, each node when all behind it was."""
    waiting: list[tuple[Node, bool]] = [(start, False)]
    while waiting:
        node, done = waiting.pop()
        if done:
            yield node
        elif node not in begun:
            begun.add(node)
            waiting.append((node, True))
            waiting += [(other, False) for other in graph[node] if other not in begun]
