"""What models' audits read beside their models, and when that can be there.

An audit makes no edge of the graph: what it reads is no part of what its model is. It is run when
everything is filled that it reads. Where that waits for the audited model itself (two models that
audit each other's keys, a model whose audit reads its child), the audit is late: it runs when both
are filled.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from vde_dagster.base.names import ModelName
from vde_dagster.project.dag import Models, parents

Node = TypeVar("Node", bound=Hashable)


@dataclass(frozen=True, slots=True)
class AuditOrder:
    """What is filled before the audits of models are run.

    Args:
        before: By model, the models that its audits read and that do not wait for it: they come
            before it, as its parents do.
        late: By model, the models that its audits read and that do wait for it.
    """

    before: dict[ModelName, tuple[ModelName, ...]] = field(default_factory=dict)
    late: dict[ModelName, frozenset[ModelName]] = field(default_factory=dict)

    def is_late(self, model: ModelName, reads: Sequence[ModelName]) -> bool:
        """Say whether an audit of a model that reads some tables runs after all fills."""
        return not self.late.get(model, frozenset()).isdisjoint(reads)


def audit_order(models: Models) -> AuditOrder:
    """Find out which of the tables that audits read wait for the audited model.

    Args:
        models: The models; what they read without circles.
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
