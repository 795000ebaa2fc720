"""Positions of models in the graph: layers by longest path, ordered by barycenters.

The layered layout of Sugiyama, Tagawa and Toda (1981) without its dummy nodes and coordinates: an
edge may cross boxes of layers between its two nodes, which hardly disturbs an overview.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

SWEEPS = 6
"""Number of times that the layers are ordered by their neighbors, alternately up and down."""


def place_nodes(parents: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Return the layer of each node, and the node's position in the layer.

    Args:
        parents: The parents of each node; nodes are numbered parents first.

    >>> place_nodes([[], [], [1], [0]])
    [(0, 1), (0, 0), (1, 0), (1, 1)]
    """
    layers: list[int] = []
    for above in parents:
        layers.append(1 + max((layers[one] for one in above), default=-1))
    children: list[list[int]] = [[] for _ in parents]
    for node, above in enumerate(parents):
        for parent in above:
            children[parent].append(node)
    rows: list[list[int]] = [[] for _ in range(max(layers, default=-1) + 1)]
    for node, layer in enumerate(layers):
        rows[layer].append(node)
    places = [0] * len(layers)

    def number(row: Sequence[int]) -> None:
        for at, node in enumerate(row):
            places[node] = at

    for row in rows:
        number(row)
    for sweep in range(SWEEPS):
        near, order = (parents, rows) if sweep % 2 else (children, rows[::-1])
        for row in order:
            middles = {}
            for node in row:
                around = near[node] or [node]
                middles[node] = fmean(
                    (places[one] + 0.5) / len(rows[layers[one]]) for one in around
                )
            row.sort(key=lambda node: (middles[node], node))
            number(row)
    return list(zip(layers, places, strict=True))
