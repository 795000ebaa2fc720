"""The graph of a project's models: order and neighbours."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
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

    Raises:
        graphlib.CycleError: They come after each other in a circle.

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


def _reach(
    names: Iterable[ModelName], edges: Mapping[ModelName, Sequence[ModelName]]
) -> set[ModelName]:
    start = set(names)
    found: set[ModelName] = set()
    waiting = [near for name in start for near in edges.get(name, ())]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(edges.get(name, ()))
    return found - start
