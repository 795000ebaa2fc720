"""Places of models in the graph."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vde_dagster.plugins.site.layout import place_nodes

pytestmark = pytest.mark.long


@st.composite
def graphs(draw: st.DrawFn) -> list[list[int]]:
    """Graphs whose nodes are numbered parents first."""
    count = draw(st.integers(0, 30))
    return [
        sorted(draw(st.sets(st.integers(0, at - 1), max_size=3))) if at else []
        for at in range(count)
    ]


def _crossings(parents: list[list[int]], places: list[tuple[int, int]]) -> int:
    edges = [
        (places[parent][1], places[node][1])
        for node, above in enumerate(parents)
        for parent in above
    ]
    return sum(
        (one[0] - other[0]) * (one[1] - other[1]) < 0
        for at, one in enumerate(edges)
        for other in edges[:at]
    )


@given(graphs())
def test_parents_are_in_layers_before_and_nobody_shares_a_place(parents: list[list[int]]) -> None:
    places = place_nodes(parents)
    assert len(set(places)) == len(places) == len(parents)
    for node, above in enumerate(parents):
        assert all(places[parent][0] < places[node][0] for parent in above)
        deepest = max((places[parent][0] for parent in above), default=-1)
        assert places[node][0] == deepest + 1
    assert place_nodes(parents) == places


def test_edges_that_need_not_cross_do_not() -> None:
    count = 8
    parents: list[list[int]] = [[] for _ in range(count)]
    parents += [[count - 1 - at] for at in range(count)]
    assert _crossings(parents, place_nodes(parents)) == 0
