"""The files of a kind: its value, its meaning and its writer."""

from __future__ import annotations

import pytest

from vde_dagster.planning.kinds.base import _MEANINGS
from vde_dagster.project.kinds import KINDS, Kind
from vde_dagster.spark import strategies

BUILT_IN = {**KINDS.by_name, **KINDS.unwritten}


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_files_of_a_kind_have_one_name(name: str) -> None:
    kind: type[Kind] = BUILT_IN[name]
    file = kind.__module__.rpartition(".")[2]
    parts: list[type] = [type(_MEANINGS[kind])]
    if kind.owns_table:
        parts.append(type(strategies.base._strategies[kind]))
    assert [part.__module__.rpartition(".")[2] for part in parts] == [file] * len(parts)
    assert [part.__module__.split(".")[1:3] for part in (kind, *parts)] == [
        ["project", "kinds"],
        ["planning", "kinds"],
        ["spark", "strategies"],
    ][: 1 + len(parts)]
