"""Tables for people: drawn here where they fit, as Rich would draw them."""

from __future__ import annotations

import io
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console, RenderableType

from vde_dagster.terminal.tables import simple_table

pytestmark = pytest.mark.long

CELLS = st.one_of(
    st.none(),
    st.integers(),
    st.sampled_from(["", "a", "ünï", "日本", "two words here", "[bold]", "a\tb", ":smile:"]),
    st.text("abc ", max_size=30),
)


def shown(what: RenderableType, width: int, terminal: bool) -> str:
    """What a console prints, without colours."""
    out = io.StringIO()
    Console(file=out, width=width, force_terminal=terminal).print(what)
    return re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())


@given(
    rows=st.integers(1, 4).flatmap(
        lambda size: st.lists(st.lists(CELLS, min_size=size, max_size=size), min_size=1, max_size=5)
    ),
    width=st.sampled_from([20, 40, 80, 200]),
    terminal=st.booleans(),
)
def test_a_table_looks_as_if_rich_had_drawn_it(
    rows: list[list[object]], width: int, terminal: bool
) -> None:
    table = simple_table([str(cell) for cell in rows[0]], rows[1:])

    assert shown(table, width, terminal) == shown(table._folded(), width, terminal)
