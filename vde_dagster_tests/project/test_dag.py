from __future__ import annotations

from pathlib import Path

from vde_dagster.base.names import ModelName
from vde_dagster.errors import SourceLocation
from vde_dagster.project import dag
from vde_dagster.project.kinds import Full
from vde_dagster.project.model import Model


def name(text: str) -> ModelName:
    return ModelName.parse(text)


def model(text: str, *parents: str, tags: tuple[str, ...] = ()) -> Model:
    return Model(
        name(text),
        Full(),
        SourceLocation(Path(f"models/{text}.sql"), 1),
        depends_on=tuple(sorted(map(name, parents))),
        tags=tags,
    )


MODELS = {
    m.name: m
    for m in (
        model("mart.d", "stg.b", "stg.c", tags=("Finance",)),
        model("raw.a"),
        model("stg.b", "raw.a", "elsewhere.x"),
        model("stg.c", "raw.a"),
        model("mart.e", "stg.c"),
    )
}


def test_parents_come_before_children() -> None:
    order = [str(n) for n in dag.topological_order(MODELS)]

    assert order[0] == "raw.a"
    assert order.index("mart.d") > max(order.index("stg.b"), order.index("stg.c"))


def test_neighbours() -> None:
    assert dag.ancestors(MODELS, [name("mart.d")]) == {name("raw.a"), name("stg.b"), name("stg.c")}
    assert dag.descendants(MODELS, [name("stg.c")]) == {name("mart.d"), name("mart.e")}
